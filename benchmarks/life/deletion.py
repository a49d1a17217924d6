"""Deleting many large documents while somebody searches another collection: how much slower is that, and how long is the
longest transaction?

Both collections are folded and have an index. The documents are deleted by their filter over HTTP, a thousand a request; a
worker removes them. The time of a question is taken before, and for as long as documents are being removed.
"""

import asyncio
import shutil
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle

import aiohttp
import asyncpg

from benchmarks.cost import clock
from benchmarks.documents.product import Installed
from benchmarks.documents.searching import PER_DOCUMENT, make_documents
from benchmarks.documents.vaswani import questions
from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock.blobs import open_store
from penstock.database import Database, open_database
from penstock.models import Models
from penstock.search import compact, prepare_model
from penstock.settings import Settings
from tests.search.conftest import SearchedTexts

LOOK_EVERY = 0.02  # seconds
PAUSE = 0.02  # seconds between two questions: one client with something else to do


@dataclass
class Watched:
    """What was seen while documents were removed."""

    times: list[float] = field(default_factory=list)  # of questions, in ms
    longest: float = 0.0  # of the transactions, in seconds
    query: str = ""  # of that one


async def measure(stage: Stage) -> list[Row]:
    url = await stage.empty_database("deletion")
    home = stage.home / "deletion"
    installed = Installed(url, home)
    await installed.command("status")
    async with open_database(Settings(home=home, database_url=url), role="bench") as database:
        await prepare_model(database, "static", 256)
        library = SearchedTexts(database, Models())
        for name, documents in (("kept", stage.scale.kept), ("gone", stage.scale.deleted)):
            ref = await library.collection(name)
            for number, texts in enumerate(make_documents(documents * PER_DOCUMENT)):
                await library.add(f"{number}.txt", texts, collection=name)
            await compact(database, ref.id, "static")
        await library.run("vacuum (analyze) penstock.folded_postings")
        await _keep_bytes(database)
    async with installed.api() as (address, _), aiohttp.ClientSession(address) as http:
        calm = Watched()
        await _ask(http, Watched(), 100)
        await _ask(http, calm, 300)
        async with installed.running("worker"), _watching(url, http) as busy:
            began = clock()
            await _delete(http)
            invisible = clock() - began
            await _until_removed(url)
            removed = clock() - began
    shutil.rmtree(home)
    before, meanwhile = statistics.median(calm.times), statistics.median(busy.times)
    of = f"{stage.scale.deleted:,} documents of {PER_DOCUMENT} chunks"
    return [
        Row("deletion", "search p50 before", "ms", [before], note=f"{stage.scale.kept * PER_DOCUMENT:,} chunks"),
        Row("deletion", "search p50 meanwhile", "ms", [meanwhile], note=f"{len(busy.times)} questions"),
        Row("deletion", "meanwhile / before", "", [meanwhile / before]).judged("≤ 1.5", lambda value: value <= 1.5),
        Row("deletion", "longest transaction", "s", [busy.longest], note=busy.query).judged(
            "≤ 1", lambda value: value <= 1
        ),
        Row("deletion", "until none is seen", "s", [invisible], note=of),
        Row("deletion", "until all are removed and verified", "s", [removed], note=of),
    ]


async def _keep_bytes(database: Database) -> None:
    """The documents share a byte that nobody has kept: without it the checks would find something, and look for it."""

    async def one() -> AsyncIterator[bytes]:
        yield b"x"

    stored = await open_store(database.settings).write(one(), most=1)
    async with database.pool.session() as session:
        await session.execute("update penstock.blobs set key = $1", stored.key)


async def _ask(http: aiohttp.ClientSession, watched: Watched, count: int | None = None) -> None:
    for number, question in enumerate(cycle(questions().values())):
        if number == count:
            return
        began = clock()
        async with http.get("/api/search", params={"q": question, "collection": "kept"}) as answer:
            found = await answer.json()
        assert found["hits"], question
        watched.times.append(1000 * (clock() - began))
        await asyncio.sleep(PAUSE)


@asynccontextmanager
async def _watching(url: str, http: aiohttp.ClientSession) -> AsyncIterator[Watched]:
    """Questions and looks at the server's sessions, while the block runs."""
    watched = Watched()
    tasks = [asyncio.create_task(_ask(http, watched)), asyncio.create_task(_look(url, watched))]
    try:
        yield watched
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def _look(url: str, watched: Watched) -> None:
    connection = await asyncpg.connect(url)
    while True:
        row = await connection.fetchrow(
            "select extract(epoch from clock_timestamp() - xact_start)::float8 as age, left(query, 60) as query "
            "from pg_stat_activity where backend_type = 'client backend' and xact_start is not null "
            "and pid <> pg_backend_pid() order by xact_start limit 1"
        )
        if row is not None and row["age"] > watched.longest:
            watched.longest, watched.query = row["age"], " ".join(row["query"].split())
        await asyncio.sleep(LOOK_EVERY)


async def _delete(http: aiohttp.ClientSession) -> None:
    more = True
    while more:
        async with http.post("/api/documents/delete", json={"collection": "gone", "all": True, "now": True}) as answer:
            more = (await answer.json())["more"]


async def _until_removed(url: str) -> None:
    left = "select exists (select from penstock.removals) or exists (select from penstock.receipts where verified_at is null)"
    connection = await asyncpg.connect(url)
    while True:
        if not await connection.fetchval(left):
            break
        await asyncio.sleep(0.2)
    await connection.close()
