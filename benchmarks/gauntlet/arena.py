"""Where a scenario runs: a PostgreSQL server, a Redis server for Celery, and workers under a supervisor.

The supervisor starts a worker that has ended again after a second, under the same name, as systemd and Kubernetes do.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.gauntlet.jobs import Job, Place
from benchmarks.gauntlet.systems import System, load
from penstock.database import EmbeddedServer
from penstock.settings import PostgresSettings

ROOT = Path(__file__).resolve().parents[2]
RESTART = 1.0  # seconds until the supervisor starts a worker again
POLL = 0.2
UNREACHABLE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)


@dataclass(frozen=True)
class Effect:
    n: int
    at: float


class Worker:
    """One worker under its supervisor. A worker and its children are one group, and are killed and frozen together."""

    def __init__(self, arena: "Arena", name: str, slots: int, schedule: bool) -> None:
        self.name = name
        self.retired = False
        self.starts = 0
        self._arena = arena
        self._options = {"name": name, "slots": slots, "schedule": schedule}
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor = asyncio.create_task(self._supervise())

    async def _supervise(self) -> None:
        while not self.retired:
            self._process = await self._arena.spawn("work", self._options)
            self.starts += 1
            await self._process.wait()
            self._signal(signal.SIGKILL)  # children that outlived it
            await asyncio.sleep(RESTART)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def kill(self, *, for_good: bool = False) -> float:
        self.retired = self.retired or for_good
        self._signal(signal.SIGKILL)
        return time.time()

    def freeze(self) -> float:
        self._signal(signal.SIGSTOP)
        return time.time()

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    async def restart(self, grace: float) -> None:
        """Ask it to end, kill it after the grace period, and wait until its successor is up."""
        ended = self._process
        assert ended is not None
        with suppress(ProcessLookupError):
            ended.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await ended.wait()
        self.kill()
        before = self._arena.ups
        await self._arena.until(lambda: self._arena.ups > before, 30)

    async def end(self) -> None:
        self.retired = True
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGKILL)
        self._supervisor.cancel()
        await asyncio.gather(self._supervisor, return_exceptions=True)
        if self._process is not None:
            await self._process.wait()


class Broker:
    """A Redis server on a socket; with an append-only file when it is tuned."""

    def __init__(self, home: Path, tuned: bool) -> None:
        self.socket = home / "redis.sock"
        self._command = [
            *("redis-server", "--port", "0", "--unixsocket", str(self.socket), "--dir", str(home)),
            *("--save", "3600 1 300 100 60 10000", "--appendonly", "yes" if tuned else "no"),
        ]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        while not self.socket.exists():  # noqa: ASYNC110  another process makes it
            await asyncio.sleep(POLL)

    async def crash(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Arena:
    """One scenario of one system."""

    def __init__(self, server: EmbeddedServer, place: Place, side: System, broker: Broker | None, limit: float) -> None:
        self.place = place
        self.side = side
        self.limit = limit  # seconds after which a job is stuck
        self._server = server
        self._broker = broker
        self._workers: list[Worker] = []
        self._connection: Any = None

    # -- processes ------------------------------------------------------------------------------------------------

    async def spawn(self, action: str, options: dict[str, Any]) -> asyncio.subprocess.Process:
        place = {"url": self.place.url, "home": str(self.place.home), "broker": self.place.broker}
        settings = "recommended" if self.side.tuned else "defaults"
        name = type(self.side).__module__.rpartition(".")[2]
        with (self.place.home / "processes.log").open("a") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.gauntlet.process", name, settings),
                *(json.dumps(place), action, json.dumps(options)),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    async def run(self, action: str, **options: Any) -> Any:
        """One process from its start to its answer; nothing if it was killed."""
        process = await self.spawn(action, options)
        answer, _ = await asyncio.wait_for(process.communicate(), 60)
        if process.returncode not in (0, -signal.SIGKILL):
            raise RuntimeError(f"{action} failed: {self.last_words()}")
        return json.loads(answer) if answer else None

    def last_words(self) -> str:
        lines = (self.place.home / "processes.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "without a word"

    async def worker(self, name: str, slots: int = 4, *, schedule: bool = False) -> Worker:
        """A worker that is up."""
        before = self.ups
        worker = Worker(self, name, slots, schedule)
        self._workers.append(worker)
        await self.until(lambda: self.ups > before, 60)
        return worker

    async def enqueue(self, jobs: list[Job]) -> list[Any]:
        return list(await self.run("enqueue", jobs=[job.as_dict() for job in jobs]))

    # -- faults ---------------------------------------------------------------------------------------------------

    async def restart_database(self, away: float) -> float:
        """Crash the system's database, and start it again after so many seconds; the time when it was back."""
        if self._broker is not None:
            await self._broker.crash()
            await asyncio.sleep(away)
            await self._broker.start()
            return time.time()
        running = self._server.postmaster.running()
        assert running is not None
        os.kill(running.pid, signal.SIGQUIT)
        await asyncio.sleep(away)
        await self._server.revive()
        return time.time()

    # -- observations ---------------------------------------------------------------------------------------------

    @property
    def ups(self) -> int:
        return sum(line["what"] == "up" for line in self.place.ledger())

    def began(self, numbers: Iterable[int], since: float = 0.0) -> list[tuple[int, float]]:
        wanted = set(numbers)
        lines = self.place.ledger()
        return [(e["n"], e["at"]) for e in lines if e["what"] == "begin" and e["n"] in wanted and e["at"] > since]

    def last_sign(self, n: int) -> float:
        """When the long job last showed that it runs."""
        return max(
            (e["at"] for e in self.place.ledger() if e["n"] == n and e["what"] in ("begin", "alive")), default=0.0
        )

    async def until(self, happened: Callable[[], bool], within: float) -> bool:
        deadline = time.time() + within
        while not happened():
            if time.time() > deadline:
                return False
            await asyncio.sleep(POLL)
        return True

    async def until_begun(self, numbers: Iterable[int]) -> None:
        wanted = set(numbers)
        if not await self.until(lambda: {n for n, _ in self.began(wanted)} == wanted, 60):
            raise RuntimeError(f"the jobs did not begin: {self.last_words()}")

    async def effects(self) -> list[Effect]:
        rows = await self._ask(lambda connection: connection.fetch("select n, at from effects order by at"))
        return [Effect(row["n"], row["at"]) for row in rows]

    async def alive(self) -> int:
        return int(await self._ask(self.side.count_alive))

    async def _ask(self, question: Callable[[Any], Any]) -> Any:
        """Ask the database, however often its server goes away."""
        while True:
            try:
                if self._connection is None:
                    self._connection = await asyncpg.connect(self.place.url, timeout=5)
                return await question(self._connection)
            except UNREACHABLE:
                self._connection = None
                await asyncio.sleep(POLL)

    async def close(self) -> None:
        for worker in self._workers:
            await worker.end()
        if self._connection is not None:
            await self._connection.close()
        if self._broker is not None:
            await self._broker.crash()


@asynccontextmanager
async def open_server() -> AsyncIterator[EmbeddedServer]:
    """Start a server in a folder that an unprivileged account can reach; remove both at the end."""
    home = Path(tempfile.mkdtemp(prefix="penstock-gauntlet-"))
    home.chmod(0o711)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]  # a fixed one: after a restart the server is where it was
    server = EmbeddedServer(home, PostgresSettings(max_connections=200, port=port))
    try:
        await server.join()
        yield server
    finally:
        await server.stop(force=True)
        shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def open_arena(server: EmbeddedServer, system: str, tuned: bool, limit: float) -> AsyncIterator[Arena]:
    """An empty database with the schema of that system."""
    home = Path(tempfile.mkdtemp(prefix="run-", dir=server.home))
    database = f"g{time.time_ns()}"
    admin = await asyncpg.connect(server.url.with_database("postgres").reveal())
    await admin.execute(f"create database {database}")
    await admin.close()
    broker = Broker(home, tuned) if system == "celery" else None
    address = f"redis+socket://{broker.socket}" if broker is not None else ""
    place = Place(server.url.with_database(database).reveal(), home, address)
    if broker is not None:
        await broker.start()
    arena = Arena(server, place, load(system)(place, tuned), broker, limit)
    try:
        await arena.run("install")
        yield arena
    finally:
        await arena.close()
