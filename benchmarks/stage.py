"""Where it happens: one embedded server with its default durability, a database for each side, and their processes."""

import asyncio
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import asyncpg

from benchmarks.systems import System, system
from penstock.database import EmbeddedServer
from penstock.settings import DatabaseUrl, PostgresSettings

ROOT = Path(__file__).resolve().parents[1]
T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    rounds: int = 5
    jobs: int = 20_000
    slow_jobs: int = 1_500  # for Procrastinate, whose rate does not depend on it
    many: int = 1_000_000
    pickups: int = 40  # in a round
    deaths: int = 5
    idle: float = 20.0
    copies: int = 8  # of each file of the corpus
    watched: int = 1_000  # documents while the memory is watched
    chunks: int = 100_000  # in the collection that is searched; ten times as many with --million
    upload: int = 2**30  # bytes
    kept: int = 1_000  # documents of a hundred chunks that are searched while others are deleted
    deleted: int = 10_000
    peers: tuple[str, ...] = ("pgqueuer", "procrastinate")  # whose connections and idle cost are shown, too

    @classmethod
    def quick(cls) -> Self:
        small = cls(rounds=2, slow_jobs=300, many=100_000, pickups=20, deaths=1, idle=5.0, peers=())
        return replace(small, copies=1, watched=200, chunks=25_000, upload=2**27, kept=250, deleted=500)

    def with_rounds(self, rounds: int) -> Self:
        return replace(self, rounds=rounds)


class SideFailed(Exception):
    """A measured process ended without its answer."""


class Process:
    """A running side."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self._process = process
        self._errors = errors
        self.pid = process.pid

    async def answer(self, timeout: float = 300) -> dict[str, Any]:
        """Its next line."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise SideFailed(f"no answer for {timeout:.0f} s; {self._last_words()}") from None
        if not line:
            raise SideFailed(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def _last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it ended without a word"


class Stage:
    """The server and the databases on it."""

    def __init__(self, scale: Scale, server: EmbeddedServer, url: DatabaseUrl, admin: Any) -> None:
        self.scale = scale
        self.admin = admin
        self._server = server
        self._url = url
        self._numbers = itertools.count(1)

    @property
    def postmaster(self) -> int:
        running = self._server.postmaster.running()
        assert running is not None
        return running.pid

    @property
    def home(self) -> Path:
        return self._server.home

    async def empty_database(self, name: str) -> str:
        """The address of a new database with nothing in it."""
        database = f"bench_{name}_{next(self._numbers)}"
        await self.admin.execute(f"create database {database}")
        return self._url.with_database(database).reveal()

    async def drop(self, url: str) -> None:
        """Remove a database: autovacuum and the next checkpoint would work for one side in the time of another."""
        await self.admin.execute(f"drop database {url.partition('?')[0].rsplit('/', 1)[1]} with (force)")
        await self.admin.execute("checkpoint")

    async def database(self, name: str, label: str = "") -> "Arena":
        """A fresh database with the schema of that system."""
        arena = Arena(self, name, label or name, await self.empty_database(name))
        try:
            await arena.run("install")
        except SideFailed as failure:
            arena.broken = str(failure)
        return arena

    async def start(self, arena: "Arena", action: str, **options: Any) -> Process:
        number = next(self._numbers)
        errors = self._server.home / f"side-{number}.log"
        with errors.open("w") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.side", arena.name, action, arena.url, str(self.postmaster)),
                json.dumps(options),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        return Process(process, errors)


class Arena:
    """One system in its own database."""

    def __init__(self, stage: Stage, name: str, label: str, url: str) -> None:
        self.stage = stage
        self.name = name
        self.label = label
        self.url = url
        self.broken = ""

    @property
    def sql(self) -> type[System]:
        return type(system(self.name, self.url))

    async def run(self, action: str, *, timeout: float = 300, **options: Any) -> dict[str, Any]:
        """One process from its start to its only answer."""
        process = await self.stage.start(self, action, **options)
        try:
            return await process.answer(timeout)
        finally:
            await process.kill()

    @asynccontextmanager
    async def running(self, action: str, **options: Any) -> AsyncIterator[Process]:
        process = await self.stage.start(self, action, **options)
        try:
            yield process
        finally:
            await process.kill()

    async def execute(self, *statements: str, arguments: Sequence[Any] = ()) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            for statement in statements:
                await connection.execute(statement, *arguments, timeout=600)
        finally:
            await connection.close()

    async def empty(self) -> None:
        await self.execute(self.sql.empty)

    async def fill(self, count: int) -> None:
        """Many no-op jobs, and the table as autovacuum would leave it."""
        await self.execute(self.sql.fill, arguments=[count])
        await self.tidy()

    async def tidy(self) -> None:
        await self.execute(f"vacuum (analyze) {self.sql.vacuum}", "checkpoint")

    async def commits(self) -> int:
        """Of this database so far. Sessions report with a delay, or when they end."""
        name = self.url.partition("?")[0].rsplit("/", 1)[1]
        seen, again = -1, -2
        while seen != again:
            again = seen
            await asyncio.sleep(0.3)
            seen = await self.stage.admin.fetchval("select xact_commit from pg_stat_database where datname = $1", name)
        return seen


@asynccontextmanager
async def open_stage(scale: Scale) -> AsyncIterator[Stage]:
    """Start the server in a folder that an unprivileged account can reach; remove both at the end."""
    home = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    home.chmod(0o711)
    server = EmbeddedServer(home, PostgresSettings(max_connections=200))
    try:
        joined = await server.join()
        admin = await asyncpg.connect(joined.url.with_database("postgres").reveal())
        try:
            yield Stage(scale, server, joined.url, admin)
        finally:
            await admin.close()
    finally:
        await server.stop(force=True)
        shutil.rmtree(home, ignore_errors=True)


def rotated(sides: Sequence[T], number: int) -> list[T]:
    """Each round begins with another side, so that none is always the one after the slowest."""
    turn = number % len(sides)
    return [*sides[turn:], *sides[:turn]]
