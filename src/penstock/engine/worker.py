"""A worker: claims jobs, runs their handlers, hands what happened to the settler, and stops in time.

Three tasks share the work. *Claiming* fills free slots and a small buffer, woken by notifications and by slots that
become free. Each handler runs in a task of its own. *Watching* ticks four times a second: timeouts, stalls, the lease.
The beat (beat.py) runs in another thread. No connection is held while a handler runs.
"""

import asyncio
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg

from penstock.database import Database
from penstock.engine.beat import Beat, Commands
from penstock.engine.budget import join_fleet
from penstock.engine.chores import Chores
from penstock.engine.context import Context, Desk
from penstock.engine.executor import execute, judge
from penstock.engine.fleet import Member, leave
from penstock.engine.history import make_partitions
from penstock.engine.job import Job
from penstock.engine.kinds import Kinds
from penstock.engine.lanes import Claimer, Lanes
from penstock.engine.lease import Lease
from penstock.engine.limits import Limits
from penstock.engine.outcome import Bury, Finished, Outcome, Release, Retry, Snooze, Waits
from penstock.engine.permits import Allotments
from penstock.engine.pressure import Pressure
from penstock.engine.scheduler import Scheduler
from penstock.engine.schedules import Schedules
from penstock.engine.settler import Settled, Settler
from penstock.engine.slots import Slots
from penstock.engine.stop import Stop
from penstock.engine.tally import tally
from penstock.errors import DatabaseTrouble, DatabaseUnreachable, LeaseLost
from penstock.telemetry import log

WATCH_EVERY = 0.25
RECONCILE_EVERY = 10.0  # seconds between comparisons of the table with our memory
AFTER_TROUBLE = 0.5  # seconds until the next claim when one has failed
SOON = 0.01  # seconds until the next look when others had a lock on what we wanted
POLL_IDLE = 5.0  # seconds between looks when notifications arrive: only a net
POLL_DEAF = 0.25  # and when they do not
BACKLOG_MAX = 5000  # outcomes waiting to be written until claiming stops
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + "/asyncio"
FAREWELL = 3.0  # seconds to write the last outcomes
END_PATIENCE = 1.0  # seconds for handlers to end once they are told to
TROUBLE = (DatabaseTrouble, DatabaseUnreachable, asyncpg.PostgresError, asyncpg.InterfaceError)  # all of it passes
STUBBORN_AFTER = 5.0  # seconds that a handler may ignore its cancellation


@dataclass(frozen=True)
class Declared:
    """What an application declares."""

    kinds: Kinds
    schedules: Schedules
    limits: Limits


@dataclass(slots=True, eq=False)
class Running:
    """A handler at work."""

    context: Context
    task: "asyncio.Task[None]"
    timeout_at: float
    stopped_at: float = 0.0


class Worker:
    """One worker of one process."""

    def __init__(
        self,
        database: Database,
        declared: Declared,
        lanes: Lanes,
        concurrency: Mapping[str, int],
        *,
        lease: timedelta = timedelta(seconds=15),
        drain: timedelta = timedelta(seconds=20),
        code: str = "",
    ) -> None:
        self._database = database
        self._kinds = declared.kinds
        self._lanes = lanes
        self._lease_length = lease
        self._drain = drain
        self._code = code
        self._scheduler = Scheduler(database.settings, declared.schedules)
        self._slots = {queue: Slots(size) for queue, size in concurrency.items()}
        self._running: dict[tuple[int, int], Running] = {}  # by job and attempt
        self._wake = asyncio.Event()
        self._pressure = Pressure()
        self._allotments = Allotments(declared.limits, declared.kinds, lambda: database.pool.state.use, self._wake.set)
        self._suspects = False
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._ended = asyncio.Event()  # a handler has ended, or nobody wants to wait for it any longer
        self._stopping = False
        self.worker_id = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`; then finish or release what runs, and leave the fleet."""
        while not stop.is_set():
            try:
                await self._work_as_member(stop)
            except TROUBLE as error:  # it was there when we started, and will be again
                log.warning("the database is away", error=str(error))
                await asyncio.sleep(AFTER_TROUBLE)
            if not stop.is_set():
                log.warning("joining the fleet anew", worker=self.worker_id)

    def hurry(self) -> None:
        """Do not wait for running handlers any longer."""
        self._drain = timedelta(0)
        self._ended.set()

    async def _work_as_member(self, stop: asyncio.Event) -> None:
        """One membership: from registration to leaving, or to being declared gone."""
        member = Member(
            queues=sorted(self._slots),
            kinds=sorted(name for name, kind in self._kinds.items() if kind.queue in self._slots),
            slots=sum(slots.size for slots in self._slots.values()),
            lease=self._lease_length,
        )
        joined = await join_fleet(self._database, member, stop, again=self.worker_id != 0)
        if joined is None:
            return
        self.worker_id = joined
        async with self._database.pool.session() as session:
            await make_partitions(session)  # before there are rows that would have to be moved into them
        self._gone.clear()
        self._stopping = False
        lease = Lease(self._lease_length)
        beat = Beat(
            self._database,
            Chores(self._database.settings, self.worker_id, self._scheduler),
            lease,
            on_first=self._begin,
            on_commands=self._obey,
            on_gone=self._gone.set,
            load=lambda: {"running": len(self._running), "pool": self._database.pool.state.used},
        )
        await self._share_permits(beat)
        settler = Settler(self._database.pool, self.worker_id)
        claimer = Claimer(self._database, self._lanes, self.worker_id, self._allotments)
        desk = Desk(
            self._database.pool,
            settler,
            self.worker_id,
            self._code,
            partial(self._lanes.ids, self._database),
            self._allotments,
        )
        subscriptions = [
            self._database.notifications.subscribe(f"penstock_queue_{queue}", self._wake) for queue in self._slots
        ]
        settler.start()
        beat.start()
        watching = asyncio.create_task(self._watch(beat, lease, settler), name="watch")
        claiming = asyncio.create_task(self._claim_until_stopped(beat, claimer, desk), name="claim")
        ends = [asyncio.create_task(event.wait()) for event in (stop, self._gone)]
        try:
            await asyncio.wait([watching, claiming, *ends], return_when=asyncio.FIRST_COMPLETED)
            beat.draining = self._stopping = True
            self._wake.set()
            if self._gone.is_set():
                await self._abandon()
            else:
                await self._take_leave(claiming, claimer, settler)
        finally:
            for task in (watching, claiming, *ends):
                task.cancel()
            results = await asyncio.gather(watching, claiming, return_exceptions=True)
            await settler.stop()
            await beat.stop()
            claimer.close()
            for subscription in subscriptions:
                subscription.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _share_permits(self, beat: Beat) -> None:
        """Declare the limits, and let the beat bring the permits."""
        async with self._database.pool.session() as session:
            await self._allotments.join(session, self.worker_id)
        if self._allotments:
            beat.exchange = self._allotments.exchange
            self._allotments.obey(beat.hurry)

    # -- claiming -------------------------------------------------------------------------------------------------

    async def _claim_until_stopped(self, beat: Beat, claimer: Claimer, desk: Desk) -> None:
        sure_until = time.monotonic() + RECONCILE_EVERY
        while not self._stopping:
            self._wake.clear()
            rest = POLL_IDLE
            try:
                if time.monotonic() > sure_until:
                    await self._compare(claimer, desk.settler)
                    sure_until = time.monotonic() + RECONCILE_EVERY
                if beat.first.is_set():  # before that nobody could see us die
                    rest = await self._claim(claimer, desk)
            except TROUBLE as error:
                log.warning("claiming failed", error=str(error))
                sure_until = 0.0  # what it took may be ours without our knowing
                await asyncio.sleep(AFTER_TROUBLE)
                rest = 0.0
            if rest and not self._stopping:
                await self._rest(rest)

    async def _compare(self, claimer: Claimer, settler: Settler) -> None:
        """Compare the table with our memory. Only this task claims, so nothing is claimed meanwhile."""
        before = set(self._running)
        owned = await claimer.owned()
        known = {*before, *self._running, *settler.unwritten()}
        known |= {(job.id, job.attempt) for slots in self._slots.values() for job in slots.buffer}
        if unknown := owned - known:
            released = await claimer.release_unknown(job_id for job_id, _ in unknown)
            log.warning("gave back jobs whose claim got no answer", jobs=released)
        for key in before - owned:  # taken from us, or forgotten by a server that crashed
            if (running := self._running.get(key)) is not None and not running.context.written:
                self._tell_to_end(running, Stop.LOST)

    async def _claim(self, claimer: Claimer, desk: Desk) -> float:
        """One look for work; the seconds to rest, unless something wakes us, before the next."""
        if desk.settler.backlog > BACKLOG_MAX:
            return SOON
        level = self._pressure.feel(self._database.pool.state)
        if self._pressure.critical:
            log.warning("not claiming: every connection of the pool is in use")
            return WATCH_EVERY
        jobs = await self._claim_suspect(claimer, desk.settler) if self._suspects else []
        free = {}
        for queue, slots in self._slots.items():
            slots.measure()
            appetite = slots.appetite() - sum(job.queue == queue for job in jobs)
            if appetite > 0:
                free[queue] = max(1, int(appetite * level))
        if free:
            jobs += await claimer.claim(free)
        for queue, slots in self._slots.items():  # one that was full has not been asked, and may have more
            slots.more = queue not in free or any(job.queue == queue for job in jobs)
        for job in jobs:
            if (job.id, job.attempt) not in self._running:  # else a crashed server forgot a claim, and it is ours again
                self._slots[job.queue].buffer.append(job)
        self._start_buffered(desk)
        if jobs:
            return 0.0
        soon = (free and claimer.contended) or (self._suspects and not self._runs_suspect())
        return SOON if soon else POLL_IDLE

    async def _claim_suspect(self, claimer: Claimer, settler: Settler) -> list[Job]:
        """Only for a slot that is free now: in the buffer it would be charged for deaths in which it had no part."""
        free = [queue for queue, slots in self._slots.items() if slots.running + len(slots.buffer) < slots.size]
        if not free or self._runs_suspect():
            return []
        suspect = await claimer.claim_suspect(free)
        self._suspects = suspect is not None or settler.holds_suspect()
        return [suspect] if suspect is not None else []

    def _runs_suspect(self) -> bool:
        return any(running.context.job.suspect for running in self._running.values())

    async def _rest(self, most: float) -> None:
        """Until a slot is free, a notification comes, or it is time to look anyway."""
        try:
            async with asyncio.timeout(most if self._database.notifications.arriving else min(most, POLL_DEAF)):
                await self._wake.wait()
        except TimeoutError:
            return

    # -- running --------------------------------------------------------------------------------------------------

    def _start_buffered(self, desk: Desk) -> None:
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
        self._running[job.id, job.attempt] = Running(context, task, timeout_at)

    async def _run(self, context: Context, slots: Slots, desk: Desk) -> None:
        job = context.job
        try:
            outcome = await execute(self._kinds[job.kind], context)
        except LeaseLost as error:
            log.warning("attempt lost", job=job.id, attempt=job.attempt, reason=str(error))
        else:
            if (job.id, job.attempt) in self._running:  # otherwise it was settled without waiting for its end
                self._settle(context, outcome, desk.settler)
        finally:
            self._running.pop((job.id, job.attempt), None)
            self._allotments.end(job, context.ending, context.started_at)
            tally.running[job.kind] -= 1
            slots.note_end()
            self._ended.set()
            if job.suspect:  # the next one may run
                self._suspects = True
                self._wake.set()
            if slots.buffer and not self._stopping:
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

    # -- watching -------------------------------------------------------------------------------------------------

    async def _watch(self, beat: Beat, lease: Lease, settler: Settler) -> None:
        """Timeouts, stalls and the lease, for all handlers at once: no timer per job."""
        while True:
            due = time.monotonic() + WATCH_EVERY
            await asyncio.sleep(WATCH_EVERY)
            now = beat.ticked_at = time.monotonic()
            tally.loop_lag = now - due
            if lease.must_stop and not self._gone.is_set():
                log.error("the lease could not be renewed: stopping own work", worker=self.worker_id)
                self._gone.set()
            for running in list(self._running.values()):
                self._check(running, now, settler)

    def _check(self, running: Running, now: float, settler: Settler) -> None:
        context = running.context
        kind = context.kind
        context.tell_step(now)
        if context.stop is not None:
            if now - running.stopped_at > STUBBORN_AFTER and not self._gone.is_set():
                self._give_up(running, settler)
        elif now > running.timeout_at:
            self._tell_to_end(running, Stop.TIMEOUT)
        elif kind.stall_after is not None and now - context.progressed_at > kind.stall_after.total_seconds():
            self._tell_to_end(running, Stop.STALL)

    def _give_up(self, running: Running, settler: Settler) -> None:
        """A handler ignores its cancellation: its job goes on without it. Its slot stays taken until it really ends."""
        context = running.context
        log.error(
            "a handler ignores its cancellation",
            job=context.job.id,
            kind=context.job.kind,
            place=place_of(running.task),
        )
        del self._running[context.job.id, context.job.attempt]
        self._settle(context, judge(self._kinds[context.job.kind], context, asyncio.CancelledError()), settler)

    def _tell_to_end(self, running: Running, why: Stop) -> None:
        if running.context.stop is None:
            running.context.stop = why
            running.stopped_at = time.monotonic()
            running.task.cancel()

    def _begin(self) -> None:
        log.info("worker started", worker=self.worker_id, queues=sorted(self._slots))
        self._wake.set()

    def _obey(self, commands: Commands) -> None:
        for job_id, attempt in commands.cancelling:
            running = self._running.get((job_id, attempt))
            if running is not None:
                self._tell_to_end(running, Stop.CANCEL)
        if commands.suspects:
            self._suspects = True
            self._wake.set()

    # -- ending ---------------------------------------------------------------------------------------------------

    async def _take_leave(self, claiming: "asyncio.Task[None]", claimer: Claimer, settler: Settler) -> None:
        """Give everything back and go; bounded, for the database may be away just now."""
        try:
            async with asyncio.timeout(self._drain.total_seconds() + END_PATIENCE + FAREWELL):
                await claiming  # not cancelled: what a claim has taken must become known to us
                await self._hand_back(settler)
                await settler.drain()
                await self._compare(claimer, settler)
                async with self._database.pool.session() as session:
                    await leave(session, self.worker_id)
        except (TimeoutError, *TROUBLE) as error:
            log.error("could not give back everything: others will find it by the lock", error=str(error))

    async def _hand_back(self, settler: Settler) -> None:
        """Give back what has not begun, wait for what runs, and release the rest."""
        self._allotments.note_short(())  # others may have what we would have claimed with
        for slots in self._slots.values():
            while slots.buffer:
                job = slots.buffer.popleft()
                self._allotments.end(job)
                settler.add(Settled(job, Release("the worker stopped"), 0.0))
        began = time.monotonic()
        while self._running and time.monotonic() - began < self._drain.total_seconds():
            await self._until_one_ends(self._drain.total_seconds())
        await self._end_handlers(Stop.RELEASE)
        for running in list(self._running.values()):
            self._give_up(running, settler)

    async def _abandon(self) -> None:
        """Nothing here is ours any more: end the handlers, write nothing."""
        for slots in self._slots.values():
            while slots.buffer:
                self._allotments.end(slots.buffer.popleft())
        await self._end_handlers(Stop.LOST)

    async def _end_handlers(self, why: Stop) -> None:
        for running in list(self._running.values()):
            self._tell_to_end(running, why)
        began = time.monotonic()
        while self._running and time.monotonic() - began < END_PATIENCE:
            await self._until_one_ends(END_PATIENCE)

    async def _until_one_ends(self, within: float) -> None:
        self._ended.clear()
        try:
            async with asyncio.timeout(within):
                await self._ended.wait()
        except TimeoutError:
            return


def place_of(task: "asyncio.Task[None]") -> str:
    """Where a suspended task is: the innermost frame that is not the standard library's."""
    coroutine: Any = task.get_coro()
    place = "unknown"
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        if not frame.f_code.co_filename.startswith(STANDARD_LIBRARY):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        coroutine = coroutine.cr_await
    return place
