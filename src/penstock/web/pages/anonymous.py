"""Pages that need no caller: `/sign-in`, `/sign-out`, and error pages.

Signing in takes a key by a plain form; the browser keeps a signed cookie, as with `/api/session`. All refusals (rate limits,
authentication, routes, the framework) are problem+json. `ErrorPages`, outside of all of them, renders such an answer as HTML
for a browser, or sends an unauthenticated one to sign in.
"""

import json
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.access import SESSION_COOKIE
from penstock.errors import BadKey
from penstock.web.api.access import open_in_browser
from penstock.web.middleware.auth import Authenticator
from penstock.web.middleware.errors import MEDIA_TYPE
from penstock.web.pages.render import back, show

routes = APIRouter(include_in_schema=False)

MACHINES = ("/api/", "/metrics", "/health/", "/static/")  # paths that no browser shows as a page

Next = Annotated[str, Query(alias="next", max_length=2000)]


@routes.get("/sign-in", response_class=Response)
async def ask_key(request: Request, wanted: Next = "/") -> Response:
    """The form."""
    authenticator: Authenticator = request.app.state.authenticator
    return show(request, None, "sign_in.html", wanted=_local(wanted), fault="", keyless=authenticator.keyless)


@routes.post("/sign-in", response_class=Response)
async def sign_in(
    request: Request, key: Annotated[str, Form(max_length=200)] = "", wanted: Annotated[str, Form(alias="next")] = "/"
) -> Response:
    """A session of this browser."""
    authenticator: Authenticator = request.app.state.authenticator
    authenticator.refuse_foreign_page(request.scope, request.headers)
    answer = back(_local(wanted))
    try:
        await open_in_browser(request, answer, key)
    except BadKey as error:
        values = {"wanted": _local(wanted), "fault": str(error), "keyless": authenticator.keyless}
        return show(request, None, "sign_in.html", status=401, **values)
    return answer


@routes.post("/sign-out", response_class=Response)
async def sign_out(request: Request) -> Response:
    """Forget the session in this browser."""
    authenticator: Authenticator = request.app.state.authenticator
    authenticator.refuse_foreign_page(request.scope, request.headers)
    answer = back("/sign-in", "signed-out")
    answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
    return answer


def _local(wanted: str) -> str:
    """A page of ours: never an address of another site, in whatever way browsers read it."""
    ours = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
    return wanted if ours and all(ord(char) > 32 for char in wanted) else "/"


# -- error pages ----------------------------------------------------------------------------------------------------


class ErrorPages:
    """Turns problem+json into a page for a browser that asked for one, and a 401 into the way to sign in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(MACHINES) or not _is_browser(scope):
            await self._app(scope, receive, send)
            return
        begun: Message | None = None
        body = bytearray()
        begun_at_all = False

        async def send_readable(message: Message) -> None:
            nonlocal begun, begun_at_all
            begun_at_all = True
            if message["type"] == "http.response.start" and _is_problem(message):
                begun = message
            elif begun is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await _answer(scope, begun, bytes(body))(scope, receive, send)

        try:
            await self._app(scope, receive, send_readable)
        except Exception:  # the server logs it, and would answer in JSON
            if not begun_at_all:
                detail = "Internal error: the log of the API has the details."
                problem = {"title": "Internal Server Error", "status": 500, "detail": detail}
                await show(Request(scope), None, "problem.html", status=500, problem=problem)(scope, receive, send)
            raise


def _is_browser(scope: Scope) -> bool:
    return "text/html" in Headers(scope=scope).get("accept", "")


def _is_problem(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "") == MEDIA_TYPE


def _answer(scope: Scope, begun: Message, body: bytes) -> Any:
    status: int = begun["status"]
    problem = json.loads(body)
    if status == HTTPStatus.UNAUTHORIZED and scope["method"] in {"GET", "HEAD"}:
        wanted = scope["path"] + (f"?{scope['query_string'].decode('ascii')}" if scope["query_string"] else "")
        return back(f"/sign-in?{urlencode({'next': wanted})}" if wanted != "/" else "/sign-in")
    page = show(Request(scope), None, "problem.html", status=status, problem=problem)
    if after := Headers(raw=begun["headers"]).get("retry-after"):
        page.headers["Retry-After"] = after
    return page
