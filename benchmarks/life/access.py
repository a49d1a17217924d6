"""What access costs: the check of a key, and row-level security below search and lists.

One API in this process, asked by one client with a plain socket. The same requests are sent in turn with and without a key,
and with the second net and without it, in an order that changes from round to round: whatever else the machine does meets all
of them alike. The net is switched off by telling the pool that the database has none.
"""

import asyncio
import itertools
import random
import shutil
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote_plus

from benchmarks.cost import clock
from benchmarks.documents.product import Installed
from benchmarks.documents.vaswani import abstracts, questions
from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock.access import Keyring, create_key
from penstock.database import Database, open_database
from penstock.models import Models
from penstock.product import Product
from penstock.search import compact, prepare_model
from penstock.settings import Settings
from penstock.web import listen, make_app, serve
from tests.search.conftest import SearchedTexts

DOCUMENTS = 3_000
CHUNKS = 5  # of a document
WORDS = 120
REQUESTS = 300  # of each kind
CHECKS = 2_000
PLENTY = {f"rates__{name}": "off" for name in ("search", "read", "write", "per_address")}


@dataclass(frozen=True)
class Way:
    """How a request is sent."""

    key: bool
    net: bool


WAYS = (Way(key=True, net=True), Way(key=True, net=False), Way(key=False, net=True))


async def measure(stage: Stage) -> list[Row]:
    url = await stage.empty_database("access")
    home = stage.home / "access"
    await Installed(url, home).command("status")
    async with open_database(Settings(home=home, database_url=url), role="bench") as database:
        await _fill(database)
    async with Product(role="bench", home=str(home), database_url=url, **PLENTY) as product:
        database = product.app.database
        assert database.pool.guarded
        made = await create_key(database, "bench", scopes=["read"])
        assert made.key is not None
        text = made.key.text
        rows = [await _check_keys(database, text)]
        async with _served(product) as port, _Client(port, text, database) as client:
            for what, paths in _requests().items():
                rows += _compare(what, await client.ask_in_turn(paths))
    shutil.rmtree(home)
    return rows


def _requests() -> dict[str, list[str]]:
    return {
        "GET /api/search": [f"/api/search?q={quote_plus(each)}" for each in questions().values()],
        "GET /api/documents?limit=100": [f"/api/documents?limit=100&after={after}" for after in range(0, 2_000, 37)],
        "GET /api/collections": ["/api/collections"],
    }


def _compare(what: str, times: dict[Way, list[float]]) -> list[Row]:
    """Medians in ms, and of the differences between requests that were sent one after the other."""
    usual, bare, keyless = (times[way] for way in WAYS)
    p50 = {way: statistics.median(values) for way, values in times.items()}
    # Of pairs that were asked one after the other: what else the machine does is in both.
    cost = 100 * statistics.median(one - other for one, other in zip(usual, bare, strict=True)) / p50[WAYS[1]]
    net = Row(
        "access",
        f"{what}: the second net",
        "%",
        [cost],
        note=f"p50 {p50[WAYS[0]]:.2f} ms with, {p50[WAYS[1]]:.2f} without",
    )
    key = statistics.median(one - other for one, other in zip(usual, keyless, strict=True))
    judged = net if what.endswith("collections") else net.judged("≤ 10", lambda value: value <= 10)
    return [
        Row("access", f"{what}, p50", "ms", [p50[WAYS[0]]], note=f"{len(bare)} requests of each kind"),
        judged,
        Row("access", f"{what}: with a key instead of none", "ms", [key]).judged("≤ 0.2", lambda value: value <= 0.2),
    ]


async def _check_keys(database: Database, text: str) -> Row:
    """Warm, as all but one check of a second are."""
    keyring = Keyring(database)
    await keyring.find(text)
    times = []
    for _ in range(CHECKS):
        began = clock()
        await keyring.find(text)
        times.append(1000 * (clock() - began))
    mean = statistics.fmean(times)  # with those that ask the database again
    row = Row("access", "key check", "ms", [mean], note=f"p50 {statistics.median(times):.4f} ms")
    return row.judged("≤ 0.2", lambda value: value <= 0.2)


async def _fill(database: Database) -> None:
    words = [word for text in abstracts().values() for word in text.split()]
    draw = random.Random(7)
    await prepare_model(database, "static", 256)
    library = SearchedTexts(database, Models())
    ref = await library.collection("main")
    for number in range(DOCUMENTS):
        await library.add(f"{number}.txt", [" ".join(draw.choices(words, k=WORDS)) for _ in range(CHUNKS)])
    await compact(database, ref.id, "static")
    await library.run("vacuum (analyze) penstock.folded_postings")
    await library.run("analyze")


@asynccontextmanager
async def _served(product: Product) -> AsyncIterator[int]:
    listener, stopping = listen("127.0.0.1", 0), asyncio.Event()
    serving = asyncio.create_task(serve(make_app(product), listener, stopping))
    try:
        yield listener.getsockname()[1]
    finally:
        stopping.set()
        await serving
        listener.close()


class _Client:
    """One connection that is kept."""

    def __init__(self, port: int, key: str, database: Database) -> None:
        self._port = port
        self._key = key
        self._pool = database.pool

    async def __aenter__(self) -> "_Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        self._pool.guarded = True

    async def ask_in_turn(self, paths: list[str]) -> dict[Way, list[float]]:
        times: dict[Way, list[float]] = {way: [] for way in WAYS}
        orders = itertools.cycle(itertools.permutations(WAYS))
        for number, path in zip(range(-20, REQUESTS), itertools.cycle(paths), strict=False):
            for way in next(orders):
                took = await self._ask(path, way)
                if number >= 0:  # the first ones warm the caches
                    times[way].append(took)
        return times

    async def _ask(self, path: str, way: Way) -> float:
        self._pool.guarded = way.net
        key = f"Authorization: Bearer {self._key}\r\n" if way.key else ""
        began = clock()
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{key}\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:")
        await self._reader.readexactly(length)
        took = 1000 * (clock() - began)
        assert head.startswith(b"HTTP/1.1 200"), head
        return took
