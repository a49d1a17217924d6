"""The exchange of permits: a worker's part of the fleet-wide limits.

The sum of what all live workers were granted is never more than a limit's permits. The heartbeat's thread exchanges permits
in one short transaction (`Limiters.exchange`): it locks the limits, reads what the others have, and takes a fair
part of what is left. Two rules make it safe. *Giving back*: the cap is lowered first, so that nothing above it is taken any
more, and what is then written is the larger of the cap and what is still in use. *Growing*: the cap is raised only after
the commit was acknowledged. Whatever answer is lost, the cap is the smaller of both. What a worker does within its cap is
in limiter.py.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from math import inf
from typing import Self

import asyncpg
from asyncpg import Record

from penstock.database import Session, statements
from penstock.engine.job import Job
from penstock.engine.kinds import Kinds
from penstock.engine.limits.breaker import News, Probe, rest_after
from penstock.engine.limits.declare import Limits
from penstock.engine.limits.limiter import NOTHING_SAID, Demand, Ending, Limiter, Permit
from penstock.errors import BadJob
from penstock.telemetry import log
from penstock.text import span

sql = statements(__file__)

TURN = 2.0  # seconds until the next worker has its turn when there are fewer permits than workers
HURRY_EVERY = 0.05  # seconds, at least, between heartbeats out of turn
STARVING = 0.25  # seconds until the next exchange of a worker that waits for its first permit
PROBE_PATIENCE = timedelta(seconds=5)  # to begin the call; while it is under way the probe is kept


def share_out(permits: int, demands: Sequence[Demand], turn: int) -> dict[int, int]:
    """The permits that each worker should have: equal parts, and what one does not need goes to workers that wait.

    In whole bundles of what one caller needs, because a worker with less could not begin. A worker that waits could use all of
    them, any other what it uses and one to begin with. With fewer bundles than workers, a worker that uses none keeps none,
    and the bundles rotate, so that none starves.
    """
    unit = max(demand.need for demand in demands)
    bundles = permits // unit
    first = 0 if bundles < len(demands) else 1
    wanted = {
        demand.worker_id: bundles if demand.waiting else max(first, -(-demand.used // unit)) for demand in demands
    }
    shares, left = _fill(bundles, wanted, turn)
    if left:  # each has what it wants: the rest is divided, too, so that the next call need not wait
        shares = {worker: share + left // len(shares) for worker, share in shares.items()}
    permitted = {worker: unit * share for worker, share in shares.items()}
    permitted[max(permitted, key=lambda worker: (wanted[worker], permitted[worker]))] += permits % unit
    return permitted


def _fill(bundles: int, wanted: dict[int, int], turn: int) -> tuple[dict[int, int], int]:
    """Equal parts, but to none more than it wants; and the rest."""
    shares = dict.fromkeys(wanted, 0)
    while unmet := sorted(worker for worker in wanted if shares[worker] < wanted[worker]):
        each = bundles // len(unmet)
        if each == 0:  # one more for some of them; in turn, if the others have nothing at all
            start = turn % len(unmet) if any(shares[worker] == 0 for worker in unmet) else 0
            for worker in [*unmet[start:], *unmet[:start]][:bundles]:
                shares[worker] += 1
            return shares, 0
        for worker in unmet:
            given = min(each, wanted[worker] - shares[worker])
            shares[worker] += given
            bundles -= given
    return shares, bundles


class Limiters:
    def __init__(
        self,
        limits: Limits | None = None,
        kinds: Kinds | None = None,
        pool_use: Callable[[], float] = lambda: 0.0,
        on_room: Callable[[], None] = lambda: None,
        mean_use: Callable[[], float] | None = None,
    ) -> None:
        kinds = Kinds() if kinds is None else kinds
        self._kinds = kinds
        self._uses = {kind.name: dict(kind.uses) for kind in kinds.values() if kind.uses}
        self._by_name: dict[str, Limiter] = {}
        for name, limit in sorted((limits or {}).items()):
            need = max((uses[name] for uses in self._uses.values() if name in uses), default=1)
            self._by_name[name] = Limiter(limit, need, pool_use)
            self._by_name[name].on_room = on_room
        self._on_room = on_room
        self._mean_use = (
            mean_use or pool_use
        )  # for what happens with each heartbeat: the moment of a heartbeat says little
        self._held: dict[tuple[int, int], list[Permit]] = {}  # by job and attempt, for kinds that use a limit
        self._main = asyncio.get_running_loop()
        self._worker_id = 0

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def __getitem__(self, name: str) -> Limiter:
        try:
            return self._by_name[name]
        except KeyError:
            raise BadJob(f'The limit {name} is not declared: add app.limit("{name}", …).') from None

    async def join(self, session: Session, worker_id: int) -> None:
        """A new membership: write the declarations, begin without a grant."""
        self._worker_id = worker_id
        needs = [(kind, name, amount) for kind, uses in self._uses.items() for name, amount in uses.items()]
        kinds, names, amounts = ([need[place] for need in needs] for place in range(3))
        for limiter in self._by_name.values():
            limiter.rejoin()
        async with session.transaction():  # no other transaction sees a kind without what it needs
            if self._by_name:
                permits = [limiter.limit.permits for limiter in self._by_name.values()]
                await sql.declare_limits.run(session, names=list(self._by_name), permits=permits)
            await sql.forget_uses.run(session, served=list(self._kinds), kinds=kinds, names=names)
            if needs:
                await sql.declare_uses.run(session, kinds=kinds, names=names, amounts=amounts)

    def obey(self, hurry: Callable[[], None]) -> None:
        """Set the callback that wakes the heartbeat, called at most as often as it helps."""
        due = 0.0

        def hurry_soon() -> None:
            nonlocal due
            now = self._main.time()
            if due <= now:  # otherwise one is under way
                due = max(now, due + HURRY_EVERY)
                self._main.call_later(due - now, hurry)

        for limiter in self._by_name.values():
            limiter.hurry = hurry_soon

    # -- calls ----------------------------------------------------------------------------------------------------

    async def take(self, job: Job, name: str, amount: int) -> Permit:
        """Wait for a permit for one call."""
        if name in self._uses.get(job.kind, ()):
            raise BadJob(f"{job.kind} uses {name} already, by uses=…: ctx.limit would wait for its own permit.")
        return await self[name].take(amount)

    def end_call(self, permit: Permit, ending: Ending) -> None:
        self._by_name[permit.limit].give_back(permit, ending)

    # -- jobs of kinds that use limits ------------------------------------------------------------------------------

    @property
    def gating(self) -> Mapping[str, Mapping[str, int]]:
        """The kinds whose lanes are closed without permits, and what they need."""
        return self._uses

    def has_room(self, kind: str) -> bool:
        """Whether a job of this kind could be claimed now."""
        uses = self._uses.get(kind)
        return uses is None or all(self._by_name[name].has_room(amount) for name, amount in uses.items())

    def reserve(self, kind: str) -> list[Permit] | None:
        """All permits that a job of this kind needs, or none."""
        permits: list[Permit] = []
        for name, amount in self._uses.get(kind, {}).items():
            permit = self._by_name[name].reserve(amount)
            if permit is None:
                self.give_back(permits)
                return None
            permits.append(permit)
        return permits

    def give_back(self, permits: Iterable[Permit]) -> None:
        """Return permits that were not needed."""
        for permit in permits:
            self._by_name[permit.limit].give_back(permit, NOTHING_SAID, unused=True)

    def keep(self, job: tuple[int, int], permits: list[Permit]) -> None:
        """Assign permits to the attempt that was claimed with them."""
        if self._held.setdefault(job, permits) is not permits:  # claimed twice: a crashed server forgot the first time
            self.give_back(permits)

    def end(self, job: Job, ending: Ending = NOTHING_SAID, began: float = 0.0) -> None:
        """Return the permits of a job that has ended or was requeued."""
        if not self._held:
            return
        for permit in self._held.pop((job.id, job.attempt), ()):
            permit.began = began  # and not when it was claimed
            self._by_name[permit.limit].give_back(permit, ending)

    def excuses(self, job: Job, *names: str) -> bool:
        """Whether a failure was caused by the dependency of these limits, or of those of its kind, and not by the job."""
        told = [self._by_name[name].excuses(job.id) for name in names or self._uses.get(job.kind, ())]
        return bool(told) and all(told)

    def note_short(self, kinds: Iterable[str]) -> None:
        """Note kinds with ready jobs that could not be claimed for lack of permits."""
        short = {name for kind in kinds for name in self._uses.get(kind, ())}
        for name, limiter in self._by_name.items():
            if (name in short) and not limiter.short:
                limiter.hurry()
            limiter.short = name in short

    # -- the heartbeat's thread -----------------------------------------------------------------------------------

    async def exchange(self, session: Session) -> float:
        """Report what we use and want, take a fair part of what is left; the seconds until the next exchange, at most."""
        if not self._by_name:
            return inf
        try:
            room, wait = await self._exchange(session)
        except asyncpg.LockNotAvailableError:
            return STARVING
        if not self._main.is_closed():
            self._main.call_soon_threadsafe(self._serve, room)
        return wait

    def _serve(self, room: bool) -> None:
        for limiter in self._by_name.values():
            limiter.serve()
        if room:
            self._on_room()

    async def _exchange(self, session: Session) -> tuple[bool, float]:
        me, names = self._worker_id, list(self._by_name)
        demands = {name: limiter.demand(me) for name, limiter in self._by_name.items()}
        news = {name: limiter.breaker.news for name, limiter in self._by_name.items()}
        async with session.transaction():
            await sql.bound_waiting.run(session)
            rows = {row["name"]: row for row in await sql.lock_limits(session, names=names)}
            others = await sql.told_allotments(session, names=names, worker_id=me)
            caps: dict[str, int] = {}
            for name, row in rows.items():
                rows[name] = await self._update_breaker(session, row, news[name], demands[name])
                caps[name] = fair_cap(row, demands[name], [other for other in others if other["limit_name"] == name])
            granted = {name: self._by_name[name].lower(cap) for name, cap in caps.items()}
            await sql.write_allotments.run(
                session,
                worker_id=me,
                names=list(caps),
                granted=list(granted.values()),
                used=[demands[name].used for name in caps],
                waiting=[demands[name].waiting for name in caps],
                concurrencies=[self._by_name[name].adaptive.value for name in caps],
                needs=[demands[name].need for name in caps],
            )
        use = self._mean_use()
        room = [
            self._by_name[name].settle(cap, granted[name], rows[name], news[name], me, pool_use=use)
            for name, cap in caps.items()
        ]
        starving = any(demands[name].waiting and cap < demands[name].need for name, cap in caps.items())
        return any(room), STARVING if starving else inf

    async def _update_breaker(self, session: Session, row: Record, news: News | None, demand: Demand) -> Record:
        """Under the lock on its row: report what happened here, and take the probe if it is free. The row as it is then."""
        name, limiter, me = row["name"], self._by_name[row["name"]], self._worker_id
        mine = row["probed"] and row["probe_by"] == me
        if (news is News.TRIPPED and not row["opened"]) or (news is News.PROBE_FAILED and mine):
            rest, reason = rest_after(limiter.limit.rest, row["trips"]), limiter.breaker.reason
            log.warning("breaker opened", limit=name, rest=span(rest), reason=reason)
            await sql.open_breaker.run(
                session, name=name, rest=rest, reason=reason, failures=limiter.limit.breaker_after
            )
        elif news is News.PROBE_SUCCEEDED and row["opened"]:
            log.info("breaker closed", limit=name)
            await close_breaker(session, name)
        elif row["opened"] and (
            (mine and limiter.breaker.probe is Probe.TAKEN)
            # Only with a permit at hand, or the probe would lie here unused.
            or (not row["probed"] and row["rests_for"] <= 0 and demand.waiting and limiter.cap >= demand.need)
        ):
            await sql.take_probe.run(session, name=name, worker_id=me, patience=PROBE_PATIENCE)
        else:
            return row
        [changed] = await sql.lock_limits(session, names=[name])
        return changed


def fair_cap(row: Record, mine: Demand, others: Sequence[Record]) -> int:
    """Our fair part, as far as the others have left it."""
    demands = [mine, *(Demand(o["worker_id"], o["used"], o["waiting"], o["need"]) for o in others)]
    share = share_out(row["permits"], demands, int(row["now"] / TURN))[mine.worker_id]
    left: int = row["permits"] - sum(other["granted"] for other in others)
    return max(0, min(share, left))


async def sweep_allotments(session: Session) -> None:
    """Remove the permits of workers that are gone."""
    await sql.sweep_allotments.run(session)


async def close_breaker(session: Session, name: str) -> bool:
    """Close the breaker and wake the workers that wait; False if it was not open."""
    return await sql.close_breaker.first(session, name=name) is not None


class Reservation:
    """Permits for jobs that are about to be claimed, by kind; what the claim did not need is given back at the end."""

    def __init__(self, limiters: Limiters | None) -> None:
        self._limiters = limiters
        self._permits: dict[str, list[list[Permit]]] = {}
        self._alike: dict[str, str] = {}  # kinds that would use the permits of another one
        self.short: set[str] = set()  # kinds that got less than was wanted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._limiters is not None:
            self._limiters.give_back(permit for kept in self._permits.values() for job in kept for permit in job)

    def cut(self, kind: str, wanted: int) -> int:
        """How many jobs of this kind may be claimed."""
        if self._limiters is None or kind not in self._limiters.gating:
            return wanted
        kept = self._permits.setdefault(kind, [])
        for number in range(wanted):
            permits = self._limiters.reserve(kind)
            if permits is None:
                self.short.add(kind)
                return number
            kept.append(permits)
        return wanted

    def one_of_each(self) -> list[str]:
        """Permits for one job, of whatever kind it will be; the kinds for which there are none.

        Kinds that need the same share them: with a concurrency of 1 the first would always leave nothing for the others.
        """
        closed: list[str] = []
        first: dict[frozenset[tuple[str, int]], str] = {}
        for kind, needs in self._limiters.gating.items() if self._limiters is not None else ():
            like = first.setdefault(frozenset(needs.items()), kind)
            if like != kind:
                self._alike[kind] = like
            if not (self._permits.get(like) if like != kind else self.cut(kind, 1)):
                closed.append(kind)
        return closed

    def keep(self, kind: str, job_id: int, attempt: int) -> None:
        """Note that this job was claimed."""
        if self._limiters is not None and (kept := self._permits.get(self._alike.get(kind, kind))):
            self._limiters.keep((job_id, attempt), kept.pop())
