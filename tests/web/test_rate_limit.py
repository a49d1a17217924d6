"""Who asks too often is refused with a time to come again; nobody else notices, and search is never a long queue."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI, Response
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock import telemetry
from penstock.settings import Rate, RateSettings, parse_rate
from penstock.web.middleware.errors import handle_problems, plain
from penstock.web.middleware.rate_limit import (
    PLACES,
    AddressLimits,
    Buckets,
    RateLimits,
    SearchSlot,
    SearchSlots,
    address_of,
)
from penstock.web.middleware.request_body import RequestBodies
from tests.web.api_server import raw, serving
from tests.web.conftest import Answer, Api

# -- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rate"),
    [("50/s", Rate(50, 1)), (" 3000 / min ", Rate(3000, 60)), ("1/h", Rate(1, 3600)), ("off", None)],
)
def test_rates_that_can_be(text: str, rate: Rate | None) -> None:
    assert parse_rate(text) == rate
    assert parse_rate(RateSettings(search=text).search) == rate


@pytest.mark.parametrize("text", ["", "50", "50/d", "-1/s", "1.5/s", "0/s", "fast", "1/s off"])
def test_rates_that_cannot_be(text: str) -> None:
    with pytest.raises(ValidationError, match="or off for no limit"):
        RateSettings(search=text)


# -- buckets ------------------------------------------------------------------------------------------------------


def test_twice_the_number_at_once_and_then_the_rate() -> None:
    buckets = Buckets(Rate(10, 1))
    assert [buckets.wait("ada", 100.0) for _ in range(20)] == [0] * 20
    assert buckets.wait("ada", 100.0) == pytest.approx(0.1)
    assert buckets.wait("ada", 100.0) == pytest.approx(0.1), "a refusal is not counted"
    assert buckets.wait("bob", 100.0) == 0
    assert [buckets.wait("ada", 100.5) for _ in range(6)] == [0] * 5 + [pytest.approx(0.1)]


def test_what_is_charged_is_paid_later() -> None:
    buckets = Buckets(Rate(10, 1))
    buckets.charge("ada", 40, 100.0)
    assert buckets.wait("ada", 100.0) == pytest.approx(2.1)
    assert buckets.wait("ada", 102.2) == 0


def test_full_buckets_are_forgotten() -> None:
    buckets = Buckets(Rate(1, 1))
    for number in range(1000):
        buckets.wait(number, 100.0 + number)
    assert len(buckets) <= 2


def test_as_many_buckets_as_may_be() -> None:
    buckets = Buckets(Rate(1, 3600), most=100)
    buckets.wait("ada", 100.0)
    for number in range(1000):
        buckets.wait(number, 100.0)
        buckets.wait("ada", 100.0)
    assert len(buckets) == 100
    assert buckets.wait("ada", 100.0) > 0, "one who comes again and again is not forgotten"


def test_whose_address_it_is() -> None:
    def at(host: str) -> str:
        return address_of({"type": "http", "client": (host, 1)})

    assert at("2001:db8::1") == at("2001:db8::ffff:1") != at("2001:db8:0:1::1")
    assert at("::ffff:10.0.0.1") == at("10.0.0.1") != at("10.0.0.2")
    assert at("fe80::1%eth0") == at("fe80::2")
    assert address_of({"type": "http", "client": None}) == ""


# -- turns --------------------------------------------------------------------------------------------------------


async def waiting(turns: SearchSlots) -> "asyncio.Task[SearchSlot | None]":
    """One who is in the queue."""
    task = asyncio.create_task(turns.take())
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def take(turns: SearchSlots) -> SearchSlot:
    turn = await turns.take()
    assert turn is not None
    return turn


async def test_a_rush_is_waited_out_in_order() -> None:
    turns = SearchSlots(2, patience=30, standing=30)
    first, second = await take(turns), await take(turns)
    third, fourth = await waiting(turns), await waiting(turns)
    first.end()
    first.end()
    await asyncio.wait([third])
    assert not fourth.done(), "a turn that is ended twice is one turn"
    second.end()
    assert await fourth is not None


async def test_nobody_waits_for_long() -> None:
    turns = SearchSlots(1, patience=0.05)
    turn = await take(turns)
    assert await turns.take() is None
    turn.end()
    (await take(turns)).end()


async def test_in_overload_the_newest_is_next() -> None:
    turns = SearchSlots(1, patience=30, standing=-1)
    turns.note(1000)
    turn = await take(turns)
    old, new = await waiting(turns), await waiting(turns)
    turn.end()
    assert await new is not None
    assert not old.done()
    old.cancel()


async def test_in_overload_one_waits_as_long_as_a_search_takes() -> None:
    turns = SearchSlots(1, patience=1000, standing=-1)
    await take(turns)
    async with asyncio.timeout(10):
        assert await turns.take() is None


async def test_the_oldest_leaves_when_there_is_no_place() -> None:
    turns = SearchSlots(1, patience=30, standing=30)
    await take(turns)
    queue = [await waiting(turns) for _ in range(PLACES)]
    queue.append(await waiting(turns))
    assert await queue[0] is None
    assert not any(task.done() for task in queue[1:])
    for task in queue[1:]:
        task.cancel()


async def test_who_goes_away_takes_no_turn_along() -> None:
    turns = SearchSlots(1, patience=30)
    turn = await take(turns)
    gone, surprised = await waiting(turns), await waiting(turns)
    gone.cancel()
    turn.end()  # for `surprised`, who is cancelled in the same moment
    surprised.cancel()
    await asyncio.wait([gone, surprised])
    async with asyncio.timeout(10):
        (await take(turns)).end()


# -- requests -----------------------------------------------------------------------------------------------------


class Keys:
    """As the check of keys does it: 401 for a wrong one, else the request is somebody's."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get("x-key")
        if key == "wrong":
            await plain(401, "There is no such key.")(scope, receive, send)
            return
        scope["penstock.principal"] = SimpleNamespace(key_id=int(key) if key else None, tenant="default")
        await self._app(scope, receive, send)


class Site:
    """A small application behind the limits; its searches are answered when they may be."""

    def __init__(self, port: int, client: aiohttp.ClientSession, searching: asyncio.Semaphore) -> None:
        self.port = port
        self.searching = searching
        self._client = client
        self.may_answer = asyncio.Event()

    async def ask(self, path: str, method: str = "GET", key: str = "") -> Answer:
        headers = {"X-Key": key} if key else {}
        async with self._client.request(method, f"http://127.0.0.1:{self.port}{path}", headers=headers) as answer:
            body = await answer.read()
            decoded = await answer.json(content_type=None) if "json" in answer.content_type else None
            return Answer(answer.status, answer.headers, body, decoded)

    async def statuses(self, path: str, count: int, **options: str) -> list[int]:
        return [(await self.ask(path, **options)).status for _ in range(count)]


Opens = Callable[..., AbstractAsyncContextManager[Site]]


@pytest.fixture
def opens() -> Opens:
    @asynccontextmanager
    async def site(**rates: Any) -> AsyncIterator[Site]:
        app = FastAPI()
        made: Site

        @app.get("/api/search")
        async def search(size: int = 1) -> Response:
            made.searching.release()
            await made.may_answer.wait()
            return Response(b"x" * size)

        @app.api_route("/{name:path}", methods=["GET", "PUT"])
        async def anything(name: str) -> str:
            return name

        chosen = RateSettings(**rates)
        app.add_middleware(RateLimits, rates=chosen)
        app.add_middleware(Keys)
        app.add_middleware(AddressLimits, rates=chosen)
        app.add_middleware(RequestBodies)
        handle_problems(app)
        async with serving(app) as port, aiohttp.ClientSession() as client:
            made = Site(port, client, asyncio.Semaphore(0))
            made.may_answer.set()
            yield made
            made.may_answer.set()

    return site


async def test_each_key_and_kind_has_its_own(opens: Opens) -> None:
    async with opens(search="1/h", read="2/h", write="1/h") as site:
        assert await site.statuses("/api/search", 3, key="1") == [200, 200, 429]
        assert await site.statuses("/a", 5, key="1") == [200] * 4 + [429]
        assert await site.statuses("/a", 3, key="1", method="PUT") == [200, 200, 429]
        assert await site.statuses("/api/search", 3, key="2") == [200, 200, 429]
        assert await site.statuses("/api/search", 3) == [200, 200, 429], "without a key, the address counts"


async def test_a_refusal_says_what_to_do(opens: Opens) -> None:
    before = telemetry.registry.get_sample_value("penstock_requests_refused_total", {"why": "search"}) or 0
    async with opens(search="1/min") as site:
        await site.statuses("/api/search", 2)
        refusal = await site.ask("/api/search")
    assert (refusal.status, refusal.headers["Content-Type"]) == (429, "application/problem+json")
    assert 50 <= int(refusal.headers["Retry-After"]) <= 60
    assert "1/min" in refusal.json["detail"]
    assert "rates.search" in refusal.json["detail"]
    assert telemetry.registry.get_sample_value("penstock_requests_refused_total", {"why": "search"}) == before + 1


async def test_one_second_at_least(opens: Opens) -> None:
    async with opens(read="5/s") as site:
        answers = await asyncio.gather(*(site.ask("/a") for _ in range(100)))
    assert {each.headers["Retry-After"] for each in answers if each.status == 429} == {"1"}


async def test_no_body_is_read_for_a_refusal(opens: Opens) -> None:
    head = b"PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n"
    async with opens(write="1/h") as site:
        assert await site.statuses("/a", 2, method="PUT") == [200, 200]
        answer = await raw(site.port, head)
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"connection: close" in answer.lower()


async def test_a_wrong_key_counts_tenfold(opens: Opens) -> None:
    async with opens(per_address="20/h") as site:
        assert await site.statuses("/a", 5, key="wrong") == [401] * 4 + [429]
        refusal = await site.ask("/a", key="1")
        assert refusal.status == 429, "a right key does not help then"
        assert "rates.per_address" in refusal.json["detail"]


async def test_an_address_with_many_keys(opens: Opens) -> None:
    async with opens(per_address="5/h") as site:
        assert [(await site.ask("/a", key=str(number))).status for number in range(11)] == [200] * 10 + [429]


async def test_health_and_metrics_are_free(opens: Opens) -> None:
    async with opens(per_address="1/h", read="1/h") as site:
        for path in ("/health/live", "/health/ready", "/metrics"):
            assert await site.statuses(path, 10) == [200] * 10
        assert await site.statuses("/a", 3) == [200, 200, 429]


async def test_without_limits(opens: Opens) -> None:
    async with opens(per_address="off", read="off", write="off", search="off") as site:
        assert set(await site.statuses("/a", 50)) == {200}
        assert set(await site.statuses("/api/search", 50)) == {200}


async def test_searches_that_would_wait_too_long(opens: Opens) -> None:
    async with opens(searches_at_once=1) as site:
        site.may_answer.clear()
        first = asyncio.create_task(site.ask("/api/search"))
        await site.searching.acquire()
        refusal = await site.ask("/api/search")
        assert (refusal.status, refusal.headers["Retry-After"]) == (503, "1")
        assert "rates.searches_at_once" in refusal.json["detail"]
        assert (await site.ask("/a")).status == 200, "only searches wait"
        site.may_answer.set()
        assert (await first).status == 200
        assert (await site.ask("/api/search")).status == 200


async def test_a_search_that_fails_ends_its_turn(opens: Opens) -> None:
    async with opens(searches_at_once=1) as site:
        assert await site.statuses("/api/search?size=x", 3) == [422] * 3
        assert (await site.ask("/api/search")).status == 200


async def test_one_who_does_not_read_keeps_nobody_waiting(opens: Opens) -> None:
    async with opens(searches_at_once=1) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1000)
        try:
            writer.write(b"GET /api/search?size=50000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            assert await site.statuses("/api/search", 3) == [200] * 3
        finally:
            writer.transport.abort()


@pytest.fixture
def setting_overrides(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(getattr(request, "param", {}))


@pytest.mark.parametrize("setting_overrides", [{"rates__search": "1/h", "rates__write": "1/h"}], indirect=True)
async def test_the_whole_api_is_limited(api: Api) -> None:
    await api.make("mill")
    assert [(await api.put(f"{number}.txt")).status for number in range(2)] == [202, 429]
    answers = [await api.get("/api/search?q=hello") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[-1].headers["X-Content-Type-Options"] == "nosniff"
    assert await api.names() == ["0.txt"]
