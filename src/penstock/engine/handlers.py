"""The handlers at work in one worker: each runs in a task and a slot of its own, and is told when it must end.

What a handler has done becomes an outcome here and goes to the settler. One that ignores its cancellation is given up: its
job goes on without it, and its slot stays taken until it really ends.
"""

import asyncio
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.engine.context import Context, Desk
from penstock.engine.executor import execute, judge
from penstock.engine.job import Job
from penstock.engine.kinds import Kinds
from penstock.engine.outcome import Bury, Finished, Outcome, Retry, Snooze, Waits
from penstock.engine.permits import Allotments
from penstock.engine.settler import Settled, Settler
from penstock.engine.slots import Slots
from penstock.engine.stop import Stop
from penstock.engine.tally import tally
from penstock.errors import LeaseLost
from penstock.telemetry import log

STANDARD_LIBRARY = sysconfig.get_path("stdlib") + "/asyncio"
END_PATIENCE = timedelta(seconds=1)  # for handlers to end once they are told to
STUBBORN_AFTER = 5.0  # seconds that a handler may ignore its cancellation

Key = tuple[int, int]  # job and attempt


@dataclass(slots=True, eq=False)
class Running:
    """A handler at work."""

    context: Context
    task: "asyncio.Task[None]"
    timeout_at: float
    stopped_at: float = 0.0


class Handlers:
    """All of one worker."""

    def __init__(self, kinds: Kinds, slots: Mapping[str, Slots], allotments: Allotments, wake: asyncio.Event) -> None:
        self._kinds = kinds
        self._slots = slots
        self._allotments = allotments
        self._wake = wake
        self._at_work: dict[Key, Running] = {}
        self._ended = asyncio.Event()  # one has ended, or nobody wants to wait for it any longer
        self._loop = asyncio.get_running_loop()
        self.stopping = False  # what is in the buffers is not begun any more
        self.suspects = False  # some job is a suspect, and may run when no other does

    def __len__(self) -> int:
        return len(self._at_work)

    def __contains__(self, key: Key) -> bool:
        return key in self._at_work

    def __iter__(self) -> Iterator[Key]:
        return iter(self._at_work)

    @property
    def runs_suspect(self) -> bool:
        return any(running.context.job.suspect for running in self._at_work.values())

    # -- beginning ------------------------------------------------------------------------------------------------

    def start_buffered(self, desk: Desk) -> None:
        """Begin what was claimed, as far as there are slots."""
        for slots in self._slots.values():
            while slots.buffer and slots.running < slots.size:
                self._start(slots.buffer.popleft(), slots, desk)

    def _start(self, job: Job, slots: Slots, desk: Desk) -> None:
        kind = self._kinds[job.kind]
        context = Context(job, kind, desk)
        slots.running += 1
        tally.running[job.kind] += 1
        timeout_at = context.started_at + kind.timeout.total_seconds() if kind.timeout is not None else float("inf")
        task = self._loop.create_task(self._run(context, slots, desk))
        self._at_work[job.id, job.attempt] = Running(context, task, timeout_at)

    async def _run(self, context: Context, slots: Slots, desk: Desk) -> None:
        job = context.job
        try:
            outcome = await execute(self._kinds[job.kind], context)
        except LeaseLost as error:
            log.warning("attempt lost", job=job.id, attempt=job.attempt, reason=str(error))
        else:
            if (job.id, job.attempt) in self._at_work:  # otherwise it was settled without waiting for its end
                self._settle(context, outcome, desk.settler)
        finally:
            self._at_work.pop((job.id, job.attempt), None)
            self._allotments.end(job, context.ending, context.started_at)
            tally.running[job.kind] -= 1
            slots.note_end()
            self._ended.set()
            if job.suspect:  # the next one may run
                self.suspects = True
                self._wake.set()
            if slots.buffer and not self.stopping:
                self._start(slots.buffer.popleft(), slots, desk)
            if slots.more and (slots.appetite() * 4 >= slots.size or not slots.buffer):
                self._wake.set()

    def _settle(self, context: Context, outcome: Outcome, settler: Settler) -> None:
        job, seconds = context.job, time.monotonic() - context.started_at
        if isinstance(outcome, (Retry, Snooze, Bury)):
            failure = outcome.failure
            tally.count(job.kind, type(outcome).__name__, failure.cls, seconds)
            log.warning("attempt failed", job=job.id, kind=job.kind, attempt=job.attempt, error=failure.message)
        else:
            tally.count(job.kind, type(outcome).__name__, "", seconds)
        if not isinstance(outcome, Finished | Waits):
            settler.add(Settled(job, outcome, seconds))

    # -- ending ---------------------------------------------------------------------------------------------------

    def check(self, now: float, settler: Settler, *, ours: bool) -> None:
        """Timeouts and stalls of all handlers at once: no timer per job. `ours`: the lease holds."""
        for running in list(self._at_work.values()):
            context = running.context
            stall_after = context.kind.stall_after
            context.tell_step(now)
            if context.stop is not None:
                if now - running.stopped_at > STUBBORN_AFTER and ours:
                    self._give_up(running, settler)
            elif now > running.timeout_at:
                self._tell_to_end(running, Stop.TIMEOUT)
            elif stall_after is not None and now - context.progressed_at > stall_after.total_seconds():
                self._tell_to_end(running, Stop.STALL)

    def end(self, key: Key, why: Stop) -> None:
        """Tell one to end, if it is at work and has not written its end."""
        running = self._at_work.get(key)
        if running is not None and not running.context.written:
            self._tell_to_end(running, why)

    async def end_all(self, why: Stop) -> None:
        """Tell all to end, and wait for a moment."""
        for running in list(self._at_work.values()):
            self._tell_to_end(running, why)
        await self.wait(lambda: END_PATIENCE)

    async def wait(self, patience: Callable[[], timedelta]) -> None:
        """Until none is at work, or the patience is over; it may shrink meanwhile, and `look` says so."""
        began = time.monotonic()
        while self._at_work and time.monotonic() - began < patience().total_seconds():
            self._ended.clear()
            try:
                async with asyncio.timeout(patience().total_seconds()):
                    await self._ended.wait()
            except TimeoutError:
                return

    def look(self) -> None:
        """Wake whoever waits for ends."""
        self._ended.set()

    def give_up_all(self, settler: Settler) -> None:
        for running in list(self._at_work.values()):
            self._give_up(running, settler)

    def _give_up(self, running: Running, settler: Settler) -> None:
        """A handler ignores its cancellation: its job goes on without it. Its slot stays taken until it really ends."""
        context = running.context
        log.error(
            "a handler ignores its cancellation",
            job=context.job.id,
            kind=context.job.kind,
            place=place_of(running.task),
        )
        del self._at_work[context.job.id, context.job.attempt]
        self._settle(context, judge(self._kinds[context.job.kind], context, asyncio.CancelledError()), settler)

    def _tell_to_end(self, running: Running, why: Stop) -> None:
        if running.context.stop is None:
            running.context.stop = why
            running.stopped_at = time.monotonic()
            running.task.cancel()


def place_of(task: "asyncio.Task[None]") -> str:
    """Where a suspended task is: the innermost frame that is not the standard library's."""
    coroutine: Any = task.get_coro()
    place = "unknown"
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if not frame.f_code.co_filename.startswith(STANDARD_LIBRARY):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        coroutine = coroutine.cr_await
    return place
