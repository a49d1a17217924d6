"""Running handlers: each in a task and a slot of its own, cancelled when it must end.

`Handlers` starts what was claimed and enforces timeouts. `execute` runs one handler and turns its end into an
`Outcome`; only `judge` decides on retries. Nothing is written here: outcomes go to the settler. A handler
that ignores its cancellation is abandoned: its job continues without it, and its slot stays taken until it really ends.
"""

import asyncio
import json
import random
import sysconfig
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.engine.children import Suspended
from penstock.engine.context import Context, Runtime
from penstock.engine.job import (
    Cancelled,
    Dead,
    Done,
    Finished,
    Job,
    Outcome,
    Requeue,
    Retry,
    Snooze,
    StopReason,
    Waits,
    describe_failure,
    encode_result,
)
from penstock.engine.kinds import Kind, Kinds
from penstock.engine.limits.exchange import Limiters
from penstock.engine.limits.limiter import WENT_WELL, read_end
from penstock.engine.metrics import tally
from penstock.engine.settle import Settlement, Settler
from penstock.errors import (
    DatabaseTrouble,
    DatabaseUnreachable,
    HeldTooLong,
    LeaseLost,
    Permanent,
    RateLimited,
    ResourceLimit,
    Unavailable,
    WorkerMustStop,
)
from penstock.telemetry import current_job, extract_trace, is_traced, log, span

PREFETCH_SECONDS = 0.1  # work that may lie in the buffer, by the measured rate
PREFETCH_MAX = 400
LONGEST = timedelta(hours=1)
LONGEST_OUTAGE_PAUSE = timedelta(minutes=10)  # as long as the longest rest of a breaker
FREE_TRIES = 150  # uncharged failures of a job that alone meets an outage: some 24 hours; later ones are charged
END_PATIENCE = timedelta(seconds=1)  # for handlers to end once they are cancelled
STUBBORN_AFTER = 5.0  # seconds that a handler may ignore its cancellation
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + "/asyncio"

Key = tuple[int, int]  # job and attempt


class Slots:
    """The slots of one queue: what runs, and what was claimed and waits for one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.running = 0
        self.more = True  # the last claim left something: a free slot is a reason to claim again
        self.buffer: deque[Job] = deque()
        self._ended = 0
        self._since = time.monotonic()
        self._rate = 0.0

    def appetite(self) -> int:
        """Free slots, and room in the buffer for what will surely end soon: long jobs must not lie here waiting."""
        ahead = min(PREFETCH_MAX, int(self._rate * PREFETCH_SECONDS))
        return self.size + ahead - self.running - len(self.buffer)

    def note_end(self) -> None:
        self.running -= 1
        self._ended += 1

    def measure(self) -> None:
        now = time.monotonic()
        if now - self._since > 0.02:
            self._rate = 0.5 * self._rate + 0.5 * self._ended / (now - self._since)
            self._ended, self._since = 0, now


def by_queue(kinds: Kinds, concurrency: int | Mapping[str, int]) -> dict[str, int]:
    """The slots of each queue that some kind uses: one number for all of them, or a number for each."""
    queues: dict[str, int] = {}
    for kind in kinds.values():
        size = concurrency if isinstance(concurrency, int) else concurrency.get(kind.queue, 0)
        if size > 0:
            queues[kind.queue] = size
    return queues


def retry_after(failures: int, jitter: float, longest: timedelta = LONGEST) -> timedelta:
    """Wait 2, 4, 8 … seconds, at most an hour; jitter in [-1, 1] shifts it by up to 10 %."""
    seconds = min(2.0 ** min(failures, 20), longest.total_seconds())
    return timedelta(seconds=seconds * (1 + 0.1 * jitter))


def tries_for(retries: int, *, resource_limit: bool) -> int:
    """The charged failures that a job may have: one that ran out of memory or time gets fewer."""
    return min(retries, 1) if resource_limit else retries


# -- one handler --------------------------------------------------------------------------------------------------


async def execute(kind: Kind, context: Context) -> Outcome:
    """Run the handler to its end. Raises only LeaseLost: then no outcome is recorded."""
    job = context.job
    current_job.set((job.id, job.kind))
    try:
        result = await _call(kind, context)
        if context.suspended:
            return Waits()
        outcome = Finished() if context.finished else Done(encode_result(job.kind, result))
        context.ending = WENT_WELL
        return outcome
    except Suspended:
        return Waits()
    except LeaseLost:
        raise
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  any exception of a handler is its outcome
        if context.suspended:
            return Waits()
        if context.finished:  # the end was written; an error after it is only logged
            log.warning("raised after finish", error=repr(error))
            return Finished()
        context.ending = read_end(error, context.stop)
        if isinstance(error, Unavailable) and kind.uses:
            context.excused = context.runtime.limiters.excuses(job)
        return judge(kind, context, error)


async def _call(kind: Kind, context: Context) -> Any:
    """Call the handler; if traces are exported, in a span below that of the enqueuer."""
    job = context.job
    args = json.loads(job.args)
    if not is_traced():
        return await kind.handler(context, **args)
    with extract_trace(job.trace or {}), span(f"attempt {job.kind}", job=job.id, attempt=job.attempt, queue=job.queue):
        try:
            return await kind.handler(context, **args)
        finally:
            context.end_part()


def judge(kind: Kind, context: Context, error: BaseException) -> Outcome:
    if context.stop is StopReason.CANCEL:
        return Cancelled()
    if context.stop is StopReason.REQUEUE or isinstance(error, WorkerMustStop):
        return Requeue(str(error) or "the worker stopped")
    if context.stop is StopReason.LOST:
        raise LeaseLost(f"Job {context.job.id} is not ours any more.")
    return _judge_failure(kind, context, _named(kind, context, error))


def _judge_failure(kind: Kind, context: Context, error: BaseException) -> Outcome:
    error_class = next(
        (cls.__name__ for cls in (RateLimited, ResourceLimit, Permanent) if isinstance(error, cls)), "Transient"
    )
    failure = describe_failure(context.job.kind, error, error_class, context.code, context.step_name)
    jitter = random.uniform(-1, 1)  # noqa: S311  not a secret
    if isinstance(error, RateLimited):
        return Snooze(failure, error.retry_after)
    if isinstance(error, DatabaseTrouble | DatabaseUnreachable) and not isinstance(error, HeldTooLong):
        # Not its fault, and the database's troubles end.
        return Snooze(failure, retry_after(1, jitter))
    if isinstance(error, Unavailable) and context.excused and context.job.attempt <= FREE_TRIES:
        return Snooze(failure, retry_after(context.job.attempt, jitter, LONGEST_OUTAGE_PAUSE))
    limited = isinstance(error, ResourceLimit)
    if isinstance(error, Permanent) or context.job.failures >= tries_for(kind.retries, resource_limit=limited):
        return Dead(failure)
    return Retry(failure, retry_after(context.job.failures + 1, jitter), alone=limited)


def _named(kind: Kind, context: Context, error: BaseException) -> BaseException:
    """A cancellation by the watch, as the error that it stands for, with the place where the handler was."""
    if context.stop is StopReason.TIMEOUT:
        return ResourceLimit(f"It took longer than its timeout of {kind.timeout}.").with_traceback(error.__traceback__)
    if context.stop is StopReason.STALL:
        return TimeoutError(f"It reported no progress for {kind.stall_after}.").with_traceback(error.__traceback__)
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError("Something inside the handler cancelled it.").with_traceback(error.__traceback__)
    return error


@dataclass(slots=True, eq=False)
class RunningJob:
    """A handler at work."""

    context: Context
    task: "asyncio.Task[None]"
    timeout_at: float
    stopped_at: float = 0.0


class Handlers:
    """The running handlers of one worker."""

    def __init__(self, kinds: Kinds, slots: Mapping[str, Slots], limiters: Limiters, wake: asyncio.Event) -> None:
        self._kinds = kinds
        self._slots = slots
        self._limiters = limiters
        self._wake = wake
        self._at_work: dict[Key, RunningJob] = {}
        self._ended = asyncio.Event()  # one has ended, or the wait for it should end
        self._loop = asyncio.get_running_loop()
        self.stopping = False  # what is in the buffers is not begun any more
        self.quarantined = False  # some job is a quarantined job, and may run when no other does

    def __len__(self) -> int:
        return len(self._at_work)

    def __contains__(self, key: Key) -> bool:
        return key in self._at_work

    def __iter__(self) -> Iterator[Key]:
        return iter(self._at_work)

    @property
    def runs_quarantined(self) -> bool:
        return any(running.context.job.quarantined for running in self._at_work.values())

    # -- beginning ------------------------------------------------------------------------------------------------

    def start_buffered(self, runtime: Runtime) -> None:
        """Begin what was claimed, as far as there are slots."""
        for slots in self._slots.values():
            while slots.buffer and slots.running < slots.size:
                self._start(slots.buffer.popleft(), slots, runtime)

    def _start(self, job: Job, slots: Slots, runtime: Runtime) -> None:
        kind = self._kinds[job.kind]
        context = Context(job, kind, runtime)
        slots.running += 1
        tally.running[job.kind] += 1
        timeout_at = context.started_at + kind.timeout.total_seconds() if kind.timeout is not None else float("inf")
        task = self._loop.create_task(self._run(context, slots, runtime))
        self._at_work[job.id, job.attempt] = RunningJob(context, task, timeout_at)

    async def _run(self, context: Context, slots: Slots, runtime: Runtime) -> None:
        job = context.job
        try:
            outcome = await execute(self._kinds[job.kind], context)
        except LeaseLost as error:
            log.warning("attempt lost", job=job.id, attempt=job.attempt, reason=str(error))
        else:
            if (job.id, job.attempt) in self._at_work:  # otherwise its outcome was recorded without waiting for its end
                self._settle(context, outcome, runtime.settler)
        finally:
            self._at_work.pop((job.id, job.attempt), None)
            self._limiters.end(job, context.ending, context.started_at)
            tally.running[job.kind] -= 1
            slots.note_end()
            self._ended.set()
            if job.quarantined:  # the next one may run
                self.quarantined = True
                self._wake.set()
            if slots.buffer and not self.stopping:
                self._start(slots.buffer.popleft(), slots, runtime)
            if slots.more and (slots.appetite() * 4 >= slots.size or not slots.buffer):
                self._wake.set()

    def _settle(self, context: Context, outcome: Outcome, settler: Settler) -> None:
        job, seconds = context.job, time.monotonic() - context.started_at
        if isinstance(outcome, (Retry, Snooze, Dead)):
            failure = outcome.failure
            tally.count(job.kind, type(outcome).__name__, failure.cls, seconds)
            log.warning("attempt failed", job=job.id, kind=job.kind, attempt=job.attempt, error=failure.message)
        else:
            tally.count(job.kind, type(outcome).__name__, "", seconds)
        if not isinstance(outcome, Finished | Waits):
            settler.add(Settlement(job, outcome, seconds))

    # -- ending ---------------------------------------------------------------------------------------------------

    def check(self, now: float, settler: Settler, *, ours: bool) -> None:
        """Timeouts and stalls of all handlers at once: no timer per job. `ours`: the lease holds."""
        for running in list(self._at_work.values()):
            context = running.context
            stall_after = context.kind.stall_after
            context.report_step(now)
            if context.stop is not None:
                if now - running.stopped_at > STUBBORN_AFTER and ours:
                    self._give_up(running, settler)
            elif now > running.timeout_at:
                self._tell_to_end(running, StopReason.TIMEOUT)
            elif stall_after is not None and now - context.progressed_at > stall_after.total_seconds():
                self._tell_to_end(running, StopReason.STALL)

    def end(self, key: Key, why: StopReason) -> None:
        """Cancel one handler, if it runs and has not written its end."""
        running = self._at_work.get(key)
        if running is not None and not running.context.written:
            self._tell_to_end(running, why)

    async def end_all(self, why: StopReason) -> None:
        """Cancel all handlers, and wait for a moment."""
        for running in list(self._at_work.values()):
            self._tell_to_end(running, why)
        await self.wait(lambda: END_PATIENCE)

    async def wait(self, patience: Callable[[], timedelta]) -> None:
        """Wait until none is at work, or the patience is over; it may shrink meanwhile, which `wake_waiting` announces."""
        began = time.monotonic()
        while self._at_work and time.monotonic() - began < patience().total_seconds():
            self._ended.clear()
            try:
                async with asyncio.timeout(patience().total_seconds()):
                    await self._ended.wait()
            except TimeoutError:
                return

    def wake_waiting(self) -> None:
        """Let `wait` read its patience again."""
        self._ended.set()

    def give_up_all(self, settler: Settler) -> None:
        for running in list(self._at_work.values()):
            self._give_up(running, settler)

    def _give_up(self, running: RunningJob, settler: Settler) -> None:
        """Abandon a handler that ignores its cancellation. Its job continues; its slot stays taken until it really ends."""
        context = running.context
        log.error(
            "a handler ignores its cancellation",
            job=context.job.id,
            kind=context.job.kind,
            place=place_of(running.task),
        )
        del self._at_work[context.job.id, context.job.attempt]
        self._settle(context, judge(self._kinds[context.job.kind], context, asyncio.CancelledError()), settler)

    def _tell_to_end(self, running: RunningJob, why: StopReason) -> None:
        if running.context.stop is None:
            running.context.stop = why
            running.stopped_at = time.monotonic()
            running.task.cancel()


def place_of(task: "asyncio.Task[None]") -> str:
    """The place of a suspended task: the innermost frame that is not the standard library's."""
    coroutine: Any = task.get_coro()
    place = "unknown"
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if not frame.f_code.co_filename.startswith(STANDARD_LIBRARY):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        coroutine = coroutine.cr_await
    return place
