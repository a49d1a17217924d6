"""The context of a handler, its first argument: progress, steps, children, limits, and the end of its job.

A handler computes without a connection. If it has effects in PostgreSQL, it writes them inside `async with ctx.finish()
as tx`: one short transaction which checks the fence, takes the writes, and moves the job to the history. The outcome of a
handler that never calls it is recorded by group commit after it returns.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeVarTuple, overload

from opentelemetry.trace import Span
from structlog.typing import FilteringBoundLogger

from penstock.database import Pool, Session
from penstock.engine.children import Gap, Gaps, run_map
from penstock.engine.claim import FindLanes
from penstock.engine.failpoint import STEP, reach
from penstock.engine.job import Job, StopReason, encode_result
from penstock.engine.kinds import Call, Kind, R
from penstock.engine.limits.exchange import Limiters
from penstock.engine.limits.limiter import NOTHING_SAID, WENT_WELL, Permit, read_end
from penstock.engine.settle import Settler, finish, hold_fence, settled_before
from penstock.engine.steps import Steps
from penstock.errors import CallTimedOut, ConnectionLost, Unavailable
from penstock.telemetry import is_traced, log, start_span

PROGRESS_EVERY = 0.5  # seconds between writes of one job's progress
STEP_REPORTED_AFTER = 0.3  # seconds that a step must last to be worth a write of its own

Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts of a worker that the contexts of its handlers use."""

    pool: Pool
    settler: Settler
    worker_id: int
    code: str
    find_lanes: FindLanes  # the ids of lanes; missing ones are added
    limiters: Limiters = field(default_factory=Limiters)


class Context:
    """The first argument of a handler."""

    __slots__ = (
        "_log",
        "_part",
        "_progress",
        "_reported_at",
        "_reported_step",
        "_step_since",
        "_steps",
        "_waiting",
        "ending",
        "excused",
        "finished",
        "job",
        "kind",
        "progressed_at",
        "runtime",
        "started_at",
        "step_name",
        "stop",
        "suspended",
    )

    def __init__(self, job: Job, kind: Kind, runtime: Runtime) -> None:
        self.job = job
        self.kind = kind
        self.runtime = runtime
        self.stop: StopReason | None = None
        self.finished = False
        self.suspended = False  # the job waits for its children; the handler only has to end
        self.step_name = ""  # at present, or the one that failed
        self.started_at = self.progressed_at = time.monotonic()
        self._log: FilteringBoundLogger | None = None
        self._part: Span | None = None  # of the trace: the part that runs now
        self._steps: Steps | None = None
        self._progress: dict[str, Any] = {}
        self._reported_at = 0.0
        self._reported_step = ""
        self._step_since = 0.0
        self._waiting = 0  # for permits, in how many of the handler's tasks
        self.ending = NOTHING_SAID  # what the attempt shows about the limits that its kind uses
        self.excused = False  # the last failure was of a dependency that has answered no call since

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1 on; it never decreases."""
        return self.job.attempt

    @property
    def written(self) -> bool:
        """The end of this attempt is in the table already; the handler only has to return."""
        return self.finished or self.suspended

    @property
    def cancelled(self) -> bool:
        """True as soon as this handler should end; for loops that cannot be interrupted."""
        return self.stop is not None

    @property
    def log(self) -> FilteringBoundLogger:
        if self._log is None:
            self._log = log.bind(job=self.job.id, kind=self.job.kind, attempt=self.job.attempt)
        return self._log

    @property
    def code(self) -> str:
        """The version of the application's code."""
        return self.runtime.code

    # -- on the way -------------------------------------------------------------------------------------------------

    async def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report progress. Shown by `why`, and proof of life for `stall_after`; written at most twice a second."""
        now = self.progressed_at = time.monotonic()
        self._progress = {"done": done, "total": total, "note": note}
        if now - self._reported_at >= PROGRESS_EVERY or done == total:
            self._report(now)
        await asyncio.sleep(0)  # a handler that only counts must not starve the others

    def report_step(self, now: float) -> None:
        """Write the current step if it has lasted a while; called by the worker's watch."""
        if self.step_name != self._reported_step and now - self._step_since > STEP_REPORTED_AFTER:
            self._report(now)

    def _report(self, now: float) -> None:
        self._reported_at, self._reported_step = now, self.step_name
        self.runtime.settler.note_progress(self.job, json.dumps(self._progress | {"step": self.step_name or None}))

    @property
    def steps(self) -> Steps:
        if self._steps is None:
            scope = self.kind.scope_of(self.job.args)
            own = scope is None
            self._steps = Steps(self.runtime.pool, self.runtime.worker_id, self.job, scope or f"job {self.job.id}", own)
        return self._steps

    def enter(self, name: str) -> None:
        """Name the part of the work that begins, for `why` and the dead letter; unlike a step's, its result is not kept."""
        self.step_name, self._step_since = name, time.monotonic()
        self.progressed_at = self._step_since
        if is_traced():
            self.end_part()
            self._part = start_span(f"step {name}", job=self.job.id)
        reach(f"{STEP}{name}")

    def end_part(self) -> None:
        """End the span of the current part: it ends when the next one begins."""
        if self._part is not None:
            self._part.end()
            self._part = None

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Ts], Awaitable[R]],
        *arguments: *Ts,
        version: int = 1,
        pure: bool = False,
    ) -> R: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[[*Ts], R],
        *arguments: *Ts,
        version: int = 1,
        pure: bool = False,
    ) -> R: ...

    async def step(
        self,
        name: str,
        function: Callable[[*Ts], Any],
        *arguments: *Ts,
        version: int = 1,
        pure: bool = False,
    ) -> Any:
        """Run a part of the work once: a later attempt gets what it returned, JSON or bytes up to 8 MB.

        Raise `version` when the part computes something else. A `pure` part that was cheap is computed again instead of kept.
        """
        before = self.step_name
        self.enter(name)
        result = await self.steps.run(name, function, arguments, version, pure=pure)
        self.step_name = before  # not after a failure: it shows where it happened
        self.end_part()
        self.progressed_at = time.monotonic()
        return result

    @overload
    async def map(
        self, name: str, calls: Iterable[Call[R]], *, limit: int | None = None, gaps: Literal["refuse"] = "refuse"
    ) -> list[R]: ...

    @overload
    async def map(
        self, name: str, calls: Iterable[Call[R]], *, limit: int | None = None, gaps: Gaps
    ) -> list[R | Gap]: ...

    async def map(
        self, name: str, calls: Iterable[Call], *, limit: int | None = None, gaps: Gaps = "refuse"
    ) -> list[Any]:
        """Run calls as child jobs on the whole fleet, at most `limit` of them at once, and return their results in order.

        While the children run, this job has no slot: the handler is left here, and runs again from the top when the last one
        has ended. What comes before should be steps. A child that dies is this job's failure, or a `Gap` if those are allowed.
        """
        return await run_map(self, name, calls, limit, gaps)

    @asynccontextmanager
    async def limit(self, name: str, amount: int = 1) -> AsyncIterator[Permit]:
        """Hold permits of a limit for one call; how the block ends shows the state of the dependency.

        Waits for its turn, without a connection. When the breaker is open, it raises at once, and the job comes back after
        the rest, uncharged.
        """
        self._waiting += 1
        self.progressed_at = inf  # a handler that waits for a permit does not stall
        try:
            permit = await self.runtime.limiters.take(self.job, name, amount)
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
                self.excused = self.runtime.limiters.excuses(self.job, name)
            raise
        finally:
            self.runtime.limiters.end_call(permit, ending)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Session]:
        """An intermediate transaction: the fence and the handler's writes. For large effects, invisible until `finish`."""
        async with self.runtime.pool.transaction() as tx:
            await hold_fence(tx, self.runtime.worker_id, self.job)
            yield tx

    # -- the end ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def finish(self, result: Any = None) -> AsyncIterator[Session]:
        """The final transaction: the fence, the handler's writes, and done. It ends the job, once."""
        if self.finished:
            raise RuntimeError(f"Job {self.job.id} is finished already: call ctx.finish() once, at the end.")
        encoded = encode_result(self.job.kind, result)
        runtime, job = self.runtime, self.job
        try:
            async with runtime.pool.transaction() as tx:
                await hold_fence(tx, runtime.worker_id, job)
                yield tx
                reach("before-finish", tx)
                await finish(tx, runtime.worker_id, job, encoded, time.monotonic() - self.started_at)
                reach("before-commit", tx)
            reach("after-commit-before-ack", tx)
        except (ConnectionLost, CallTimedOut):
            if not await self.committed():
                raise
        self.finished = True

    async def committed(self) -> bool:
        """Whether the attempt has ended, after a COMMIT without an answer."""
        settled = await self.runtime.pool.repeat(
            lambda session: settled_before(session, self.runtime.worker_id, [self.job])
        )
        return bool(settled)
