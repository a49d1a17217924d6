"""Runs one handler, and turns whatever happens into an `Outcome`. Nothing is written here.

A handler computes without a connection. If it has effects in PostgreSQL, it writes them inside `async with ctx.finish()
as tx`: one short transaction which checks the fence, takes the writes, and moves the job to the history. A handler that
never calls it is settled by group commit after it returns.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from structlog.typing import FilteringBoundLogger

from penstock.database import Pool, Session
from penstock.engine.backoff import retry_after, tries_for
from penstock.engine.job import Job
from penstock.engine.kinds import Kind
from penstock.engine.outcome import (
    Bury,
    Cancelled,
    Done,
    Finished,
    Outcome,
    Release,
    Retry,
    Snooze,
    describe_failure,
)
from penstock.engine.settler import Settler, finish, sql
from penstock.errors import (
    CallTimedOut,
    ConnectionLost,
    DatabaseTrouble,
    DatabaseUnreachable,
    HeldTooLong,
    LeaseLost,
    Permanent,
    RateLimited,
    ResourceLimit,
    WorkerMustStop,
)
from penstock.telemetry import current_job, log

PROGRESS_EVERY = 0.5  # seconds between writes of one job's progress


class Stop(Enum):
    """Why a running handler is told to end."""

    CANCEL = "cancelled"
    TIMEOUT = "timed out"
    STALL = "stalled"
    RELEASE = "released"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Desk:
    """What a handler's context needs of its worker."""

    pool: Pool
    settler: Settler
    worker_id: int
    code: str


class Context:
    """What a handler gets as its first argument."""

    __slots__ = ("_desk", "_log", "_told_at", "finished", "job", "progressed_at", "started_at", "stop")

    def __init__(self, job: Job, desk: Desk) -> None:
        self.job = job
        self.stop: Stop | None = None
        self.finished = False
        self.started_at = self.progressed_at = time.monotonic()
        self._desk = desk
        self._log: FilteringBoundLogger | None = None
        self._told_at = 0.0

    @property
    def attempt(self) -> int:
        """The number of this try, from 1 on; it never shrinks."""
        return self.job.attempt

    @property
    def cancelled(self) -> bool:
        """True as soon as somebody wants this handler to end; for loops that cannot be interrupted."""
        return self.stop is not None

    @property
    def log(self) -> FilteringBoundLogger:
        if self._log is None:
            self._log = log.bind(job=self.job.id, kind=self.job.kind, attempt=self.job.attempt)
        return self._log

    @property
    def code(self) -> str:
        """The version of the application's code."""
        return self._desk.code

    async def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the work is. Shown by `why`, and proof of life for `stall_after`; written at most twice a second."""
        now = self.progressed_at = time.monotonic()
        if now - self._told_at >= PROGRESS_EVERY or done == total:
            self._told_at = now
            self._desk.settler.note_progress(self.job, json.dumps({"done": done, "total": total, "note": note}))
        await asyncio.sleep(0)  # a handler that only counts must not starve the others

    @asynccontextmanager
    async def finish(self, result: Any = None) -> AsyncIterator[Session]:
        """One transaction: the fence, my writes, and done. It is the end of the job, and happens once."""
        if self.finished:
            raise RuntimeError(f"Job {self.job.id} is finished already: ctx.finish() is the end of a job.")
        encoded = encode_result(self.job.kind, result)
        desk, job = self._desk, self.job
        try:
            async with desk.pool.transaction() as tx:
                if await sql.hold_fence.value(tx, id=job.id, attempt=job.attempt, worker_id=desk.worker_id) is None:
                    raise LeaseLost(f"Job {job.id} is no longer ours (attempt {job.attempt}); nothing was written.")
                yield tx
                await finish(tx, desk.worker_id, job, encoded, time.monotonic() - self.started_at)
        except (ConnectionLost, CallTimedOut):
            if not await self._committed():
                raise
        self.finished = True

    async def _committed(self) -> bool:
        """After a COMMIT without an answer: the history knows."""

        async def look(session: Session) -> bool:
            job = self.job
            found = await sql.settled_before(
                session, ids=[job.id], attempts=[job.attempt], worker_id=self._desk.worker_id
            )
            return bool(found)

        return await self._desk.pool.repeat(look)


async def execute(kind: Kind, context: Context) -> Outcome:
    """Run the handler to its end. Raises only LeaseLost: then nothing here is ours to settle."""
    job = context.job
    current_job.set((job.id, job.kind))
    try:
        result = await kind.handler(context, **json.loads(job.args))
        return Finished() if context.finished else Done(encode_result(job.kind, result))
    except LeaseLost:
        raise
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  whatever a handler raises is its outcome
        if context.finished:  # the end was written; what comes after it is only worth a line
            log.warning("raised after finish", error=repr(error))
            return Finished()
        return judge(kind, context, error)


def judge(kind: Kind, context: Context, error: BaseException) -> Outcome:
    """What an exception means for its job. The one retry authority."""
    if context.stop is Stop.CANCEL:
        return Cancelled()
    if context.stop is Stop.RELEASE or isinstance(error, WorkerMustStop):
        return Release(str(error) or "the worker stopped")
    if context.stop is Stop.LOST:
        raise LeaseLost(f"Job {context.job.id} is no longer ours.")
    return _judge_failure(kind, context, _named(kind, context, error))


def _judge_failure(kind: Kind, context: Context, error: BaseException) -> Outcome:
    error_class = next(
        (cls.__name__ for cls in (RateLimited, ResourceLimit, Permanent) if isinstance(error, cls)), "Transient"
    )
    failure = describe_failure(context.job.kind, error, error_class, context.code)
    jitter = random.uniform(-1, 1)  # noqa: S311  not a secret
    if isinstance(error, RateLimited):
        return Snooze(failure, error.retry_after)
    if isinstance(error, DatabaseTrouble | DatabaseUnreachable) and not isinstance(error, HeldTooLong):
        # Not its fault, and the database's troubles end.
        return Snooze(failure, retry_after(1, jitter))
    limited = isinstance(error, ResourceLimit)
    if isinstance(error, Permanent) or context.job.failures >= tries_for(kind.retries, resource_limit=limited):
        return Bury(failure)
    return Retry(failure, retry_after(context.job.failures + 1, jitter), alone=limited)


def _named(kind: Kind, context: Context, error: BaseException) -> BaseException:
    """A cancellation by the watch, as the error that it stands for, with the place where the handler was."""
    if context.stop is Stop.TIMEOUT:
        return ResourceLimit(f"It took longer than its timeout of {kind.timeout}.").with_traceback(error.__traceback__)
    if context.stop is Stop.STALL:
        return TimeoutError(f"It reported no progress for {kind.stall_after}.").with_traceback(error.__traceback__)
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError("Something inside the handler cancelled it.").with_traceback(error.__traceback__)
    return error


def encode_result(kind: str, result: Any) -> str | None:
    """A result as JSON, or a permanent failure: trying again would give the same."""
    if result is None:
        return None
    try:
        return json.dumps(result, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"The result of {kind} cannot be kept as JSON ({error}).") from error
