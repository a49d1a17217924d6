"""Authentication, before any route: by a key, a browser session, a signed link, or from this machine while it alone can ask.

A key comes as `Authorization: Bearer pk_…`. A browser that has signed in sends a cookie; what it wants to change must come from
a page of ours (`Origin`). Without either, a request is granted only if the API listens on loopback (and `api.require_key`
is off), comes from there, is for there (its `Host`: a foreign name may point to 127.0.0.1), and does not come from a page
of another site. A link is good for the content of one document. The route declares the scope that it needs (dependencies.py).

The rest of the request runs as the tenant, in the database as well. Here, too, are the headers that every answer has, and
the paths that no route can take: not UTF-8, or with control characters.
"""

import re
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.access import LOCAL, SESSION_COOKIE, Keyring, Principal, SigningKeys, check_link, read_session
from penstock.database import Database, only
from penstock.documents import tenant_of
from penstock.errors import BadKey, DatabaseTrouble, DatabaseUnreachable, NotAllowed, NotFound, Refused
from penstock.settings import ApiSettings
from penstock.web.middleware.errors import database_away, plain, refuse
from penstock.web.server import is_loopback

# Nothing that is stored here may run in a browser, be framed, be sniffed, or stay in a cache.
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
# Without authentication: probes, signing in and out, and the assets of pages.
OPEN = {"/health/live", "/health/ready", "/api/session", "/sign-in", "/sign-out"}
OPEN_BELOW = "/static/"
SIGNED = re.compile(r"/api/inbox/[^/]+")  # a POST there carries a signature in place of a key (sources.py)
HARMLESS = {"GET", "HEAD", "OPTIONS"}
CONTENT = re.compile(r"/api/documents/(\d{1,18})/content")
PRINCIPAL = "penstock.principal"  # in the scope of a request


class SecurityHeaders:
    """Adds the headers that every answer has, and refuses impossible addresses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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

        if reason := _impossible(scope):
            await plain(422, reason)(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)


class Authentication:
    """Lets requests in with a principal, or answers with the reason for the refusal."""

    def __init__(self, app: ASGIApp, *, authenticator: "Authenticator") -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_open(scope["path"]) or _is_signed(scope):
            await self._app(scope, receive, send)
            return
        try:
            principal = scope[PRINCIPAL] = await self._authenticator.admit(scope)
        except Refused as error:
            await refuse(error)(scope, receive, send)
        except (DatabaseTrouble, DatabaseUnreachable) as error:
            await database_away(scope["path"], error)(scope, receive, send)
        else:
            with only(principal.tenant):
                await self._app(scope, receive, send)


class Authenticator:
    """Finds the principal of a request. One for each process."""

    def __init__(self, database: Database, chosen: ApiSettings) -> None:
        self._database = database
        self._chosen = chosen
        self.keyless = is_loopback(chosen.host) and not chosen.require_key
        self.keyring = Keyring(database)
        self.signatures = SigningKeys(database)

    async def admit(self, scope: Scope) -> Principal:
        """The principal of a request; Refused if it has none."""
        headers = Headers(scope=scope)
        if (given := headers.get("authorization")) is not None:
            return await self._by_key(given)
        if (link := _link(scope)) is not None:
            return await self._by_link(*link)
        if (session := _cookie(headers)) is not None:
            self.refuse_foreign_page(scope, headers)
            return await self.keyring.find_by_id(await read_session(self.signatures, session))
        return self._local(scope, headers)

    async def _by_key(self, given: str) -> Principal:
        kind, _, text = given.partition(" ")
        if kind.lower() != "bearer":
            raise BadKey("Send the key as `Authorization: Bearer pk_…`.")
        return await self.keyring.find(text.strip())

    async def _by_link(self, document: int, token: str, method: str) -> Principal:
        signing = await self.signatures.known(token.split(".")[1] if token.count(".") == 3 else "")
        tenant = await tenant_of(self._database, document)
        # For a document that is not there, too: the answer is the same.
        check_link(signing.secrets, token, method=method, document=document, tenant=tenant or "", now=signing.now)
        if tenant is None:
            raise NotFound(f"Document {document} does not exist.")
        return Principal(tenant, frozenset({"read"}), "a link")

    def _local(self, scope: Scope, headers: Headers) -> Principal:
        """Without a key: only from this machine, to this machine, and not from a page of another site."""
        if not self.keyless:
            raise BadKey("A key is needed: send `Authorization: Bearer pk_…`. `penstock keys create` makes one.")
        client = scope.get("client")
        if client is not None and not is_loopback(client[0]):
            raise BadKey("Without a key, only this machine may ask: send `Authorization: Bearer pk_…`.")
        host = headers.get("host")
        if host is not None and not _is_here(host):
            raise NotAllowed(
                f"The request is for {host}, and without a key this API answers for this machine alone: use http://localhost "
                "or http://127.0.0.1, or send a key."
            )
        self.refuse_foreign_page(scope, headers, always=True)
        return LOCAL

    def refuse_foreign_page(self, scope: Scope, headers: Headers, *, always: bool = False) -> None:
        """A page of another site may not use what its visitor may. Browsers that do not send `Origin` send Sec-Fetch-Site."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        foreign = origin is not None and _netloc(origin) != headers.get("host")
        unknown = origin is None and scope["method"] not in HARMLESS and site not in {None, "same-origin", "none"}
        if foreign and (always or scope["method"] not in HARMLESS):
            raise NotAllowed(f"The request comes from a page of another site ({origin}), which may not use this API.")
        if unknown:
            raise NotAllowed("The request comes from a page of another site, which may not use this API.")


def _is_signed(scope: Scope) -> bool:
    return scope["method"] == "POST" and SIGNED.fullmatch(scope["path"]) is not None


def is_open(path: str) -> bool:
    return path in OPEN or path.startswith(OPEN_BELOW)


def _link(scope: Scope) -> tuple[int, str, str] | None:
    """The document of a link in the address, the link, and the method."""
    place = CONTENT.fullmatch(scope["path"])
    if place is None or scope["method"] not in HARMLESS or b"link=" not in scope["query_string"]:
        return None
    given = parse_qs(scope["query_string"].decode("ascii", "replace")).get("link", [""])
    return int(place[1]), given[0], "GET"


def _cookie(headers: Headers) -> str | None:
    try:
        cookies: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    found: Any = cookies.get(SESSION_COOKIE)
    return None if found is None else str(found.value)


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # brackets that do not match
        return ""


def _is_here(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:  # brackets that do not match
        return False
    return is_loopback(name) or name.endswith(".localhost")


def _impossible(scope: Scope) -> str:
    """The server decodes what is not UTF-8 to something else, and a name would be kept that was not sent."""
    for what, raw in (("path", scope.get("raw_path", b"")), ("query", scope["query_string"])):
        try:
            text = unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            return f"The {what} is not UTF-8."
        if "\0" in text:
            return f"The {what} contains a NUL character, which no name or text can have: leave it out."
        if what == "path" and any(ord(char) < 32 or ord(char) == 127 for char in text):
            return "The path contains a control character, such as a line break, which no name can have: leave it out."
    return ""
