"""Rate limits: the requests of one caller, and the concurrent searches of this process.

`AddressLimits` runs before authentication: it counts the requests of one address, and a wrong key as ten of them, so that
guessing is slow. `RateLimits` runs after it: a key, or an address without one, has a bucket for each kind of request
(searching, reading, writing). A search then takes one of the `SearchSlots`. A refusal is a 429, or a 503 for
overload, with Retry-After; nothing was done for it and its body was not read. Health and metrics are never refused.
"""

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv6Address

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock import telemetry
from penstock.settings import Rate, RateSettings, parse_rate
from penstock.web.middleware.errors import plain

BURST = 2  # times the number of a rate may come at once
MOST_CALLERS = 10_000  # whose buckets are remembered, for each rate
GUESS = 10  # requests that one with a wrong key counts for
FREE = ("/health/", "/metrics")
SEARCH = ("/api/search", "/api/facts/search", "/search")  # the page asks the same
READING = frozenset({"GET", "HEAD", "OPTIONS"})
NOUNS = {"search": "searches", "read": "requests that read", "write": "requests that write"}

PATIENCE = 0.5  # seconds that one waits in a rush
STANDING = 0.1  # seconds after which a queue that was never short is overload
PLACES = 16  # in the queue, for each slot that can be taken
FIRST_GUESS = 0.05  # seconds of a search, before there was one
SHORTEST = 0.005  # seconds: less than this is the noise of the event loop
WEIGHT = 1 / 16  # of the newest search in the usual time

refused = telemetry.counter(
    "penstock_requests_refused", "Requests that were refused, by a rate limit or for overload", ("why",)
)


class Buckets:
    """The buckets of one rate, one for each caller. A bucket is a number: the time at which it will be full again."""

    def __init__(self, rate: Rate, most: int = MOST_CALLERS) -> None:
        self._each = rate.seconds / rate.count
        self._room = float(BURST * rate.seconds)
        self._most = most
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()  # the one not seen for longest is first

    def __len__(self) -> int:
        return len(self._full_at)

    def wait(self, caller: Hashable, now: float) -> float:
        """Seconds until this caller may ask; zero: now, and it is counted."""
        full_at = max(self._full_at.get(caller, now), now) + self._each
        if full_at - now > self._room + 1e-9:  # sums of small numbers are not exact
            self._full_at.move_to_end(caller)
            return full_at - now - self._room
        self._keep(caller, full_at, now)
        return 0.0

    def charge(self, caller: Hashable, requests: int, now: float) -> None:
        """Count further requests, without a check."""
        self._keep(caller, max(self._full_at.get(caller, now), now) + requests * self._each, now)

    def _keep(self, caller: Hashable, full_at: float, now: float) -> None:
        self._full_at[caller] = full_at
        self._full_at.move_to_end(caller)
        # Two old ones for each new one: a full bucket holds no information.
        for _ in range(2):
            oldest, its_full_at = next(iter(self._full_at.items()))
            if its_full_at > now and len(self._full_at) <= self._most:
                break
            del self._full_at[oldest]


class AddressLimits:
    """Refuses an address that sends too many requests, with any key."""

    def __init__(self, app: ASGIApp, *, rates: RateSettings) -> None:
        self._app = app
        self._rate = rates.per_address
        self._buckets = _buckets(rates.per_address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        buckets = self._buckets
        if buckets is None or scope["type"] != "http" or scope["path"].startswith(FREE):
            await self._app(scope, receive, send)
            return
        address = address_of(scope)
        if wait := buckets.wait(address, time.monotonic()):
            what = f"requests from one address, and a wrong key counts as {GUESS} of them"
            await _refuse("per_address", _too_many("per_address", what, self._rate, _whole(wait)), send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                buckets.charge(address, GUESS - 1, time.monotonic())
            await send(message)

        await self._app(scope, receive, send_on)


class RateLimits:
    """Refuses a caller that asks too often, and searches that would wait too long."""

    def __init__(self, app: ASGIApp, *, rates: RateSettings) -> None:
        self._app = app
        self._rates = {"search": rates.search, "read": rates.read, "write": rates.write}
        self._buckets = {kind: _buckets(text) for kind, text in self._rates.items()}
        self._at_once = rates.searches_at_once
        self._slots = SearchSlots(rates.searches_at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(FREE):
            await self._app(scope, receive, send)
            return
        kind = _kind_of(scope)
        buckets = self._buckets[kind]
        if buckets is not None and (wait := buckets.wait(_caller_of(scope), time.monotonic())):
            what = f"{NOUNS[kind]} of one key or address"
            await _refuse(kind, _too_many(kind, what, self._rates[kind], _whole(wait)), send)
        elif kind == "search":
            await self._search(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _search(self, scope: Scope, receive: Receive, send: Send) -> None:
        slot = await self._slots.take()
        if slot is None:
            await _refuse("overload", _too_busy(self._at_once), send)
            return

        async def send_on(message: Message) -> None:
            slot.end()  # the answer is made: a slow reader must not hold the slot
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            slot.end()


def address_of(scope: Scope) -> str:
    """The address that is counted: of IPv6 the network of 2^64 addresses, which one client has."""
    host: str = (scope.get("client") or ("",))[0]
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))


def _caller_of(scope: Scope) -> Hashable:
    key = getattr(scope.get("penstock.principal"), "key_id", None)
    return address_of(scope) if key is None else key


def _kind_of(scope: Scope) -> str:
    if scope["path"].startswith(SEARCH):
        return "search"
    return "read" if scope["method"] in READING else "write"


def _whole(seconds: float) -> int:
    return max(1, math.ceil(seconds))


def _buckets(text: str) -> Buckets | None:
    rate = parse_rate(text)
    return Buckets(rate) if rate else None


@lru_cache(1000)
def _too_many(setting: str, what: str, rate: str, seconds: int) -> Response:
    detail = f"Too many {what}: the limit is {rate} (rates.{setting}). Retry in {seconds} s, and more slowly."
    return plain(429, detail, {"Retry-After": str(seconds)})


@lru_cache(10)
def _too_busy(at_once: int) -> Response:
    detail = (
        f"The server is overloaded with searches: it runs {at_once} at once (rates.searches_at_once). Retry in 1 s."
    )
    return plain(503, detail, {"Retry-After": "1"})


async def _refuse(why: str, answer: Response, send: Send) -> None:
    """Send an answer that was made before: in a flood of requests, refusals must be cheap."""
    refused.labels(why).inc()
    # A list of its own, because others add headers to it.
    await send({"type": "http.response.start", "status": answer.status_code, "headers": [*answer.raw_headers]})
    await send({"type": "http.response.body", "body": answer.body})


# -- searches at once -----------------------------------------------------------------------------------------------


class SearchSlots:
    """The concurrent searches, and the queue of those that wait for a slot.

    In a rush the oldest comes first. A queue that was never short for a while is overload: then the newest comes first, and
    waits no longer than a search takes, because the others would get their answers too late.
    """

    def __init__(self, at_once: int, *, patience: float = PATIENCE, standing: float = STANDING) -> None:
        self._free = self._short = at_once
        self._patience = patience
        self._standing = standing
        self._places = PLACES * at_once
        self._waiting: deque[asyncio.Future[bool]] = deque()  # the oldest first
        self._since = 0.0  # when the queue was short for the last time: its end came within the time of a search
        self._usual = FIRST_GUESS

    async def take(self) -> "SearchSlot | None":
        """A slot, which must be ended; None if none becomes free in time."""
        if self._free:
            self._free -= 1
            return SearchSlot(self)
        return SearchSlot(self) if await self._wait() else None

    async def _wait(self) -> bool:
        loop = asyncio.get_running_loop()
        if len(self._waiting) < self._short:
            self._since = time.monotonic()
        elif len(self._waiting) >= self._places:
            _answer(self._waiting.popleft(), False)
        slot: asyncio.Future[bool] = loop.create_future()
        patience = max(SHORTEST, min(self._usual, self._patience)) if self._is_overload() else self._patience
        leaving = loop.call_later(patience, _answer, slot, False)
        self._waiting.append(slot)
        try:
            return await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled() and slot.result():  # it came in the same moment
                self.pass_on()
            raise
        finally:
            leaving.cancel()
            if slot in self._waiting:
                self._waiting.remove(slot)

    def pass_on(self) -> None:
        """Give a free slot to the next search that waits."""
        while self._waiting:
            slot = self._waiting.pop() if self._is_overload() else self._waiting.popleft()
            if _answer(slot, True):
                return
        self._free += 1

    def note(self, seconds: float) -> None:
        """Learn how long a search takes."""
        self._usual += WEIGHT * (seconds - self._usual)

    def _is_overload(self) -> bool:
        return time.monotonic() - self._since > self._standing


class SearchSlot:
    def __init__(self, slots: SearchSlots) -> None:
        self._slots: SearchSlots | None = slots
        self._began = time.monotonic()

    def end(self) -> None:
        """Free the slot. Idempotent."""
        if self._slots is not None:
            slots, self._slots = self._slots, None
            slots.note(time.monotonic() - self._began)
            slots.pass_on()


def _answer(slot: "asyncio.Future[bool]", answer: bool) -> bool:
    """Set the answer; False if the search has left or was cancelled meanwhile."""
    if slot.done():
        return False
    slot.set_result(answer)
    return True
