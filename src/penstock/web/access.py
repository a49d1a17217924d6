"""Who may ask at all, before any route: only this machine, and no page of a foreign site in its browser.

There are no keys yet, so the API listens on loopback alone (listen.py). Two ways would still lead a stranger in: a web page
that sends a request across sites (its `Origin` is foreign), and a name of the stranger's own that points to 127.0.0.1 (its
`Host` is foreign). Both are refused. Here, too, are the headers that every answer has, and the paths that no route can
take: not UTF-8, or with control characters.
"""

from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.web.listen import is_loopback
from penstock.web.problems import plain

# Nothing that is stored here may run in a browser, be framed, be guessed at, or stay in a cache.
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Gate:
    """Refuses foreign requests and impossible addresses; adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, *, host: str = "") -> None:
        self._app = app
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if reason := self._foreign(headers):
            await plain(403, reason)(scope, receive, send_guarded)
        elif reason := _impossible(scope):
            await plain(422, reason)(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    def _foreign(self, headers: Headers) -> str:
        host = headers.get("host")
        if host is not None and not self._is_ours(host):
            return (
                f"The request is for {host}, and this API answers for this machine alone: use http://localhost or "
                "http://127.0.0.1. A reverse proxy must send such a Host header."
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return f"The request comes from a page of another site ({origin}), which may not use this API."
        return ""

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:  # brackets that do not match
            return False
        return is_loopback(name) or name == self._host or name.endswith(".localhost")


def _impossible(scope: Scope) -> str:
    """The server decodes what is not UTF-8 to something else, and a name would be kept that nobody sent."""
    for what, raw in (("path", scope.get("raw_path", b"")), ("query", scope["query_string"])):
        try:
            text = unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            return f"The {what} is not UTF-8."
        if "\0" in text:
            return f"The {what} has a NUL character in it, which no name or text can have."
        if what == "path" and any(ord(char) < 32 or ord(char) == 127 for char in text):
            return "The path has a control character in it, such as a line break, which no name can have."
    return ""
