"""`/api/session`: sign in to the pages with a key, and out again. The browser keeps a signed cookie, not the key.

The cookie is sent by no page of another site (SameSite=Strict), is out of reach for scripts (HttpOnly), and is sent over
HTTPS alone unless the API listens on loopback.
"""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.access import Principal
from penstock.access.session import COOKIE, LIVES, open_session
from penstock.web.access import Door
from penstock.web.listen import is_loopback
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/session", tags=["keys"], responses=RESPONSES)


class SignIn(BaseModel):
    """A key to sign in with."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(max_length=200)


class SignedIn(BaseModel):
    """Who is signed in now."""

    name: str
    tenant: str
    scopes: list[str]


@routes.post("")
async def sign_in(request: Request, response: Response, wish: SignIn) -> SignedIn:
    """Open a session of this browser, for twelve hours or until the key is revoked."""
    door: Door = request.app.state.door
    door.refuse_foreign_page(request.scope, request.headers)
    principal = await open_in_browser(request, response, wish.key)
    return SignedIn(name=principal.name, tenant=principal.tenant, scopes=sorted(principal.scopes))


async def open_in_browser(request: Request, response: Response, key: str) -> Principal:
    """Let the browser keep a session of this key; BadKey if there is none."""
    door: Door = request.app.state.door
    principal = await door.keyring.find(key.strip())
    secure = not is_loopback(request.app.state.product.settings.api.host)
    response.set_cookie(
        COOKIE,
        await open_session(door.signatures, principal.key_id or 0),
        max_age=int(LIVES.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=secure,
    )
    return principal


@routes.delete("", status_code=204)
async def sign_out(request: Request, response: Response) -> None:
    """Forget the session in this browser."""
    door: Door = request.app.state.door
    door.refuse_foreign_page(request.scope, request.headers)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
