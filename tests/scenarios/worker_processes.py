"""Worker processes of the sample jobs on one database, and what they have done there."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from penstock import Penstock
from penstock.engine.queue import sql
from tests.processes import Started, start


@dataclass(frozen=True)
class Attempt:
    """One ended attempt, as the history has it."""

    number: int
    worker_id: int
    seconds: float
    outcome: str


@dataclass(frozen=True)
class JobRecord:
    """One job, live or finished."""

    state: str
    attempt: int
    failures: int
    quarantined: bool
    deaths: int
    worker_id: int | None
    error: Mapping[str, Any]
    attempts: list[Attempt]

    @property
    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.attempts]


class WorkerProcess:
    """One worker process; what it logs goes to a file, so that no pipe has to be read."""

    def __init__(self, started: Started, log: Path) -> None:
        self.started = started
        self.pid = started.pid
        self._log = log

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def end(self, within: float = 20) -> int:
        """Wait for its end; the exit code."""
        return await self.started.end(within)

    @property
    def running(self) -> bool:
        return self.started.process.returncode is None

    @property
    def logged(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        lines = [json.loads(line) for line in self.logged.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    async def until(self, event: str, times: int = 1, within: float = 20) -> None:
        """Wait until it has logged this so many times."""
        try:
            async with asyncio.timeout(within):
                while len(self.lines(event)) < times:
                    assert self.running, f"it ended without logging {event!r}:\n{self.logged}"
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"it did not log {event!r}:\n{self.logged}") from None


class WorkerProcesses:
    """Starts workers, and reads the database past all of them."""

    def __init__(
        self,
        client: Penstock,
        connection: "asyncpg.Connection[asyncpg.Record]",
        folder: Path,
        environ: Mapping[str, str],
        module: str = "tests.scenarios.sample_jobs",
    ) -> None:
        self.client = client
        self.connection = connection
        self._folder = folder
        self._environ = environ
        self._module = module
        self._numbers = count(1)
        self._stack = AsyncExitStack()

    async def start(self, *options: str, ready: bool = True, **environ: str) -> WorkerProcess:
        """Start a worker process; `ready`: wait until it claims."""
        log = self._folder / f"worker-{next(self._numbers)}.log"
        settings = {"PENSTOCK_POOL__SIZE": "4", "PENSTOCK_LOG__FORMAT": "json", "PENSTOCK_LOG__LEVEL": "info"}
        # A shell's redirection: a full pipe would block the worker.
        script = (
            "import os, runpy, sys; log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600); "
        )
        script += f"os.dup2(log, 1); os.dup2(log, 2); runpy.run_module('{self._module}', run_name='__main__')"
        started = await self._stack.enter_async_context(
            start("-c", script, str(log), *options, environ={**settings, **self._environ, **environ})
        )
        worker = WorkerProcess(started, log)
        if ready:
            await until_ready(worker, log)
        return worker

    async def stop(self) -> None:
        await self._stack.aclose()

    async def record(self, job_id: int) -> JobRecord:
        row = await sql.find_job.first(self.connection, id=job_id)
        assert row is not None
        attempts = [
            Attempt(each["number"], each["worker_id"], each["seconds"], each["outcome"])
            for each in json.loads(row["attempts"])
        ]
        return JobRecord(
            row["state"],
            row["attempt"],
            row["failures"],
            row["quarantined"],
            row["deaths"],
            row["worker_id"],
            json.loads(row["error"] or "{}"),
            attempts,
        )

    async def until(self, question: str, *arguments: Any, within: float = 20) -> None:
        """Ask the database until the answer is true."""
        try:
            async with asyncio.timeout(within):
                while not await self.connection.fetchval(question, *arguments):  # noqa: ASYNC110  no event for SQL
                    await asyncio.sleep(0.02)
        except TimeoutError:
            live = await self.connection.fetch("select * from penstock.jobs order by id limit 5")
            raise AssertionError(f"not true in {within} s: {question}; live jobs: {live}") from None

    async def until_begun(self, job_id: int, attempt: int = 1, within: float = 20) -> None:
        await self.until(
            "select exists (select from begun where job = $1 and attempt = $2)", job_id, attempt, within=within
        )

    async def until_over(self, within: float = 60) -> None:
        """No job is alive, apart from dead letters."""
        await self.until("select not exists (select from penstock.jobs where state <> 'dead')", within=within)

    async def effects(self) -> Counter[int]:
        """How often each job had its effect."""
        rows = await self.connection.fetch("select job, count(*) as times from effects group by job")
        return Counter({row["job"]: row["times"] for row in rows})

    async def history(self) -> dict[int, list[Attempt]]:
        """The attempts of each finished job; a job that is there twice is an error."""
        rows = await self.connection.fetch(
            "select id, to_json(attempts) as attempts, attempt from penstock.job_history"
        )
        attempts = {
            row["id"]: [
                Attempt(each["number"], each["worker_id"], each["seconds"], each["outcome"])
                for each in json.loads(row["attempts"])
            ]
            for row in rows
        }
        assert len(attempts) == len(rows), "a job is in the history twice"
        for row in rows:
            assert [each.number for each in attempts[row["id"]]] == list(range(1, row["attempt"] + 1))
        return attempts

    async def charged(self) -> int:
        """Failures charged to any job, live or finished."""
        return int(
            await self.connection.fetchval(
                "select coalesce(sum(failures), 0) from "
                "(select failures from penstock.jobs union all select failures from penstock.job_history) as all_jobs"
            )
        )


async def until_ready(worker: WorkerProcess, log: Path) -> None:
    async with asyncio.timeout(30):
        while not log.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await worker.until("worker started", within=30)
