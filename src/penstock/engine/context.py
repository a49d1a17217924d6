"""What a handler gets as its first argument: its progress, its steps, its children, and its end.

A handler computes without a connection. If it has effects in PostgreSQL, it writes them inside `async with ctx.finish()
as tx`: one short transaction which checks the fence, takes the writes, and moves the job to the history. A handler that
never calls it is settled by group commit after it returns.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

from opentelemetry.trace import Span
from structlog.typing import FilteringBoundLogger

from penstock.database import Pool, Session
from penstock.engine.allotment import NOTHING_SAID, WENT_WELL, Permit, read_end
from penstock.engine.checkpoint import Steps
from penstock.engine.failpoint import STEP, reach
from penstock.engine.fanout import Gaps, run_map
from penstock.engine.job import Job
from penstock.engine.kinds import Call, Kind
from penstock.engine.lanes import FindLanes
from penstock.engine.outcome import encode_result
from penstock.engine.permits import Allotments
from penstock.engine.settler import Settler, finish, sql
from penstock.engine.stop import Stop
from penstock.errors import CallTimedOut, ConnectionLost, LeaseLost, Unavailable
from penstock.telemetry import is_traced, log, start_span

PROGRESS_EVERY = 0.5  # seconds between writes of one job's progress
STEP_TOLD_AFTER = 0.3  # seconds that a step must last to be worth a write of its own


@dataclass(frozen=True, slots=True)
class Desk:
    """What a handler's context needs of its worker."""

    pool: Pool
    settler: Settler
    worker_id: int
    code: str
    find_lanes: FindLanes  # the numbers of lanes, which are made if there are none
    allotments: Allotments = field(default_factory=Allotments)


class Context:
    """What a handler gets as its first argument."""

    __slots__ = (
        "_log",
        "_part",
        "_progress",
        "_step_since",
        "_steps",
        "_told_at",
        "_told_step",
        "_waiting",
        "desk",
        "ending",
        "excused",
        "finished",
        "job",
        "kind",
        "progressed_at",
        "started_at",
        "step_name",
        "stop",
        "suspended",
    )

    def __init__(self, job: Job, kind: Kind, desk: Desk) -> None:
        self.job = job
        self.kind = kind
        self.desk = desk
        self.stop: Stop | None = None
        self.finished = False
        self.suspended = False  # the job waits for its children; the handler only has to end
        self.step_name = ""  # at present, or the one that failed
        self.started_at = self.progressed_at = time.monotonic()
        self._log: FilteringBoundLogger | None = None
        self._part: Span | None = None  # of the trace: what goes on at present
        self._steps: Steps | None = None
        self._progress: dict[str, Any] = {}
        self._told_at = 0.0
        self._told_step = ""
        self._step_since = 0.0
        self._waiting = 0  # for permits, in how many of the handler's tasks
        self.ending = NOTHING_SAID  # what the attempt says about the limits that its kind uses
        self.excused = False  # the last failure was of another side that has answered nobody since

    @property
    def attempt(self) -> int:
        """The number of this try, from 1 on; it never shrinks."""
        return self.job.attempt

    @property
    def written(self) -> bool:
        """The end of this attempt is in the table already; the handler only has to return."""
        return self.finished or self.suspended

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
        return self.desk.code

    # -- on the way -------------------------------------------------------------------------------------------------

    async def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the work is. Shown by `why`, and proof of life for `stall_after`; written at most twice a second."""
        now = self.progressed_at = time.monotonic()
        self._progress = {"done": done, "total": total, "note": note}
        if now - self._told_at >= PROGRESS_EVERY or done == total:
            self._tell(now)
        await asyncio.sleep(0)  # a handler that only counts must not starve the others

    def tell_step(self, now: float) -> None:
        """Called by the worker's watch: a step that lasts is written down, a quick one is not worth it."""
        if self.step_name != self._told_step and now - self._step_since > STEP_TOLD_AFTER:
            self._tell(now)

    def _tell(self, now: float) -> None:
        self._told_at, self._told_step = now, self.step_name
        self.desk.settler.note_progress(self.job, json.dumps(self._progress | {"step": self.step_name or None}))

    @property
    def steps(self) -> Steps:
        if self._steps is None:
            scope = self.kind.scope_of(self.job.args)
            own = scope is None
            self._steps = Steps(self.desk.pool, self.desk.worker_id, self.job, scope or f"job {self.job.id}", own)
        return self._steps

    def enter(self, name: str) -> None:
        """Say which part of the work begins, for `why` and the dead letter; unlike a step's, its result is not kept."""
        self.step_name, self._step_since = name, time.monotonic()
        self.progressed_at = self._step_since
        if is_traced():
            self.end_part()
            self._part = start_span(f"step {name}", job=self.job.id)
        reach(f"{STEP}{name}")

    def end_part(self) -> None:
        """For the trace: a part ends when the next one begins."""
        if self._part is not None:
            self._part.end()
            self._part = None

    async def step(
        self, name: str, function: Callable[..., Any], *arguments: Any, version: int = 1, pure: bool = False
    ) -> Any:
        """Run a part of the work once: a later attempt gets what it returned, JSON or bytes up to 8 MB.

        Raise `version` when the part computes something else. A `pure` part that was cheap is computed again instead of kept.
        """
        before = self.step_name
        self.enter(name)
        result = await self.steps.run(name, function, arguments, version, pure=pure)
        self.step_name = before  # not after a failure: it tells where it happened
        self.end_part()
        self.progressed_at = time.monotonic()
        return result

    async def map(
        self, name: str, calls: Iterable[Call], *, limit: int | None = None, gaps: Gaps = "refuse"
    ) -> list[Any]:
        """Spread calls over the fleet, at most `limit` of them at once, and return their results in order.

        While the children run, this job has no slot: the handler is left here, and runs again from the top when the last one
        has ended. What comes before should be steps. A child that dies is this job's failure, or a `Gap` if those are allowed.
        """
        return await run_map(self, name, calls, limit, gaps)

    @asynccontextmanager
    async def limit(self, name: str, amount: int = 1) -> AsyncIterator[Permit]:
        """Have permits of a limit for one call; how the block is left tells how the other side is.

        Waits for its turn, without a connection. When the breaker is open, it raises at once what makes the job come back
        after the rest, uncharged.
        """
        self._waiting += 1
        self.progressed_at = inf  # who waits for a permit does not stall
        try:
            permit = await self.desk.allotments.take(self.job, name, amount)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.progressed_at = time.monotonic()
        ending = WENT_WELL
        try:
            yield permit
        except BaseException as error:
            ending = read_end(error, self.stop)
            if isinstance(error, Unavailable):
                self.excused = self.desk.allotments.excuses(self.job, name)
            raise
        finally:
            self.desk.allotments.end_call(permit, ending)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Session]:
        """One transaction on the way: the fence, and my writes. For large effects, which nobody sees before `finish`."""
        async with self.desk.pool.transaction() as tx:
            await self._hold_fence(tx)
            yield tx

    async def _hold_fence(self, tx: Session) -> None:
        job = self.job
        if await sql.hold_fence.value(tx, id=job.id, attempt=job.attempt, worker_id=self.desk.worker_id) is None:
            raise LeaseLost(f"Job {job.id} is no longer ours (attempt {job.attempt}); nothing was written.")

    # -- the end ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def finish(self, result: Any = None) -> AsyncIterator[Session]:
        """One transaction: the fence, my writes, and done. It is the end of the job, and happens once."""
        if self.finished:
            raise RuntimeError(f"Job {self.job.id} is finished already: ctx.finish() is the end of a job.")
        encoded = encode_result(self.job.kind, result)
        desk, job = self.desk, self.job
        try:
            async with desk.pool.transaction() as tx:
                await self._hold_fence(tx)
                yield tx
                reach("before-finish", tx)
                await finish(tx, desk.worker_id, job, encoded, time.monotonic() - self.started_at)
                reach("before-commit", tx)
            reach("after-commit-before-ack", tx)
        except (ConnectionLost, CallTimedOut):
            if not await self.committed():
                raise
        self.finished = True

    async def committed(self) -> bool:
        """After a COMMIT without an answer: the attempt is among those that ended, or not."""

        async def look(session: Session) -> bool:
            job = self.job
            found = await sql.settled_before(
                session, ids=[job.id], attempts=[job.attempt], worker_id=self.desk.worker_id
            )
            return bool(found)

        return await self.desk.pool.repeat(look)
