"""`/api/keys`: create, list and revoke the keys of the caller's tenant. `/api/session`: sign in to the pages, and out.

A key is shown once, in the answer that creates it. A browser keeps a signed cookie, not the key.
"""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock import access
from penstock.access import SESSION_COOKIE, SESSION_LIFETIME, Principal, open_session
from penstock.web.dependencies import Admins, AfterNumber, Limit, Page, cut
from penstock.web.middleware.auth import Authenticator
from penstock.web.middleware.errors import RESPONSES
from penstock.web.server import is_loopback

routes = APIRouter(prefix="/api/keys", tags=["keys"], responses=RESPONSES)
session_routes = APIRouter(prefix="/api/session", tags=["keys"], responses=RESPONSES)


class NewKey(BaseModel):
    """A key to create."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="The holder; shown with the documents that it uploads.")
    scopes: list[Literal["read", "write", "admin"]] = Field(["read"], max_length=3)
    collections: list[str] | None = Field(
        None, max_length=1000, description="Collections that it is limited to; null for all."
    )
    expires_in: float | None = Field(None, gt=0, le=315_360_000, description="Seconds; null for never.")


class ApiKey(BaseModel):
    """A key, without its secret."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    name: str
    prefix: str = Field(description="Its first characters, after pk_.")
    scopes: list[str]
    collections: list[str] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None = Field(description="The last time, to a few minutes.")
    usable: bool


class CreatedKey(ApiKey):
    """A new key."""

    key: str = Field(description="The key itself; it cannot be shown again.")


@routes.post("", status_code=201)
async def create_key(caller: Admins, body: NewKey) -> CreatedKey:
    """Create a key of this tenant."""
    made = await access.create_key(
        caller.app.database,
        body.name,
        tenant=caller.tenant,
        scopes=body.scopes,
        collections=body.collections,
        expires_in=None if body.expires_in is None else timedelta(seconds=body.expires_in),
        created_by=caller.principal.name,
    )
    shown = ApiKey.model_validate(made)
    return CreatedKey(**shown.model_dump(), key=made.key.text if made.key else "")


@routes.get("")
async def list_keys(caller: Admins, after: AfterNumber = 0, limit: Limit = 100) -> Page[ApiKey, int]:
    """The keys of this tenant, including expired and revoked ones."""
    last = min(after, 2**31 - 1)  # a key's id is an int
    found = await access.list_keys(caller.app.database, tenant=caller.tenant, after=last, most=limit + 1)
    return cut([ApiKey.model_validate(each) for each in found], limit, lambda each: each.id)


@routes.delete("/{key}")
async def revoke_key(caller: Admins, key: Annotated[int, Path(ge=1, lt=2**31)]) -> ApiKey:
    """Revoke a key; it stops working within a second."""
    return ApiKey.model_validate(await access.revoke_key(caller.app.database, str(key), tenant=caller.tenant))


# -- browser sessions -----------------------------------------------------------------------------------------------


class SignIn(BaseModel):
    """A key to sign in with."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(max_length=200)


class BrowserSession(BaseModel):
    """The signed-in caller."""

    name: str
    tenant: str
    scopes: list[str]


@session_routes.post("")
async def sign_in(request: Request, response: Response, body: SignIn) -> BrowserSession:
    """Open a session of this browser, for twelve hours or until the key is revoked."""
    authenticator: Authenticator = request.app.state.authenticator
    authenticator.refuse_foreign_page(request.scope, request.headers)
    principal = await open_in_browser(request, response, body.key)
    return BrowserSession(name=principal.name, tenant=principal.tenant, scopes=sorted(principal.scopes))


async def open_in_browser(request: Request, response: Response, key: str) -> Principal:
    """Let the browser keep a session of this key; BadKey if the key is not known."""
    authenticator: Authenticator = request.app.state.authenticator
    principal = await authenticator.keyring.find(key.strip())
    secure = not is_loopback(request.app.state.product.settings.api.host)
    response.set_cookie(
        SESSION_COOKIE,
        await open_session(authenticator.signatures, principal.key_id or 0),
        max_age=int(SESSION_LIFETIME.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=secure,
    )
    return principal


@session_routes.delete("", status_code=204)
async def sign_out(request: Request, response: Response) -> None:
    """Forget the session in this browser."""
    authenticator: Authenticator = request.app.state.authenticator
    authenticator.refuse_foreign_page(request.scope, request.headers)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
