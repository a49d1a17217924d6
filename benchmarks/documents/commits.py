"""How many commits a small document takes, from its acceptance to ready, with all that the worker does beside it.

A commit is a transaction that has written something: those have numbers, and the numbers are counted. Statements that only read
are transactions, too, and are shown beside it.
"""

import asyncio
import shutil

from benchmarks.documents.product import Installed
from benchmarks.report import Row
from benchmarks.stage import Stage

DOCUMENTS = 300


async def measure(stage: Stage) -> list[Row]:
    url = await stage.empty_database("commits")
    name = url.partition("?")[0].rsplit("/", 1)[1]
    home, folder = stage.home / "commits", stage.home / "small"
    folder.mkdir()
    for number in range(DOCUMENTS):
        (folder / f"{number}.txt").write_text(f"Document {number} tells of turbine {number} and its gate.\n" * 20)
    installed = Installed(url, home)
    await installed.command("status")
    writes = Row("commits", "per small document", "commits", [], note="all of the command's and of its worker's")
    reads = Row("commits", "with those that only read", "transactions", [])
    for number in range(stage.scale.rounds):
        before = await _count(stage, name)
        await installed.command("add", str(folder), "--collection", f"round-{number}", "--create")
        after = await _count(stage, name)
        writes.values.append((after[0] - before[0]) / DOCUMENTS)
        reads.values.append((after[1] - before[1]) / DOCUMENTS)
    shutil.rmtree(home)
    shutil.rmtree(folder)
    return [writes.judged("≤ 3", lambda value: value <= 3), reads]


async def _count(stage: Stage, name: str) -> tuple[int, int]:
    """Numbers of transactions so far, and all that this database has committed; sessions report that with a delay."""
    seen, again = -1, -2
    while seen != again:
        again = seen
        await asyncio.sleep(0.5)
        seen = await stage.admin.fetchval("select xact_commit from pg_stat_database where datname = $1", name)
    return int(await stage.admin.fetchval("select pg_current_xact_id()::text::bigint")), seen
