"""What a message of a packet costs in transactions, and for how long its jobs hold a connection.

A message has two jobs: `take_message`, which makes the packet, and `prepare_packet`, which makes it searchable. Both write down
each use of the pool (ledger.py). Not counted as their own are: the batch in which messages come in (one for all), claims (one
for many jobs), steps that are kept, what is written ahead of the end (the consolidated PDF, batches of chunks), and children.
Statements that stand alone are shown beside it; the ledger does not tell whether one of them writes. All numbered transactions
of the database, with claims, progress and heartbeats, are shown, too.
"""

import asyncio
import base64
import os
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.packet.client import TIMEOUT, client
from benchmarks.packet.papers import scanned_pages
from benchmarks.report import Row
from benchmarks.stage import ROOT, SideFailed, Stage
from penstock.documents import SourceMessage
from penstock.product import Product

MESSAGES = 40
SCANNED = 10  # pages, in every tenth packet: two children
AHEAD = {"write", "step", "map"}
SOURCE = {"TYPE": "webhook", "SECRET": "bench", "MAKES": "packet", "COLLECTION": "packets"}


async def measure(stage: Stage) -> list[Row]:
    own = Row("transactions", "of a message's own jobs", "transactions", [])
    ahead = Row("transactions", "steps, children, what is written ahead", "transactions", [])
    looks = Row(
        "transactions", "single statements beside them", "statements", [], note="some may write: not told apart"
    )
    every = Row(
        "transactions", "numbered ones of the whole database", "transactions", [], note="claims and heartbeats, too"
    )
    longest = Row("transactions", "longest hold of a connection", "ms", [])
    for _ in range(stage.scale.rounds):
        uses, numbered = await _count(stage)
        counted = Counter((use, form) for _, use, form, _ in uses)
        chosen = {key: count / MESSAGES for key, count in counted.items()}
        own.values.append(sum(n for (use, form), n in chosen.items() if form == "transaction" and use not in AHEAD))
        ahead.values.append(sum(n for (use, _), n in chosen.items() if use in AHEAD))
        looks.values.append(sum(n for (use, _), n in chosen.items() if use == "look"))
        every.values.append(numbered / MESSAGES)
        longest.values.append(1000 * max(seconds for *_, seconds in uses))
        own.note = ", ".join(f"{use} {n:.2f}" for (use, form), n in sorted(chosen.items()) if form == "transaction")
    return [
        own.judged("≤ 2", lambda value: value <= 2),
        *(ahead, looks, every),
        longest.judged("≤ 250 ms", lambda value: value <= 250),
    ]


async def _count(stage: Stage) -> tuple[list[tuple[str, str, str, float]], int]:
    home = stage.home / "transactions"
    home.mkdir()
    url = await stage.empty_database("transactions")
    for name, value in SOURCE.items():
        os.environ[f"PENSTOCK_SOURCES__ORDERS__{name}"] = value
    try:
        async with client(url, home) as product, _worker(url, home) as ledger:
            before = await _numbered(stage)
            await product.inbox.receive("orders", [_message(number) for number in range(MESSAGES)])
            await _until_taken(product)
            numbered = await _numbered(stage) - before
            lines = [line.split("\t") for line in ledger.read_text().splitlines()]
    finally:
        for name in SOURCE:
            del os.environ[f"PENSTOCK_SOURCES__ORDERS__{name}"]
    shutil.rmtree(home)
    await stage.drop(url)
    uses = [(handler, use, form, float(seconds)) for handler, use, form, seconds in lines]
    return [each for each in uses if each[0] != "ocr_pages"], numbered


def _message(number: int) -> SourceMessage:
    files = {
        "cover.txt": f"COVER SHEET\n\nPacket {number} of the mill\n".encode(),
        "a.txt": f"PART A\n\nTurbine {number} was repaired.\n".encode() * 20,
        "b.txt": f"PART B\n\nGate {number} was inspected.\n".encode() * 20,
    }
    if number % 10 == 0:
        files["scan.pdf"] = scanned_pages(100 * number + 1, SCANNED)
    documents = [{"name": name, "content": base64.b64encode(content).decode()} for name, content in files.items()]
    return SourceMessage(f"order-{number}", {"name": f"order-{number}", "documents": documents})


@asynccontextmanager
async def _worker(url: str, home: Path) -> AsyncIterator[Path]:
    ledger = home / "ledger.tsv"
    environ = os.environ | {"PENSTOCK_DATABASE_URL": url, "PENSTOCK_HOME": str(home), "PENSTOCK_LOG__LEVEL": "error"}
    command = (sys.executable, "-m", "benchmarks.packet.ledger", str(ledger))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environ)
    try:
        yield ledger
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _until_taken(product: Product) -> None:
    over = (
        "select count(*) filter (where state = 'ready') as ready, count(*) filter (where state = 'failed') as failed "
        "from penstock.documents where parent_id is null"
    )
    async with asyncio.timeout(TIMEOUT):
        while True:
            async with product.app.database.pool.session() as session:
                [row] = await session.fetch(over)
            if row["failed"]:
                raise SideFailed(f"{row['failed']} packets failed")
            if row["ready"] == MESSAGES:
                return
            await asyncio.sleep(0.2)


async def _numbered(stage: Stage) -> int:
    return int(await stage.admin.fetchval("select pg_current_xact_id()::text::bigint"))
