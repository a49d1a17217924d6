"""The route walk: every route of the API × everybody who may not use it, with another's documents present.

Each route has a line in ROUTES. A route that is new fails here until it has one: say which scope it needs, how to ask for
something of the tenant `mill`, and what a stranger gets (404, or an answer without a trace).
"""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from fastapi import APIRouter, FastAPI

from penstock.access import revoke_key
from penstock.product import Product
from penstock.web import make_app
from penstock.web.dependencies import check_declared
from tests.web.conftest import Answer
from tests.web.two_tenants import CANARY, SETTING_OVERRIDES, TwoTenants, fill, move_clock, staged

NOWHERE = 987_654_321  # a number that nothing has


@dataclass(frozen=True)
class Ask:
    """A request, without its key."""

    path: str
    options: dict[str, Any]


def at(path: str, **options: Any) -> Callable[[TwoTenants], Ask]:
    return lambda two_tenants: Ask(path.format_map(vars(two_tenants)), options)


def form() -> Any:
    made = aiohttp.FormData(default_to_multipart=True)
    made.add_field("file", b"hello", filename="form.txt")
    return made


@dataclass(frozen=True)
class Route:
    """How a route is asked for something of `mill`, and what strangers get."""

    method: str
    path: str
    scope: str  # read, write, admin; open: no key is needed; signed: the message carries a signature (test_inbox.py)
    ask: Callable[[TwoTenants], Ask]
    stranger: int = 404  # what another tenant gets
    neighbour: int = 404  # what a key of the same tenant gets that is for another collection
    fleet: bool = False  # about everybody: only for who runs the fleet, in place of the owner


def fleet(method: str, path: str, scope: str, asked: str, **options: Any) -> Route:
    return Route(method, path, scope, at(asked, **options), 403, 403, fleet=True)


DOCUMENT = "/api/documents/{id}"
COLLECTION = "/api/collections/{collection}"

# In an order in which the owner can ask for all of them: what destroys comes last.
ROUTES = [
    Route("GET", "/health/live", "open", at("/health/live")),
    Route("GET", "/health/ready", "open", at("/health/ready")),
    Route("POST", "/api/session", "open", at("/api/session", json={"key": "pk_no"})),
    Route("DELETE", "/api/session", "open", at("/api/session")),
    Route("POST", "/api/inbox/{source}", "signed", at("/api/inbox/orders", json={"id": 1})),
    Route("GET", "/api/openapi.json", "read", at("/api/openapi.json"), 200, 200),
    Route("GET", "/metrics", "read", at("/metrics"), 403, 403, fleet=True),
    fleet("GET", "/api/jobs", "read", "/api/jobs?limit=1000"),
    fleet("GET", "/api/lanes", "read", "/api/lanes"),
    fleet("GET", "/api/dead", "read", "/api/dead"),
    fleet("GET", "/api/dead/{fingerprint}", "read", "/api/dead/{cause}"),
    fleet("GET", "/api/pauses", "read", "/api/pauses"),
    fleet("GET", "/api/schedules", "read", "/api/schedules"),
    fleet("GET", "/api/workers", "read", "/api/workers"),
    fleet("GET", "/api/limits", "read", "/api/limits"),
    fleet("GET", "/api/findings", "read", "/api/findings"),
    fleet("GET", "/api/jobs/{job}", "read", "/api/jobs/{job}"),
    fleet("POST", "/api/jobs/{job}/cancel", "admin", "/api/jobs/{job}/cancel"),
    fleet("POST", "/api/dead/redrive", "admin", "/api/dead/redrive", json={"kind": "none"}),
    fleet("POST", "/api/dead/discard", "admin", "/api/dead/discard", json={"kind": "none", "reason": "x"}),
    fleet("POST", "/api/pauses", "admin", "/api/pauses", json={"what": "kind", "name": "tidy_documents"}),
    fleet("DELETE", "/api/pauses/{what}/{name}", "admin", "/api/pauses/kind/tidy_documents"),
    fleet("POST", "/api/findings/{finding}/acknowledge", "admin", "/api/findings/no-worker/acknowledge"),
    fleet("POST", "/api/limits/{limit}/close", "admin", "/api/limits/ocr/close"),
    fleet("POST", "/api/schedules/{schedule}/run", "admin", "/api/schedules/tidy-documents/run"),
    fleet("POST", "/api/schedules/{schedule}/pause", "admin", "/api/schedules/tidy-documents/pause"),
    fleet("POST", "/api/schedules/{schedule}/resume", "admin", "/api/schedules/tidy-documents/resume"),
    fleet("DELETE", "/api/schedules/{schedule}", "admin", "/api/schedules/tidy-documents"),
    Route("GET", "/api/sources", "read", at("/api/sources"), 200, 403),
    Route("GET", "/api/messages", "read", at("/api/messages?limit=1000"), 200, 403),
    Route("POST", "/api/messages/{message}/retry", "write", at("/api/messages/{message}/retry"), 404, 403),
    Route(
        "POST",
        "/api/streams/{stream}/messages",
        "write",
        at("/api/streams/attic2/messages", json={"messages": [{"message_id": "1", "text": "hello"}]}),
        201,
        403,
    ),
    Route("GET", "/api/streams", "read", at("/api/streams?limit=1000"), 200, 403),
    Route("GET", "/api/streams/{stream}", "read", at("/api/streams/attic"), 404, 403),
    Route("GET", "/api/streams/{stream}/messages", "read", at("/api/streams/attic/messages"), 404, 403),
    Route("GET", "/api/memos", "read", at(f"/api/memos?q={CANARY}&every=true"), 200, 403),
    Route("DELETE", "/api/streams/{stream}/messages/{number}", "write", at("/api/streams/attic/messages/1"), 404, 403),
    Route("DELETE", "/api/streams/{stream}", "write", at("/api/streams/attic"), 404, 403),
    Route("GET", "/api/status", "read", at("/api/status?collection=attic")),
    Route("GET", "/api/events", "read", at("/api/events"), 200, 200),
    Route("GET", "/api/search", "read", at(f"/api/search?q={CANARY}&k=100&neighbours=2"), 200, 200),
    Route("GET", "/api/facts/search", "read", at(f"/api/facts/search?q={CANARY}&k=100"), 200, 200),
    Route("GET", f"{DOCUMENT}/facts", "read", at("/api/documents/{letter}/facts")),
    Route("GET", f"{COLLECTION}/entities", "read", at("/api/collections/attic/entities")),
    Route("GET", f"{COLLECTION}/extraction", "read", at("/api/collections/attic/extraction")),
    Route("POST", f"{COLLECTION}/extract", "write", at("/api/collections/attic/extract", json={})),
    Route("GET", "/api/collections", "read", at("/api/collections?limit=1000"), 200, 200),
    Route("POST", "/api/collections", "write", at("/api/collections", json={"name": "attic2"}), 201, 403),
    Route("GET", COLLECTION, "read", at("/api/collections/attic")),
    Route("PATCH", COLLECTION, "admin", at("/api/collections/attic", json={"chunk_size": 900}), 404, 403),
    Route("GET", "/api/documents", "read", at("/api/documents?limit=1000"), 200, 200),
    Route("GET", f"{COLLECTION}/documents/{{name}}", "read", at("/api/collections/attic/documents/letter.txt")),
    Route("PUT", f"{COLLECTION}/documents/{{name}}", "write", at("/api/collections/attic/documents/n.txt", data=b"x")),
    Route(
        "POST",
        f"{COLLECTION}/documents",
        "write",
        lambda _: Ask("/api/collections/attic/documents", {"data": form()}),
    ),
    Route(
        "POST",
        "/api/packets",
        "write",
        lambda _: Ask("/api/packets?collection=attic&name=p", {"data": form()}),
    ),
    Route("GET", "/api/packets", "read", at("/api/packets?limit=1000"), 200, 200),
    Route("GET", "/api/packets/{id}", "read", at("/api/packets/{packet}")),
    Route("GET", "/api/packets/{id}/why", "read", at("/api/packets/{packet}/why")),
    Route("POST", "/api/crawls", "write", at("/api/crawls", json={"url": "https://a.example/", "collection": "attic"})),
    Route("GET", "/api/crawls", "read", at("/api/crawls?limit=1000"), 200, 200),
    Route("GET", "/api/crawls/{id}", "read", at("/api/crawls/{crawl}")),
    Route("GET", "/api/crawls/{id}/pages", "read", at("/api/crawls/{crawl}/pages")),
    Route("GET", "/api/crawls/{id}/why", "read", at("/api/crawls/{crawl}/why")),
    Route("POST", "/api/crawls/{id}/stop", "write", at("/api/crawls/{crawl}/stop")),
    fleet("GET", "/api/jobs/{job}/why", "read", "/api/jobs/{job}/why"),
    Route("GET", f"{DOCUMENT}/pages/{{number}}/image", "read", at("/api/documents/{packet}/pages/1/image")),
    Route("GET", DOCUMENT, "read", at("/api/documents/{letter}")),
    Route("GET", f"{DOCUMENT}/text", "read", at("/api/documents/{letter}/text")),
    Route("GET", f"{DOCUMENT}/pages", "read", at("/api/documents/{letter}/pages")),
    Route("GET", f"{DOCUMENT}/chunks", "read", at("/api/documents/{letter}/chunks")),
    Route("GET", f"{DOCUMENT}/why", "read", at("/api/documents/{waiting}/why")),
    Route("GET", f"{DOCUMENT}/history", "read", at("/api/documents/{broken}/history")),
    Route("GET", f"{DOCUMENT}/versions", "read", at("/api/documents/{letter}/versions")),
    Route("GET", f"{DOCUMENT}/content", "read", at("/api/documents/{letter}/content")),
    Route("POST", f"{DOCUMENT}/link", "read", at("/api/documents/{letter}/link")),
    Route("GET", f"{DOCUMENT}/receipt", "read", at("/api/documents/{gone}/receipt")),
    Route("GET", "/api/receipts", "read", at("/api/receipts"), 200, 403),
    Route("POST", f"{DOCUMENT}/dismiss", "write", at("/api/documents/{broken}/dismiss")),
    Route("POST", f"{DOCUMENT}/retry", "write", at("/api/documents/{broken}/retry")),
    Route("POST", f"{DOCUMENT}/cancel", "write", at("/api/documents/{waiting}/cancel")),
    Route("POST", f"{DOCUMENT}/restore", "write", at("/api/documents/{letter}/restore")),
    Route("DELETE", DOCUMENT, "write", at("/api/documents/{letter}")),
    Route(
        "POST", "/api/documents/delete", "write", at("/api/documents/delete", json={"collection": "attic", "all": True})
    ),
    Route("GET", "/api/keys", "admin", at("/api/keys?limit=1000"), 200, 403),
    Route("POST", "/api/keys", "admin", at("/api/keys", json={"name": "x", "collections": ["attic"]}), 404, 403),
    Route("DELETE", COLLECTION, "admin", at("/api/collections/attic"), 404, 403),
    Route("POST", f"{COLLECTION}/restore", "admin", at("/api/collections/attic/restore"), 404, 403),
    Route("DELETE", "/api/keys/{key}", "admin", at("/api/keys/{key}"), 404, 403),
]
GUARDED = [route for route in ROUTES if route.scope not in {"open", "signed"}]


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    return dict(SETTING_OVERRIDES)


@pytest.fixture
async def two_tenants(product: Product) -> AsyncIterator[TwoTenants]:
    async with staged(product) as made:
        yield made


async def ask(two_tenants: TwoTenants, route: Route, key: str | None, **headers: str) -> Answer:
    wanted = route.ask(two_tenants)
    return await two_tenants.ask(key, route.method, wanted.path, headers=headers, **wanted.options)


# -- every route is here ------------------------------------------------------------------------------------------


def served(app: FastAPI) -> dict[tuple[str, str], str]:
    """Routes with the scope that they declare. Two are not in the document, because they are not for programs that read it."""
    found = {("GET", "/metrics"): "read", ("GET", "/api/openapi.json"): "read"}
    for path, methods in app.openapi()["paths"].items():
        for method, facts in methods.items():
            needed = facts["security"][0] if facts.get("security") else {"key": ["open"]}
            [scope] = needed.get("key", ["signed"])
            found[method.upper(), path] = scope
    return found


async def test_every_route_is_in_the_table(product: Product) -> None:
    declared = {(route.method, route.path): route.scope for route in ROUTES}
    assert len(declared) == len(ROUTES)
    found = served(make_app(product))
    new, old = found.keys() - declared.keys(), declared.keys() - found.keys()
    assert not new, (
        f"{sorted(new)} is not walked: add a line to ROUTES of tests/web/test_walk.py that says who may use it."
    )
    assert not old, f"{sorted(old)} is not there any more: take its line out of ROUTES of tests/web/test_walk.py."
    assert found == declared, "A route needs another scope than ROUTES of tests/web/test_walk.py says."


def test_a_route_without_a_scope_is_not_served() -> None:
    app, part = FastAPI(docs_url=None, redoc_url=None), APIRouter(prefix="/api/secrets")
    check_declared(app)

    @part.get("/{id}")
    async def show_secret() -> str:
        return ""

    app.include_router(part)
    with pytest.raises(TypeError, match=r"/api/secrets/\{id\} does not declare the scope"):
        check_declared(app)


# -- who may not --------------------------------------------------------------------------------------------------


async def test_without_a_good_key(two_tenants: TwoTenants, product: Product) -> None:
    database = product.app.database
    revoked = await two_tenants.make_key("revoked", tenant="mill", scopes=["admin"])
    await revoke_key(database, str(revoked))
    await two_tenants.make_key("expired", tenant="mill", scopes=["admin"], expires_in=timedelta(minutes=5))
    await move_clock(product, timedelta(minutes=5))
    good = two_tenants.keys["owner"]
    bad = {
        "none": None,
        "no key": "hello",
        "empty": "",
        "too long": good + "A",
        "with a line": good[:-1] + "%0a",
        "another end": good[:-1] + ("A" if good[-1] != "A" else "B"),
        "another prefix": good[:3] + "zzzzzzzz" + good[11:],
        "unknown": "pk_aaaaaaaa_" + "A" * 43,
        "revoked": "revoked",
        "expired": "expired",
    }
    for route in GUARDED:
        for label, key in bad.items():
            answer = await ask(two_tenants, route, key)
            where = f"{route.method} {route.path} with {label}"
            assert answer.status == 401, f"{where}: {answer.status} {answer.body!r}"
            assert answer.headers["WWW-Authenticate"] == "Bearer", where
            assert not two_tenants.leaks(answer), where
            assert good[12:] not in answer.body.decode(), where
    for header in ("", "Bearer", f"Basic {good}", good, f"bearer{good}", "Bearer " + "x" * 5000):
        answer = await two_tenants.api.get("/api/documents", headers={"Authorization": header})
        assert answer.status == 401, header
    # What is not there says so only to who may ask; a method that is not there, too.
    for method, path in (
        ("GET", "/api/nothing"),
        ("HEAD", "/api/documents"),
        ("OPTIONS", "/api/documents"),
        ("GET", "/"),
    ):
        assert (await two_tenants.ask(None, method, path)).status == 401, path
    for route in ROUTES:
        if route.scope == "open" and route.method == "GET":
            assert (await ask(two_tenants, route, None)).status == (
                503 if route.path == "/health/ready" else 200
            )  # no worker


async def test_with_too_small_a_scope(two_tenants: TwoTenants) -> None:
    weaker = {"read": "mill writes", "write": "mill reads", "admin": "mill writes"}
    for route in GUARDED:
        if route.path == "/api/openapi.json":  # what the API can do is no secret to who has a key
            continue
        answer = await ask(two_tenants, route, weaker[route.scope])
        where = f"{route.method} {route.path}"
        assert answer.status == 403, f"{where}: {answer.status} {answer.body!r}"
        assert "scope" in answer.json["detail"], where
        assert not two_tenants.leaks(answer), where
    for route in GUARDED:
        if route.scope == "admin":
            assert (await ask(two_tenants, route, "mill reads")).status == 403, route.path


def twin(wanted: Ask) -> Ask:
    """The same request for something that nobody has."""
    path = re.sub(r"/(documents|keys|messages)/\d+", rf"/\1/{NOWHERE}", wanted.path).replace("attic", "nothing")
    return Ask(path, {key: _renamed(value) for key, value in wanted.options.items()})


def _renamed(value: Any) -> Any:
    match value:
        case str():
            return value.replace("attic", "nothing")
        case dict():
            return {key: _renamed(each) for key, each in value.items()}
        case list():
            return [_renamed(each) for each in value]
    return value


def plainly(answer: Answer) -> tuple[int, str, dict[str, str]]:
    """An answer without the names and numbers that were asked for."""
    text = re.sub(r"\b\d+\b", "N", answer.body.decode()).replace("nothing", "attic")
    headers = {k: v for k, v in answer.headers.items() if k.lower() not in {"date", "content-length", "server-timing"}}
    return answer.status, text, headers


async def test_strangers_find_nothing(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    before = await everything(two_tenants)
    for key in ("rival", "rival porch", "mill porch", "fleet"):
        for route in GUARDED:
            where = f"{route.method} {route.path} as {key}"
            if key == "fleet" and route.fleet and route.path != "/metrics":  # it may: see test_engine.py
                continue
            expected = _expected(route, key)
            answer = await ask(two_tenants, route, key)
            assert answer.status == expected, f"{where}: {answer.status} {answer.body!r}"
            if not (key == "fleet" and route.fleet):  # they are about everybody, and say so
                assert not two_tenants.leaks(answer), f"{where}: {two_tenants.leaks(answer)} in {answer.body!r}"
            if expected == 404:  # not yours is not there, to the letter
                wanted = twin(route.ask(two_tenants))
                there_is_none = await two_tenants.ask(key, route.method, wanted.path, **wanted.options)
                assert plainly(answer) == plainly(there_is_none), where
    assert await everything(two_tenants) == before, "and has changed nothing"


def _expected(route: Route, key: str) -> int:
    some = key.endswith("porch")
    if some and route.scope == "admin":
        return 403
    if key == "mill porch":
        return route.neighbour
    if some and route.neighbour == 403:
        return 403
    if key == "fleet" and route.fleet:
        return 200
    return route.stranger


async def everything(two_tenants: TwoTenants) -> list[Any]:
    """What `mill` has, past the API."""
    tables = ("documents", "versions", "collections", "receipts", "removals", "events", "blobs")
    rows: list[Any] = []
    for table in tables:
        rows += await two_tenants.api.product.app.database.pool.repeat(
            lambda session, table=table: session.fetch(  # type: ignore[misc]
                f"select to_jsonb(t) from penstock.{table} as t where tenant = 'mill' order by 1"
            )
        )
    return rows


async def test_lists_of_strangers_have_no_trace(two_tenants: TwoTenants) -> None:
    """Filters, pages and searches of all forms, which the table asks in one form each."""
    await fill(two_tenants)
    paths = [
        f"/api/search?q={CANARY}&mode=words",
        f"/api/search?q={CANARY}&mode=vectors",
        f'/api/search?q=weir&metadata={{"for":"{CANARY}"}}'.replace('"', "%22").replace("{", "%7B").replace("}", "%7D"),
        "/api/search?q=repaired&type=text/plain&offset=0&k=100",
        "/api/collections?limit=1",
        "/api/collections?after=a&limit=1",
        f"/api/documents?parent={two_tenants.letter}",
        f"/api/documents?parent={two_tenants.members[0] - 1}",
        *(f"/api/documents?status={state}" for state in ("queued", "processing", "ready", "failed", "deleted")),
        "/api/documents?collection=porch",
        "/api/status",
        "/api/status?collection=porch",
    ]
    for key in ("rival", "rival porch", "mill porch", "fleet"):
        for path in paths:
            answer = await two_tenants.ask(key, "GET", path)
            assert answer.status == 200, f"{path} as {key}: {answer.body!r}"
            assert not two_tenants.leaks(answer), f"{path} as {key}: {answer.body!r}"
            if "/api/documents" in path:
                assert answer.json["items"] == [], path
            if "/api/search" in path:
                assert (answer.json["hits"], answer.json["more"]) == ([], False), path
            if "/api/status" in path:
                assert set(answer.json["documents"].values()) == {0}, path
        # A number of another's document in each place where one is taken.
        for number in (
            *two_tenants.members,
            two_tenants.broken,
            two_tenants.gone,
            two_tenants.waiting,
            two_tenants.letter,
        ):
            for rest in ("", "/text", "/pages", "/chunks", "/why", "/history", "/content", "/receipt", "/versions"):
                answer = await two_tenants.ask(key, "GET", f"/api/documents/{number}{rest}")
                assert answer.status == 404, f"{rest} as {key}: {answer.body!r}"
                assert not two_tenants.leaks(answer)


async def test_a_page_of_collections_does_not_name_others(two_tenants: TwoTenants) -> None:
    """`next` is the name of the last one, which must be one of those that the key sees."""
    seen: list[str] = []
    after = ""
    for _ in range(5):
        page = await two_tenants.ask("mill porch", "GET", f"/api/collections?limit=1&after={after}")
        assert not two_tenants.leaks(page)
        seen += [each["name"] for each in page.json["items"]]
        assert page.json["next"] in {None, "porch"}
        if (after := page.json["next"]) is None:
            break
    assert seen == ["porch"]


async def test_the_right_key(two_tenants: TwoTenants) -> None:
    """So that the refusals above are about the key, and not about the request."""
    await fill(two_tenants)
    for route in GUARDED:
        answer = await ask(two_tenants, route, "fleet" if route.fleet else "owner")
        where = f"{route.method} {route.path}"
        allowed = {404} if route.path == "/api/limits/{limit}/close" else set()  # no limit is declared here
        assert answer.status not in {401, 403, 404, 500} - allowed, f"{where}: {answer.status} {answer.body!r}"
    # The last line of the table has revoked the owner's own key.
    assert (await two_tenants.ask("mill reads", "GET", "/api/documents/" + str(two_tenants.letter))).json[
        "status"
    ] == "deleted"


async def test_why_tells_of_workers_to_who_runs_them(two_tenants: TwoTenants) -> None:
    """A job's row names workers, and how many permits they use for everybody."""
    for key, told in (("owner", {"document"}), ("mill porch", {"document"}), ("fleet", {"document", "job"})):
        put = await two_tenants.ask(key, "PUT", f"/api/collections/porch/documents/{key[:4]}{len(key)}.txt", data=b"x")
        reader = "mill porch" if key == "mill porch" else key
        why = (await two_tenants.ask(reader, "GET", f"{put.headers['Location']}/why")).json
        assert why["evidence"].keys() == told, key
        assert why["sentence"]


async def test_a_key_of_one_collection_in_it(two_tenants: TwoTenants) -> None:
    """It can do there what its scopes say, and sees its own."""
    put = await two_tenants.ask("mill porch", "PUT", "/api/collections/porch/documents/a.txt", data=b"mine")
    assert put.status == 202, put.body
    number = put.json["id"]
    shown = (await two_tenants.ask("mill porch", "GET", f"/api/documents/{number}")).json
    assert (shown["name"], shown["uploaded_by"]) == ("a.txt", "mill porch")
    assert [each["id"] for each in (await two_tenants.ask("mill porch", "GET", "/api/documents")).json["items"]] == [
        number
    ]
    assert (await two_tenants.ask("mill porch", "GET", "/api/status")).json["documents"]["queued"] == 1
    assert (await two_tenants.ask("rival porch", "GET", f"/api/documents/{number}")).status == 404
    removed = await two_tenants.ask(
        "mill porch", "POST", "/api/documents/delete", json={"collection": "porch", "all": True}
    )
    assert (removed.json["deleted"], removed.json["more"]) == (1, False)


async def test_the_same_idempotency_key_of_two_tenants(two_tenants: TwoTenants) -> None:
    path, options = "/api/collections/porch/documents/a.txt", {"data": b"mine", "headers": {"Idempotency-Key": "k1"}}
    numbers: dict[str, int] = {}
    for key in ("owner", "rival", "owner", "rival"):
        answer = await two_tenants.ask(key, "PUT", path, **options)
        assert answer.status == 202, answer.body
        assert numbers.setdefault(key, answer.json["id"]) == answer.json["id"]
    assert numbers["owner"] != numbers["rival"]
