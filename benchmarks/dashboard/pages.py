"""Pages over a full database, while fifty others keep them open.

The rows are made by SQL (stock.sql), the API runs in this process, and one client asks with a plain socket: a time is that of
the server and of a client that does almost nothing. What viewers share is asked for while it is kept, after its second, and
anew. Doctor and metrics are asked of a small database, too: they must not grow with the documents.
"""

import asyncio
import itertools
import shutil
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from benchmarks.cost import clock
from benchmarks.documents.product import Installed
from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock import Penstock
from penstock.database import Session
from penstock.documents import count_minutes, explain_document
from penstock.operations import examine
from penstock.product import Product
from penstock.web import listen, make_app, serve
from penstock.web.pages.overview import OverviewCache

REQUESTS = 200
VIEWERS = 50
SMALL = 10_000
COLD = 20  # first questions of a connection
BEGIN = """
with hand as (
  insert into penstock.workers (name, host, pid, version, queues, kinds, slots, lease)
  values ('bench', 'bench', 1, '0', '{documents}', '{prepare_document}', 4, '1 hour') returning id
)
update penstock.jobs set state = 'running', attempt = 1, worker_id = hand.id, claimed_at = penstock.now()
from hand where jobs.id = $1
"""
PLENTY = {f"rates__{name}": "off" for name in ("search", "read", "write", "per_address")}
TIDY = ("documents", "versions", "events", "jobs", "job_history", "blobs", "minutes", "tallies", "pages")


async def measure(stage: Stage) -> list[Row]:
    small = await _measure(stage, SMALL)
    rows = await _measure(stage, stage.scale.many)
    for row in rows:
        for other in small:
            if other.what == row.what and row.what.startswith(("doctor", "GET /metrics")):
                row.note = f"{other.median:.1f} {other.unit} with {SMALL:,} documents"
    return rows


async def _measure(stage: Stage, documents: int) -> list[Row]:
    url = await stage.empty_database("dashboard")
    home = stage.home / f"dashboard-{documents}"
    await Installed(url, home).command("status")
    async with Product(role="bench", home=str(home), database_url=url, **PLENTY) as product:
        began = clock()
        await _fill(product, documents)
        rows = [Row("dashboard", f"filling {documents:,} documents", "s", [clock() - began])]
        app = make_app(product)
        async with _served(app) as port, AsyncExitStack() as viewers, _Client(port) as client:
            for _ in range(VIEWERS):
                await viewers.enter_async_context(_viewing(port))
            telling = asyncio.create_task(_change_often(product))
            rows += await _ask_pages(client, app, documents)
            telling.cancel()
        rows += [await _doctor(product), await _cold_why(product, 10 * documents)]
    await stage.drop(url)
    shutil.rmtree(home)
    return rows


async def _fill(product: Product, documents: int) -> None:
    statements = (Path(__file__).parent / "stock.sql").read_text().replace(":documents", str(documents))

    async def fill(session: Session) -> None:
        await session.execute(statements, timeout=1800)
        for table in TIDY:
            await session.execute(f"vacuum (analyze) penstock.{table}", timeout=1800)

    session = await product.app.database.endpoint.address.open_session("bench")
    try:
        await fill(session)
    finally:
        session.terminate()
    await count_minutes(product.app.database)


async def _ask_pages(client: "_Client", app: FastAPI, documents: int) -> list[Row]:
    number = 10 * (documents // 1000 * 1000)
    queued = 10 * documents

    def forget() -> None:
        app.state.overview_cache = OverviewCache()

    def wait_a_second() -> None:
        app.state.overview_cache.tenants = OverviewCache().tenants

    def look_again() -> None:
        app.state.gauges._read_at = float("-inf")

    paths: list[tuple[str, list[str], Callable[[], None] | None, int, int]] = [
        ("GET /", ["/"], None, 50, 200),
        ("GET /, a second later", ["/"], wait_a_second, 50, 200),
        ("GET /, the first after a start", ["/"], forget, 0, 0),
        ("GET /documents", ["/documents"], None, 50, 200),
        (
            "GET /documents, older pages",
            [f"/documents?before={10 * documents * turn // 50 + 1}" for turn in range(1, 50)],
            None,
            50,
            200,
        ),
        ("GET /documents, failed", ["/documents?status=failed", "/documents?status=queued"], None, 50, 200),
        ("GET /documents, by name", ["/documents?name=report-77", "/documents?name=nothing-like-it"], None, 50, 200),
        (
            "GET /documents, by day",
            ["/documents?until=2020-01-01", "/documents?since=2020-01-01&type=text"],
            None,
            50,
            200,
        ),
        ("GET /documents/{id}", [f"/documents/{number}", f"/documents/{number}?view=history"], None, 50, 200),
        ("GET /jobs", ["/jobs"], None, 50, 200),
        ("GET /jobs, of one state", [f"/jobs?state={each}" for each in ("ready", "dead", "running")], None, 50, 200),
        ("GET /packets", ["/packets"], None, 50, 200),
        ("GET /fleet", ["/fleet"], None, 50, 200),
        ("GET /schedules", ["/schedules"], None, 50, 200),
        ("GET /inbox", ["/inbox"], None, 50, 200),
        (
            "GET /api/documents/{id}/why",
            [f"/api/documents/{each}/why" for each in (number, queued, 10 * 101)],
            None,
            20,
            200,
        ),
        ("GET /metrics", ["/metrics"], look_again, 50, 200),
    ]
    rows = []
    for what, asked, before, p50, p99 in paths:
        rows += _judge(what, await client.ask(asked, before), p50, p99)
    return rows


def _judge(what: str, times: list[float], p50: int, p99: int) -> list[Row]:
    high = statistics.quantiles(times, n=100)[98]
    usual = Row("dashboard", what, "ms", [statistics.median(times)], note=f"p50 of {len(times)}")
    worst = Row("dashboard", f"{what}, p99", "ms", [high])
    if not p50:  # nobody asks so again and again
        return [usual, worst]
    return [
        usual.judged(f"≤ {p50}", lambda value: value <= p50),
        worst.judged(f"≤ {p99}", lambda value: value <= p99),
    ]


async def _doctor(product: Product) -> Row:
    times = []
    for _ in range(3):
        began = clock()
        await examine(product.settings)
        times.append(clock() - began)
    return Row("dashboard", "doctor", "s", times).judged("≤ 3", lambda value: value <= 3)


async def _cold_why(product: Product, document: int) -> Row:
    """What a command pays: the first question on a connection, whose plans are new, about a document that runs."""
    await product.app.database.pool.repeat(lambda session: session.execute(BEGIN, document + 1))
    times = []
    for _ in range(COLD):
        async with Penstock(
            home=product.settings.home, database_url=product.app.dsn, pool={"size": 1, "step": 1}
        ) as fresh:
            began = clock()
            told = await explain_document(fresh, document)
            times.append(1000 * (clock() - began))
        assert told.because == "running", told.sentence
    row = Row("dashboard", "why, the first of a connection", "ms", [statistics.median(times)], note=f"p50 of {COLD}")
    return row.judged("≤ 20", lambda value: value <= 20)


async def _change_often(product: Product) -> None:
    while True:
        product.notifier.notify()
        await asyncio.sleep(0.5)


@asynccontextmanager
async def _served(app: FastAPI) -> AsyncIterator[int]:
    listener, stopping = listen("127.0.0.1", 0), asyncio.Event()
    serving = asyncio.create_task(serve(app, listener, stopping))
    try:
        yield listener.getsockname()[1]
    finally:
        stopping.set()
        await serving
        listener.close()


@asynccontextmanager
async def _viewing(port: int) -> AsyncIterator[None]:
    """One who has a page open, and hears of each change."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b"changed")

    async def hear() -> None:
        while await reader.read(4096):
            pass

    hearing = asyncio.create_task(hear())
    try:
        yield
    finally:
        hearing.cancel()
        writer.close()


class _Client:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> "_Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, paths: list[str], before: Callable[[], None] | None) -> list[float]:
        times = []
        for turn, path in zip(range(-5, REQUESTS), itertools.cycle(paths), strict=False):
            if before is not None:
                before()
            took = await self._ask(path)
            if turn >= 0:  # the first ones warm the caches
                times.append(took)
        return times

    async def _ask(self, path: str) -> float:
        began = clock()
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:")
        await self._reader.readexactly(length)
        took = 1000 * (clock() - began)
        assert head.startswith(b"HTTP/1.1 200"), head
        return took
