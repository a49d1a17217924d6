"""Errors as a page: who asks for a page shall read a sentence, not JSON; who is nobody yet is sent to sign in.

All that refuses (rates, the gate, a route, the framework) answers in one form, problem+json. Here, outside of all of them, such
an answer to a request for a page is put into words.
"""

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.web.pages.look import back, show
from penstock.web.problems import MEDIA_TYPE

MACHINES = ("/api/", "/metrics", "/health/", "/static/")


class Readable:
    """Turns problems into pages, for pages."""

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
        except Exception:  # who is outside of us logs it, and would answer in JSON
            if not begun_at_all:
                detail = "Something went wrong inside of Penstock. Its log has the details."
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
