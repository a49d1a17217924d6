"""A span around each request, below the one that its headers name: what it puts in belongs to the same trace."""

from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.telemetry import extract_trace, is_traced, span

QUIET = ("/health/", "/metrics")  # asked every few seconds, and nobody's work
# FastAPI's own spans and logs, which older versions do not have, would hold addresses with their queries, and errors with their
# messages. Nobody has masked those.
UNTRACED: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False}


class Traced:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_traced() or scope["path"].startswith(QUIET):
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        with extract_trace(dict(Headers(scope=scope))), span(method, **{"http.request.method": method}) as current:

            async def send_noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    current.set_attribute("http.response.status_code", message["status"])
                    if (route := scope.get("route")) is not None:  # not the path: names of documents are in it
                        current.update_name(f"{method} {route.path}")
                        current.set_attribute("http.route", route.path)
                await send(message)

            await self._app(scope, receive, send_noted)
