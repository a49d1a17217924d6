"""Ten times more searches than the server can answer: how fast are those that it lets in?

First as many clients as the server works on at once ask one question after the other: what they get is its capacity. Then
questions come at ten times that rate, each at its own moment whether or not others were answered, from many addresses, so
that no caller is over a limit of its own. The client speaks HTTP with plain sockets: it shares the machine with the server.
"""

import asyncio
import itertools
import os
import random
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote_plus, urlsplit

from benchmarks.documents.product import Installed
from benchmarks.documents.searching import FREQUENT, make_documents
from benchmarks.documents.vaswani import questions as vaswani
from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock.database import open_database
from penstock.models import Models
from penstock.search import compact, prepare_model
from penstock.settings import DatabaseUrl, Settings
from tests.search.conftest import SearchedTexts

CALLERS = 100
FRESH = 3.0  # seconds for which an idle connection is trusted: the server closes it after five
TIMES = 10


@dataclass
class Asked:
    """What became of a stage's searches."""

    seconds: float = 0.0
    answered: list[float] = field(default_factory=list)  # how long each took, in seconds
    refused: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.answered) / self.seconds

    def percentile(self, number: int) -> float:
        """Of the answers, in milliseconds."""
        return 1000 * statistics.quantiles(self.answered, n=100)[number - 1]


@dataclass
class Burst:
    """Both stages."""

    calm: Asked
    storm: Asked

    @property
    def slower(self) -> float:
        """How many times longer the 99th of 100 takes in the burst; at most 3."""
        return self.storm.percentile(99) / self.calm.percentile(99)

    @property
    def goodput(self) -> float:
        """The part of the capacity that is left; at least 0.7."""
        return self.storm.rate / self.calm.rate


async def measure(stage: Stage) -> list[Row]:
    url = await stage.empty_database("burst")
    home = stage.home / "burst"
    await Installed(url, home).command("status")
    await _fill(url, home, stage.scale.chunks)
    async with Installed(url, home).api() as (address, _):
        rounds = [await burst(address) for _ in range(stage.scale.rounds)]
    shutil.rmtree(home)
    if failed := [reason for each in rounds for reason in each.calm.failed + each.storm.failed]:
        return [Row("burst", "search", "", [], failure=f"{len(failed)} searches failed: {failed[0]}")]
    of = f"in {stage.scale.chunks:,} chunks"
    slower = Row("burst", f"p99 of search, {TIMES}x / 1x", "", [each.slower for each in rounds])
    goodput = Row("burst", f"answers per second, {TIMES}x / 1x", "", [each.goodput for each in rounds])
    return [
        Row("burst", f"search {of} at capacity", "1/s", [each.calm.rate for each in rounds]),
        Row("burst", "p99 at capacity", "ms", [each.calm.percentile(99) for each in rounds]),
        Row("burst", f"p99 of what is answered at {TIMES}x", "ms", [each.storm.percentile(99) for each in rounds]),
        Row("burst", "refused", "1/s", [len(each.storm.refused) / each.storm.seconds for each in rounds]),
        slower.judged("≤ 3", lambda value: value <= 3),
        goodput.judged("≥ 0.7", lambda value: value >= 0.7),
    ]


async def _fill(url: str, home: Path, chunks: int) -> None:
    async with open_database(Settings(home=home, database_url=DatabaseUrl(url)), role="bench") as database:
        await prepare_model(database, "static", 256)
        library = SearchedTexts(database, Models())
        ref = await library.collection("main")
        for number, texts in enumerate(make_documents(chunks)):
            await library.add(f"{number}.txt", texts)
        await compact(database, ref.id, "static")
        await library.run("vacuum (analyze) penstock.folded_postings")


class Callers:
    """Clients at many addresses of this machine, each with connections that are kept."""

    def __init__(self, address: str, questions: Sequence[str]) -> None:
        self._host, self._port = urlsplit(address).hostname or "127.0.0.1", urlsplit(address).port or 80
        self._paths = itertools.cycle(f"/api/search?q={quote_plus(question)}" for question in questions)
        self._addresses = itertools.cycle(f"127.0.{1 + number // 200}.{1 + number % 200}" for number in range(CALLERS))
        self._idle: dict[str, list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]]] = {}

    async def ask(self, asked: Asked) -> None:
        """The next question, by the next caller."""
        caller, path = next(self._addresses), next(self._paths)
        began = time.monotonic()
        try:
            async with asyncio.timeout(30):
                status, reason = await self._get(caller, path)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            asked.failed.append(repr(error))
            return
        took = time.monotonic() - began
        if status == 200:
            asked.answered.append(took)
        elif status == 503 and b"Retry-After" in reason.title():
            asked.refused.append(took)
        else:
            asked.failed.append(f"{status} {reason.decode()[-300:]}")

    async def _get(self, caller: str, path: str) -> tuple[int, bytes]:
        async with self._connection(caller) as (reader, writer):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:")
            body = await reader.readexactly(length)
        return int(head[9:12]), head if head[9:12] == b"503" else head + body

    @asynccontextmanager
    async def _connection(self, caller: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        idle = self._idle.setdefault(caller, [])
        while idle and time.monotonic() - idle[0][0] > FRESH:
            idle.pop(0)[2].close()
        if idle:
            _, reader, writer = idle.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port, local_addr=(caller, 0), limit=2**22)
        try:
            yield reader, writer
        except BaseException:
            writer.close()
            raise
        idle.append((time.monotonic(), reader, writer))

    def close(self) -> None:
        for _, _, writer in itertools.chain.from_iterable(self._idle.values()):
            writer.close()


async def burst(
    address: str, questions: Sequence[str] | None = None, *, clients: int | None = None, seconds: float = 15.0
) -> Burst:
    """Measure one API process, which listens on loopback and has its usual settings."""
    callers = Callers(address, questions or [*vaswani().values(), *FREQUENT])
    clients = clients or max(2, os.cpu_count() or 1)  # as rates.searches_at_once
    try:
        await _closed(callers, clients, 0.3 * seconds)  # warms caches
        calm = await _closed(callers, clients, seconds)
        storm = await _open(callers, TIMES * calm.rate, seconds)
    finally:
        callers.close()
    return Burst(calm, storm)


async def _closed(callers: Callers, clients: int, seconds: float) -> Asked:
    """Each client asks as soon as it has its answer."""
    asked, began = Asked(), time.monotonic()

    async def client() -> None:
        while time.monotonic() - began < seconds:
            await callers.ask(asked)

    await asyncio.gather(*(client() for _ in range(clients)))
    asked.seconds = time.monotonic() - began
    return asked


async def _open(callers: Callers, rate: float, seconds: float) -> Asked:
    """Questions come when they come, at so many per second."""
    draw = random.Random(7)
    asked, began, due = Asked(), time.monotonic(), 0.0
    async with asyncio.TaskGroup() as group:
        while due < seconds:
            await asyncio.sleep(max(0.0, began + due - time.monotonic()))
            group.create_task(callers.ask(asked))
            due += draw.expovariate(rate)
    asked.seconds = time.monotonic() - began
    return asked
