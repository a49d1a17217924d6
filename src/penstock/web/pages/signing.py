"""`/sign-in`: with a key, by a plain form. The browser keeps a signed cookie, as with `/api/session`."""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from penstock.access.session import COOKIE
from penstock.errors import BadKey
from penstock.web.access import Door
from penstock.web.pages.look import back, show
from penstock.web.sessions import open_in_browser

routes = APIRouter(include_in_schema=False)

Next = Annotated[str, Query(alias="next", max_length=2000)]


@routes.get("/sign-in", response_class=Response)
async def ask_key(request: Request, wanted: Next = "/") -> Response:
    """The form."""
    door: Door = request.app.state.door
    return show(request, None, "sign_in.html", wanted=_local(wanted), fault="", keyless=door.keyless)


@routes.post("/sign-in", response_class=Response)
async def sign_in(
    request: Request, key: Annotated[str, Form(max_length=200)] = "", wanted: Annotated[str, Form(alias="next")] = "/"
) -> Response:
    """A session of this browser."""
    door: Door = request.app.state.door
    door.refuse_foreign_page(request.scope, request.headers)
    answer = back(_local(wanted))
    try:
        await open_in_browser(request, answer, key)
    except BadKey as error:
        facts = {"wanted": _local(wanted), "fault": str(error), "keyless": door.keyless}
        return show(request, None, "sign_in.html", status=401, **facts)
    return answer


@routes.post("/sign-out", response_class=Response)
async def sign_out(request: Request) -> Response:
    """Forget the session in this browser."""
    door: Door = request.app.state.door
    door.refuse_foreign_page(request.scope, request.headers)
    answer = back("/sign-in", "signed-out")
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _local(wanted: str) -> str:
    """A page of ours: never an address of another site, in whatever way browsers read it."""
    ours = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
    return wanted if ours and all(ord(char) > 32 for char in wanted) else "/"
