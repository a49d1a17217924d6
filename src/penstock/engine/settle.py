"""The settler: records the outcomes of attempts. Only a handler's own `finish` does so, too.

Outcomes are recorded by group commit: what ended while one flush was under way goes into the next one. An
idle worker flushes at once, a busy one in batches, with no timer in between.

Settling has three answers. *Mine*: the row came back. *Already mine*: the answer to an earlier COMMIT was lost, and the
attempt is found among those that ended. *Lost*: another worker has the job by now, and nothing was written.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import asyncpg

from penstock import telemetry
from penstock.database import Pool, Session, statements
from penstock.engine.children import count_down
from penstock.engine.claim import wake_queues
from penstock.engine.failpoint import reach
from penstock.engine.job import (
    Cancelled,
    Dead,
    Done,
    Failure,
    Finished,
    Job,
    Outcome,
    Requeue,
    Retry,
    Snooze,
    Waits,
    describe_failure,
)
from penstock.engine.steps import forget_scopes
from penstock.errors import DatabaseTrouble, DatabaseUnreachable, LeaseLost
from penstock.telemetry import log

sql = statements(__file__)

fenced = telemetry.counter("penstock_fenced_writes_total", "Writes of attempts that were no longer ours")
flushes = telemetry.counter("penstock_settle_flushes_total", "Group commits of outcomes")

BATCH = 1000
# Errors that a row itself causes; anything else (a full disk, a failover, a deadlock) passes, and is tried again.
ROWS_FAULT = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, ValueError)
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(slots=True, eq=False)
class Settlement:
    """A job, what happened, and how long it took."""

    job: Job
    outcome: Outcome
    seconds: float


class Settler:
    """Collects outcomes of one worker and flushes them."""

    def __init__(self, pool: Pool, worker_id: int) -> None:
        self._pool = pool
        self._worker_id = worker_id
        self._pending: list[Settlement] = []
        self._flying: list[Settlement] = []
        self._progress: dict[int, tuple[Job, str]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._flusher: asyncio.Task[None] | None = None

    @property
    def backlog(self) -> int:
        return len(self._pending)

    def unwritten(self) -> Iterator[tuple[int, int]]:
        """The jobs and attempts whose outcome is known here and perhaps not yet in the table."""
        return ((item.job.id, item.job.attempt) for item in chain(self._pending, self._flying))

    def holds_quarantined(self) -> bool:
        """Whether a quarantined job has ended here, and still runs according to the table."""
        return any(item.job.quarantined for item in chain(self._pending, self._flying))

    def start(self) -> None:
        self._flusher = asyncio.create_task(self._flush_for_ever(), name="settler")

    def add(self, settled: Settlement) -> None:
        self._pending.append(settled)
        self._idle.clear()
        self._wake.set()

    def note_progress(self, job: Job, progress: str) -> None:
        """Keep the latest progress; it is written with the next flush."""
        self._progress[job.id] = (job, progress)
        self._wake.set()

    async def drain(self) -> None:
        await self._idle.wait()

    async def stop(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)

    async def _flush_for_ever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending or self._progress:
                batch, self._pending = self._pending, []
                if len(batch) > BATCH:
                    batch, self._pending = batch[:BATCH], batch[BATCH:]
                self._flying = batch
                progress, self._progress = self._progress, {}
                await self._flush_until_settled(batch, progress)
                self._flying = []
            self._idle.set()

    async def _flush_until_settled(self, batch: list[Settlement], progress: dict[int, tuple[Job, str]]) -> None:
        """Through lost connections and restarts: repeating is safe, because every statement shows its fence."""
        for attempt in range(1_000_000):
            try:
                await self._flush(batch, progress, again=attempt > 0)
                return
            except ROWS_FAULT as error:
                if len(batch) <= 1:
                    batch = [_buried(item, error) for item in batch]
                    progress = {}
                else:  # one bad row must not hold back the others
                    for item in batch:
                        await self._flush_until_settled([item], {})
                    return
            except (DatabaseTrouble, DatabaseUnreachable, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                log.warning("outcomes could not be written yet", jobs=len(batch), error=str(error))
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            except Exception:  # noqa: BLE001  a defect; without this task no outcome would ever be written again
                log.exception("outcomes could not be written yet", jobs=len(batch))
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])

    async def _flush(self, batch: list[Settlement], progress: dict[int, tuple[Job, str]], *, again: bool) -> None:
        flushes.inc()
        async with self._pool.transaction() as tx:
            if progress:
                await self._write_progress(tx, progress)
            mine = await settle(tx, self._worker_id, batch) if batch else set()
            lost = [item for item in batch if item.job.id not in mine]
            if lost and again:
                mine |= await settled_before(tx, self._worker_id, [item.job for item in lost])
            reach("before-commit", tx)
        reach("after-commit-before-ack", tx)
        for item in batch:
            if item.job.id not in mine:
                fenced.inc()
                log.warning("outcome dropped: the job is not ours any more", job=item.job.id, attempt=item.job.attempt)

    async def _write_progress(self, tx: Session, progress: dict[int, tuple[Job, str]]) -> None:
        await sql.settle_progress(
            tx,
            ids=[job.id for job, _ in progress.values()],
            attempts=[job.attempt for job, _ in progress.values()],
            workers=[self._worker_id] * len(progress),
            progresses=[text for _, text in progress.values()],
        )


async def settle(tx: Session, worker_id: int, batch: list[Settlement]) -> set[int]:
    """Record the outcomes in the caller's transaction; the ids of the jobs that were still ours."""
    reach("before-settle", tx)
    by_outcome: dict[type[Outcome], list[Settlement]] = defaultdict(list)
    for item in batch:
        by_outcome[type(item.outcome)].append(item)
    mine: set[int] = set()
    children: list[int | None] = []  # the fan-outs of those that have ended
    for outcome, items in by_outcome.items():
        if outcome is Done:
            mine |= await _settle_done(tx, worker_id, items, "done", children)
        elif outcome is Cancelled:
            mine |= await _settle_done(tx, worker_id, items, "cancelled", children)
        elif outcome in (Retry, Snooze):
            mine |= await _settle_retry(tx, worker_id, items)
        elif outcome is Dead:
            mine |= await _settle_dead(tx, worker_id, items, children)
        elif outcome is Requeue:
            mine |= await _settle_requeue(tx, worker_id, items)
        elif outcome in (Finished, Waits):
            mine |= {item.job.id for item in items}
    await count_down(tx, children)  # once and last: its locks must not come before those of other rows
    return mine


async def finish(tx: Session, worker_id: int, job: Job, result: Any, seconds: float) -> None:
    """The end of a handler's own transaction: its effects and the job's completion commit together, or not at all."""
    children: list[int | None] = []
    if not await _settle_done(tx, worker_id, [Settlement(job, Done(result), seconds)], "done", children):
        raise LeaseLost(f"Job {job.id} is not ours any more (attempt {job.attempt}); nothing was written.")
    await count_down(tx, children)


async def settled_before(session: Session, worker_id: int, jobs: Sequence[Job]) -> set[int]:
    """Those of these attempts of ours that have ended already: a COMMIT may have been left without an answer."""
    rows = await sql.settled_before(
        session, ids=[job.id for job in jobs], attempts=[job.attempt for job in jobs], worker_id=worker_id
    )
    return {row["id"] for row in rows}


async def hold_fence(tx: Session, worker_id: int, job: Job) -> None:
    """Keep the attempt ours until the caller's commit; `LeaseLost` if it is not."""
    if await sql.hold_fence.value(tx, id=job.id, attempt=job.attempt, worker_id=worker_id) is None:
        raise LeaseLost(f"Job {job.id} is not ours any more (attempt {job.attempt}); nothing was written.")


async def _settle_done(
    tx: Session, worker_id: int, items: list[Settlement], outcome: str, children: list[int | None]
) -> set[int]:
    try:
        rows = await sql.settle_done(
            tx,
            **_proof(worker_id, items),
            results=[item.outcome.result if isinstance(item.outcome, Done) else None for item in items],
            outcome=outcome,
        )
    except asyncpg.CheckViolationError as error:
        if not (error.table_name or "").startswith("job_history"):
            raise
        # It was on its way to the partition for the rest when its day got one of its own: the next try finds that.
        raise DatabaseTrouble("The history got a new partition at this moment.") from error
    mine = {row["id"] for row in rows}
    children += [row["fanout"] for row in rows]
    if outcome == "done" and (scopes := [item.job.scope for item in items if item.job.scope and item.job.id in mine]):
        await forget_scopes(tx, scopes)
    keyed = [item.job for item in items if item.job.unique_key is not None and item.job.id in mine]
    if keyed:
        await sql.release_keys.run(
            tx,
            keys=[job.unique_key for job in keyed],
            ids=[job.id for job in keyed],
            keeps=[job.unique_for for job in keyed],
        )
    return mine


async def _settle_retry(tx: Session, worker_id: int, items: list[Settlement]) -> set[int]:
    outcomes: list[Retry | Snooze] = [item.outcome for item in items if isinstance(item.outcome, Retry | Snooze)]
    rows = await sql.settle_retry(
        tx,
        **_proof(worker_id, items),
        **_failures([outcome.failure for outcome in outcomes]),
        afters=[outcome.after for outcome in outcomes],
        charges=[int(isinstance(outcome, Retry)) for outcome in outcomes],
        alones=[isinstance(outcome, Retry) and outcome.alone for outcome in outcomes],
        outcomes=["retry" if isinstance(outcome, Retry) else "snooze" for outcome in outcomes],
    )
    return {row["id"] for row in rows}


async def _settle_dead(tx: Session, worker_id: int, items: list[Settlement], children: list[int | None]) -> set[int]:
    failures = [item.outcome.failure for item in items if isinstance(item.outcome, Dead)]
    rows = await sql.settle_dead(tx, **_proof(worker_id, items), **_failures(failures))
    children += [row["fanout"] for row in rows]
    return {row["id"] for row in rows}


async def _settle_requeue(tx: Session, worker_id: int, items: list[Settlement]) -> set[int]:
    reasons = [item.outcome.reason for item in items if isinstance(item.outcome, Requeue)]
    rows = await sql.settle_requeue(tx, **_proof(worker_id, items), reasons=reasons)
    await wake_queues(tx, {item.job.queue for item in items})
    return {row["id"] for row in rows}


def _proof(worker_id: int, items: list[Settlement]) -> dict[str, Any]:
    return {
        "ids": [item.job.id for item in items],
        "attempts": [item.job.attempt for item in items],
        "workers": [worker_id] * len(items),
        "seconds": [item.seconds for item in items],
    }


def _failures(failures: list[Failure]) -> dict[str, Any]:
    return {
        "errors": [json.dumps(failure.as_json()) for failure in failures],
        "fingerprints": [failure.fingerprint for failure in failures],
        "messages": [failure.message for failure in failures],
    }


def _buried(item: Settlement, error: Exception) -> Settlement:
    """Fail permanently: a result that PostgreSQL cannot keep, such as a NUL, would be refused for ever."""
    return Settlement(item.job, Dead(describe_failure(item.job.kind, error, "Permanent")), item.seconds)
