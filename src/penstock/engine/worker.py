"""A worker: claims jobs, runs their handlers, hands what happened to the settler, and stops in time.

Three tasks share the work. *Claiming* fills free slots and a small buffer, woken by notifications and by slots that
become free. Each handler runs in a task of its own (handlers.py). *Watching* ticks four times a second: timeouts, stalls,
the lease. The beat (beat.py) runs in another thread. No connection is held while a handler runs.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import asyncpg

from penstock.database import Database
from penstock.database.pool import PoolUse
from penstock.engine.beat import Beat, Commands
from penstock.engine.budget import join_fleet
from penstock.engine.chores import Chores
from penstock.engine.context import Desk
from penstock.engine.fleet import Member, leave
from penstock.engine.handlers import END_PATIENCE, Handlers
from penstock.engine.history import make_partitions
from penstock.engine.job import Job
from penstock.engine.kinds import Kinds
from penstock.engine.lanes import Claimer, Lanes
from penstock.engine.lease import Lease
from penstock.engine.limits import Limits
from penstock.engine.outcome import Release
from penstock.engine.permits import Allotments
from penstock.engine.pressure import Pressure
from penstock.engine.scheduler import Scheduler
from penstock.engine.schedules import Schedules
from penstock.engine.settler import Settled, Settler
from penstock.engine.slots import Slots
from penstock.engine.stop import Stop
from penstock.engine.tally import tally
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.telemetry import log

WATCH_EVERY = 0.25
RECONCILE_EVERY = 10.0  # seconds between comparisons of the table with our memory
AFTER_TROUBLE = 0.5  # seconds until the next claim when one has failed
SOON = 0.01  # seconds until the next look when others had a lock on what we wanted
POLL_IDLE = 5.0  # seconds between looks when notifications arrive: only a net
POLL_DEAF = 0.25  # and when they do not
BACKLOG_MAX = 5000  # outcomes waiting to be written until claiming stops
FAREWELL = 3.0  # seconds to write the last outcomes
TROUBLE = (DatabaseTrouble, DatabaseUnreachable, asyncpg.PostgresError, asyncpg.InterfaceError)  # all of it passes


@dataclass(frozen=True)
class Declared:
    """What an application declares."""

    kinds: Kinds
    schedules: Schedules
    limits: Limits


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
        self._wake = asyncio.Event()
        self._pressure = Pressure()
        pool = database.pool
        self._allotments = Allotments(
            declared.limits, declared.kinds, lambda: pool.state.use, self._wake.set, PoolUse(pool)
        )
        self._handlers = Handlers(declared.kinds, self._slots, self._allotments, self._wake)
        self._gone = asyncio.Event()
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
        self._handlers.look()

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
        self._handlers.stopping = False
        lease = Lease(self._lease_length)
        beat = Beat(
            self._database,
            Chores(self._database.settings, self.worker_id, self._scheduler),
            lease,
            on_first=self._begin,
            on_commands=self._obey,
            on_gone=self._gone.set,
            load=lambda: {"running": len(self._handlers), "pool": self._database.pool.state.used},
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
            beat.draining = self._handlers.stopping = True
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
        while not self._handlers.stopping:
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
            if rest and not self._handlers.stopping:
                await self._rest(rest)

    async def _compare(self, claimer: Claimer, settler: Settler) -> None:
        """Compare the table with our memory. Only this task claims, so nothing is claimed meanwhile."""
        before = set(self._handlers)
        owned = await claimer.owned()
        known = {*before, *self._handlers, *settler.unwritten()}
        known |= {(job.id, job.attempt) for slots in self._slots.values() for job in slots.buffer}
        if unknown := owned - known:
            released = await claimer.release_unknown(job_id for job_id, _ in unknown)
            log.warning("gave back jobs whose claim got no answer", jobs=released)
        for key in before - owned:  # taken from us, or forgotten by a server that crashed
            self._handlers.end(key, Stop.LOST)

    async def _claim(self, claimer: Claimer, desk: Desk) -> float:
        """One look for work; the seconds to rest, unless something wakes us, before the next."""
        if desk.settler.backlog > BACKLOG_MAX:
            return SOON
        level = self._pressure.feel(self._database.pool.state)
        if self._pressure.critical:
            log.warning("not claiming: every connection of the pool is in use")
            return WATCH_EVERY
        jobs = await self._claim_suspect(claimer, desk.settler) if self._handlers.suspects else []
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
            if (
                job.id,
                job.attempt,
            ) not in self._handlers:  # else a crashed server forgot a claim, and it is ours again
                self._slots[job.queue].buffer.append(job)
        self._handlers.start_buffered(desk)
        if jobs:
            return 0.0
        soon = (free and claimer.contended) or (self._handlers.suspects and not self._handlers.runs_suspect)
        return SOON if soon else POLL_IDLE

    async def _claim_suspect(self, claimer: Claimer, settler: Settler) -> list[Job]:
        """Only for a slot that is free now: in the buffer it would be charged for deaths in which it had no part."""
        free = [queue for queue, slots in self._slots.items() if slots.running + len(slots.buffer) < slots.size]
        if not free or self._handlers.runs_suspect:
            return []
        suspect = await claimer.claim_suspect(free)
        self._handlers.suspects = suspect is not None or settler.holds_suspect()
        return [suspect] if suspect is not None else []

    async def _rest(self, most: float) -> None:
        """Until a slot is free, a notification comes, or it is time to look anyway."""
        try:
            async with asyncio.timeout(most if self._database.notifications.arriving else min(most, POLL_DEAF)):
                await self._wake.wait()
        except TimeoutError:
            return

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
            self._handlers.check(now, settler, ours=not self._gone.is_set())

    def _begin(self) -> None:
        log.info("worker started", worker=self.worker_id, queues=sorted(self._slots))
        self._wake.set()

    def _obey(self, commands: Commands) -> None:
        for job_id, attempt in commands.cancelling:
            self._handlers.end((job_id, attempt), Stop.CANCEL)
        if commands.suspects:
            self._handlers.suspects = True
            self._wake.set()

    # -- ending ---------------------------------------------------------------------------------------------------

    async def _take_leave(self, claiming: "asyncio.Task[None]", claimer: Claimer, settler: Settler) -> None:
        """Give everything back and go; bounded, for the database may be away just now."""
        try:
            async with asyncio.timeout((self._drain + END_PATIENCE).total_seconds() + FAREWELL):
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
        await self._handlers.wait(lambda: self._drain)
        await self._handlers.end_all(Stop.RELEASE)
        self._handlers.give_up_all(settler)

    async def _abandon(self) -> None:
        """Nothing here is ours any more: end the handlers, write nothing."""
        for slots in self._slots.values():
            while slots.buffer:
                self._allotments.end(slots.buffer.popleft())
        await self._handlers.end_all(Stop.LOST)
