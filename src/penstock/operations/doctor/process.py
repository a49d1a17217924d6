"""The faults of one process, for its `/health/ready`: database, disks, blob store, lease, and for the API also the workers.

The answer is good for a moment (`fresh`), however many clients ask, and takes at most 2.5 seconds, also while the database
or a disk does not answer. Disks are read once in `STORAGE_FRESH` seconds, a bucket is probed once in `BUCKET_FRESH` seconds.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import timedelta

from penstock import engine
from penstock.database import Database, Session
from penstock.documents import PREPARE
from penstock.engine import FENCE_AT, Worker, membership
from penstock.engine.inspect import count_workers, served_waits
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.operations.doctor.disk import LEAST_FREE, examine_blobs, examine_places, find_data_folder
from penstock.operations.doctor.engine import examine_serving, examine_waits
from penstock.operations.doctor.finding import START, WORKER, Finding
from penstock.telemetry import log, mask
from penstock.text import span

WITHIN = 2.0  # seconds: a probe must not wait for the deadline of a whole call
DISKS_WITHIN = 0.5  # seconds, after the database
STORAGE_FRESH = 5.0
BUCKET_FRESH = 60.0


class ProcessCheck(ABC):
    """The faults of this process. `documents`: it stores or reads documents."""

    fresh = 1.0  # seconds for which an answer is good

    def __init__(self, database: Database, *, documents: bool, least_free: int = LEAST_FREE) -> None:
        self._database = database
        self._documents = documents
        self._least_free = least_free
        self._checking = asyncio.Lock()
        self._last: list[Finding] = []
        self._checked_at = float("-inf")
        self._data_folder: str | None = None
        bucket = documents and bool(database.settings.blobs.url)
        self._disks = SlowCheck(self._examine_disks, STORAGE_FRESH)
        self._blobs = SlowCheck(self._examine_blobs, BUCKET_FRESH if bucket else STORAGE_FRESH)

    async def findings(self) -> list[Finding]:
        async with self._checking:
            if time.monotonic() - self._checked_at > self.fresh:
                found, blobs = await asyncio.gather(self._ask_database_and_disks(), self._blobs.findings(WITHIN))
                self._last = [*found, *blobs]
                self._checked_at = time.monotonic()
                for finding in self._last:
                    log.warning("not ready", finding=finding.name, problem=finding.sentence)
        return self._last

    async def _ask_database_and_disks(self) -> list[Finding]:
        """One after the other: the database knows one of the folders."""
        found = await self._ask_database()
        return [*found, *await self._disks.findings(DISKS_WITHIN)]

    async def _ask_database(self) -> list[Finding]:
        try:
            async with asyncio.timeout(WITHIN), self._database.pool.session() as session:
                if self._data_folder is None:
                    self._data_folder = await find_data_folder(session)
                return await self._read(session)
        except TimeoutError:
            return [_away(f"PostgreSQL did not answer within {WITHIN:.0f} s.")]
        except (DatabaseTrouble, DatabaseUnreachable) as error:
            return [_away(mask(str(error)))]

    @abstractmethod
    async def _read(self, session: Session) -> list[Finding]:
        """The findings that need the database."""

    async def _examine_disks(self) -> list[Finding]:
        settings, data = self._database.settings, self._data_folder
        return await asyncio.to_thread(
            examine_places, settings, data, documents=self._documents, least_free=self._least_free
        )

    async def _examine_blobs(self) -> list[Finding]:
        return await examine_blobs(self._database.settings) if self._documents else []


class ApiCheck(ProcessCheck):
    """The faults of an API process: also, that documents would wait."""

    def __init__(self, database: Database, *, stale_after: timedelta, least_free: int = LEAST_FREE) -> None:
        super().__init__(database, documents=True, least_free=least_free)
        self._stale_after = stale_after

    async def _read(self, session: Session) -> list[Finding]:
        alive, serving = await count_workers(session), await engine.count_serving(session, PREPARE)
        return [
            *examine_serving(alive, serving, documents=True),
            *examine_waits(await served_waits(session), self._stale_after),
        ]


class WorkerCheck(ProcessCheck):
    """The faults of a worker process: also, that it has lost its lease."""

    fresh = 0.1  # a worker that has lost its lease soon joins again

    def __init__(self, database: Database, worker: Worker, *, documents: bool) -> None:
        super().__init__(database, documents=documents)
        self._worker = worker
        self._start = WORKER if documents else START

    async def _read(self, session: Session) -> list[Finding]:
        row = await membership(session, self._worker.worker_id)
        if row is None:
            return [self._lease("The worker has not joined the fleet yet.")]
        if row["gone_at"] is not None:
            return [self._lease(f"The lease is lost, and other workers have the jobs: {row['gone_why']}.")]
        if row["silent_for"] > row["lease"] * FENCE_AT:
            return [self._lease(f"The lease of {span(row['lease'])} was not renewed for {span(row['silent_for'])}.")]
        return []

    def _lease(self, sentence: str) -> Finding:
        return Finding("lease-lost", sentence, self._start)


class SlowCheck:
    """A check that may hang: one reading at a time, which callers wait for only so long."""

    def __init__(self, read: Callable[[], Awaitable[list[Finding]]], fresh: float) -> None:
        self._read = read
        self._fresh = fresh
        self._reading: asyncio.Future[list[Finding]] | None = None
        self._read_at = float("-inf")
        self._last: list[Finding] = []

    async def findings(self, within: float) -> list[Finding]:
        if self._reading is None and time.monotonic() - self._read_at <= self._fresh:
            return self._last
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())
        done, _ = await asyncio.wait({self._reading}, timeout=within)
        if not done:
            return [_storage_away(f"The disks or the blob store did not answer within {within:g} s.")]
        reading, self._reading = self._reading, None
        try:
            self._last = reading.result()
        except OSError as error:
            self._last = [_storage_away(f"A disk or the blob store cannot be read: {error.strerror or error}.")]
        self._read_at = time.monotonic()
        return self._last


def _storage_away(sentence: str) -> Finding:
    return Finding("storage-away", sentence, "df -h")


def _away(sentence: str) -> Finding:
    return Finding("database-away", sentence, "penstock doctor")
