"""Permits over several workers of one database: never more than the limit, nobody starves, an open breaker closes lanes."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from asyncpg import Record
from hypothesis import given
from hypothesis import strategies as st

from penstock import Penstock, Permanent, RateLimited
from penstock.engine import Context
from penstock.engine.job import StopReason
from penstock.engine.kinds import Kinds
from penstock.engine.limits.breaker import Signal
from penstock.engine.limits.declare import Limit, Limits
from penstock.engine.limits.exchange import Limiters, Reservation, close_breaker, share_out, sql
from penstock.engine.limits.limiter import NOTHING_SAID, WENT_WELL, Demand, read_end
from penstock.errors import BadJob, Resting
from penstock.settings import DatabaseUrl
from tests.engine.conftest import JobQueue, make_kind
from tests.polling import until

# -- the rule -----------------------------------------------------------------------------------------------------


def tell(worker_id: int, used: int = 0, waiting: int = 0, need: int = 1) -> Demand:
    return Demand(worker_id, used, waiting, need)


def test_the_hungry_share_equally() -> None:
    assert share_out(20, [tell(1, 20, 3), tell(2, 0, 1)], 0) == {1: 10, 2: 10}


def test_who_is_not_hungry_keeps_what_it_uses_and_one_to_begin_with() -> None:
    assert share_out(20, [tell(1, 3), tell(2, 0, 1), tell(3)], 0) == {1: 3, 2: 16, 3: 1}
    assert share_out(20, [tell(1), tell(2)], 0) == {1: 10, 2: 10}


def test_who_uses_more_than_its_part_gives_back_even_if_it_does_not_wait() -> None:
    """Callers that take the next permit the moment they give one back never wait, and would keep all for ever."""
    assert share_out(10, [tell(1, 10), tell(2, 0, 1)], 0) == {1: 5, 2: 5}
    assert share_out(1, [tell(1, 1), tell(2, 0, 1)], 1) == {1: 0, 2: 1}


def test_who_uses_nothing_gives_everything_to_one_that_starves() -> None:
    assert share_out(2, [tell(1, 1), tell(2), tell(3, 0, 1)], 0) == {1: 1, 2: 0, 3: 1}
    assert share_out(2, [tell(1), tell(2), tell(3)], 0) == {1: 0, 2: 0, 3: 0}


def test_with_fewer_permits_than_workers_they_go_round() -> None:
    fellows = [tell(1, 0, 1), tell(2, 0, 1), tell(3, 0, 1)]
    assert [share_out(1, fellows, turn) for turn in range(3)] == [
        {1: 1, 2: 0, 3: 0},
        {1: 0, 2: 1, 3: 0},
        {1: 0, 2: 0, 3: 1},
    ]


def test_a_part_is_large_enough_to_begin_with() -> None:
    fellows = [tell(1, 0, 1, 3), tell(2, 0, 1, 3), tell(3, 0, 1, 3)]
    assert sorted(share_out(7, fellows, 0).values()) == [0, 3, 4]


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=8),
    st.integers(0, 1000),
)
def test_all_together_never_get_more_than_there_are(permits: int, told: list[tuple[int, int, int]], turn: int) -> None:
    fellows = [tell(number, used, waiting, min(need, permits)) for number, (used, waiting, need) in enumerate(told)]
    shares = share_out(permits, fellows, turn)
    assert sum(shares.values()) <= permits
    assert all(share >= 0 for share in shares.values())


# -- declaring ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("permits", [0, -1, 1.5, True, "20", None])
def test_a_limit_needs_at_least_one_permit(permits: Any) -> None:
    with pytest.raises(BadJob, match="permits: use an integer of at least 1"):
        Penstock().limit("llm", permits)


def test_a_limit_is_declared_once() -> None:
    app = Penstock()
    app.limit("llm", 20)
    app.limit("llm", 20)
    with pytest.raises(BadJob, match="declared twice, with 20 and 30 permits"):
        app.limit("llm", 30)
    with pytest.raises(BadJob, match="rest: "):
        app.limit("ocr", 1, rest="soon")
    with pytest.raises(BadJob, match="breaker_after"):
        app.limit("ocr", 1, breaker_after=0)
    with pytest.raises(BadJob, match="cannot be the name of a limit"):
        app.limit("", 1)


@pytest.mark.parametrize(
    ("uses", "sentence"),
    [
        ({"lmm": 1}, "uses the limit lmm, which is not declared"),
        ({"llm": 3}, "uses 3 permits of llm, which has only 2"),
    ],
)
async def test_uses_that_cannot_be_had(database_url: DatabaseUrl, uses: dict[str, int], sentence: str) -> None:
    app = Penstock(database_url=database_url, pool={"size": 2})
    app.limit("llm", 2)

    @app.job(uses=uses)
    async def ask(ctx: Context) -> None: ...

    with pytest.raises(BadJob, match=sentence):
        async with app:
            pass


def test_uses_of_nothing() -> None:
    with pytest.raises(BadJob, match="uses 0 permits of llm"):
        make_kind(uses={"llm": 0})


# -- the exchange, by member ----------------------------------------------------------------------------------------


class FleetMember:
    """A worker that is only a row, and its permits."""

    def __init__(self, job_queue: JobQueue, worker_id: int, limiters: Limiters) -> None:
        self.job_queue = job_queue
        self.id = worker_id
        self.limiters = limiters
        self.llm = limiters["llm"]

    async def exchange(self) -> None:
        async with self.job_queue.database.pool.session() as session:
            await self.limiters.exchange(session)
        await asyncio.sleep(0)  # who waits is served by the main loop


async def join_fleet(job_queue: JobQueue, permits: int, **options: Any) -> FleetMember:
    worker_id = await job_queue.worker()
    limits = Limits()
    limits.declare(Limit("llm", permits, **options))
    limiters = Limiters(limits)
    async with job_queue.database.pool.session() as session:
        await limiters.join(session, worker_id)
    return FleetMember(job_queue, worker_id, limiters)


async def breaker(job_queue: JobQueue) -> Record:
    [row] = await job_queue.run("select * from penstock.limits where name = 'llm'")
    return row


async def test_a_lonely_worker_gets_everything(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 20)
    assert member.llm.cap == 0, "nothing before the first exchange"
    await member.exchange()
    assert member.llm.cap == 20


async def test_a_changed_number_counts_from_then_on(job_queue: JobQueue) -> None:
    first = await join_fleet(job_queue, 20)
    await first.exchange()
    second = await join_fleet(job_queue, 4)
    await second.exchange()
    assert second.llm.cap == 0, "the first one has not given back yet"
    await first.exchange()
    await second.exchange()
    assert (first.llm.cap, second.llm.cap) == (2, 2)


async def test_giving_back_waits_for_what_is_in_use(job_queue: JobQueue) -> None:
    first, second = await join_fleet(job_queue, 4), await join_fleet(job_queue, 4)
    await first.exchange()
    first.llm.adaptive.value = 4
    held = [await first.llm.take(1) for _ in range(4)]
    wanting = [asyncio.create_task(second.llm.take(1)) for _ in range(3)]
    await asyncio.sleep(0)
    await second.exchange()
    await first.exchange()
    await second.exchange()
    assert (first.llm.cap, second.llm.cap) == (2, 0), "lowered, but all of it is in use"
    for expected in (0, 1):
        assert second.llm.cap == expected
        first.llm.give_back(held.pop(), NOTHING_SAID)
        await first.exchange()
        await second.exchange()
    assert (first.llm.cap, second.llm.cap) == (2, 2)
    assert (await wanting[0]).amount == 1
    for task in wanting:
        task.cancel()


async def test_permits_of_a_lost_worker_are_free(job_queue: JobQueue) -> None:
    first, second = await join_fleet(job_queue, 4), await join_fleet(job_queue, 4)
    await first.exchange()
    await second.exchange()
    assert second.llm.cap == 0
    await job_queue.lose(first.id)
    await second.exchange()
    assert second.llm.cap == 4


async def test_a_lost_answer_leaves_the_smaller_number(job_queue: JobQueue) -> None:
    """The commit happened, and the worker does not know: as if the connection had been cut in that moment."""
    member = await join_fleet(job_queue, 8)
    session = await job_queue.database.direct("heartbeat")
    commit = session.execute

    async def cut_after_commit(query: str, *args: Any, **options: Any) -> str:
        answer = await commit(query, *args, **options)
        if query.startswith("COMMIT"):
            raise ConnectionResetError
        return answer

    session.execute = cut_after_commit  # type: ignore[method-assign]
    with pytest.raises(ConnectionResetError):
        await member.limiters.exchange(session)
    session.terminate()
    [row] = await job_queue.run("select granted from penstock.allotments")
    assert (row["granted"], member.llm.cap) == (8, 0)
    await member.exchange()
    assert member.llm.cap == 8


async def test_a_frozen_worker_does_not_stop_the_beats_of_others(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 8)
    async with job_queue.database.pool.transaction() as frozen:
        await sql.lock_limits(frozen, names=["llm"])
        began = time.monotonic()
        await member.exchange()
        assert time.monotonic() - began < 1
        assert member.llm.cap == 0
    await member.exchange()
    assert member.llm.cap == 8


async def test_whatever_happens_the_sum_is_never_more(job_queue: JobQueue) -> None:
    """Five workers take, give back, exchange, come and are lost at random: what is used and granted stays within 7."""
    dice = random.Random(7)
    members = [await join_fleet(job_queue, 7) for _ in range(5)]
    held: list[tuple[FleetMember, Any]] = []
    tasks: list[tuple[FleetMember, asyncio.Task[Any]]] = []
    most = 0
    for _ in range(400):
        member = dice.choice(members)
        member.llm.adaptive.value = 7
        match dice.randrange(5):
            case 0 | 1:
                await member.exchange()
            case 2:
                if len(tasks) < 20:
                    tasks.append((member, asyncio.create_task(member.llm.take(dice.choice([1, 1, 2])))))
            case 3 if held:
                owner, permit = held.pop(dice.randrange(len(held)))
                owner.llm.give_back(permit, NOTHING_SAID)
            case 4 if tasks:
                tasks.pop(dice.randrange(len(tasks)))[1].cancel()
        await asyncio.sleep(0)
        held += [(owner, task.result()) for owner, task in tasks if task.done() and not task.cancelled()]
        tasks = [(owner, task) for owner, task in tasks if not task.done()]
        used = sum(each.llm.used for each in members)
        most = max(most, used)
        assert used <= sum(max(each.llm.cap, each.llm.used) for each in members) <= 7
    assert most >= 6, "and it is used; a single permit is of no use for those who need two"
    assert sum(permit.amount for _, permit in held) == sum(each.llm.used for each in members), "none is lost on the way"
    for _, task in tasks:
        task.cancel()


async def test_a_cancelled_caller_leaves_no_permit_behind(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 1)
    await member.exchange()
    first = await member.llm.take(1)
    waiting = [asyncio.create_task(member.llm.take(1)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    member.llm.give_back(first, NOTHING_SAID)  # to the second, which is cancelled before it can run
    waiting[1].cancel()
    assert await waiting[2] is not None
    assert member.llm.used == 1


async def test_first_come_first_served(job_queue: JobQueue) -> None:
    """One that needs much is not overtaken for ever by those that need little."""
    member = await join_fleet(job_queue, 3)
    await member.exchange()
    member.llm.adaptive.value = 3
    held = [await member.llm.take(1) for _ in range(3)]
    order: list[int] = []

    async def take(amount: int) -> None:
        await member.llm.take(amount)
        order.append(amount)

    waiting = [asyncio.create_task(take(amount)) for amount in (3, 1)]
    await asyncio.sleep(0)
    for permit in held[:2]:
        member.llm.give_back(permit, NOTHING_SAID)
        await asyncio.sleep(0)
        assert order == []
    member.llm.give_back(held[2], NOTHING_SAID)
    await waiting[0]
    assert order == [3]
    waiting[1].cancel()


async def test_a_failure_is_excused_until_others_are_answered(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 20)
    await member.exchange()
    assert [member.llm.excuses(7), member.llm.excuses(7)] == [True, True], "nobody was answered"
    member.llm.give_back(await member.llm.take(1), WENT_WELL)
    assert member.llm.excuses(8), "its first failure: that it was answered before says nothing"
    assert not member.llm.excuses(7), "the other side is there, and fails for this job"
    assert member.llm.excuses(7), "again nobody since then"


async def test_how_a_call_ends_moves_the_level_and_the_breaker(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 20)
    await member.exchange()
    for error, level, failures in (
        (RateLimited("429"), 4, 0),
        (TimeoutError(), 2, 1),
        (OSError("no route"), 2, 2),
        (Permanent("no such model"), 2, 2),
    ):
        permit = await member.llm.take(1)
        if level == 4:
            member.llm.adaptive.value = 8
        member.llm.give_back(permit, read_end(error))
        assert (member.llm.adaptive.value, member.llm.breaker.failures) == (level, failures), error
    hung = read_end(asyncio.CancelledError(), StopReason.TIMEOUT)
    assert hung.signal is Signal.TIMEOUT, "a handler that was stopped for taking too long waited for the other side"
    assert read_end(asyncio.CancelledError(), StopReason.CANCEL).signal is Signal.NOTHING
    permit = await member.llm.take(1)
    member.llm.give_back(permit, WENT_WELL)
    assert member.llm.breaker.failures == 0


async def test_one_job_of_kinds_that_need_the_same(job_queue: JobQueue) -> None:
    """A quarantined is claimed alone: at a level of 1 no kind is closed because another one has taken the only permit."""
    worker_id = await job_queue.worker()
    limits = Limits()
    limits.declare(Limit("llm", 4))
    kinds = Kinds({name: make_kind(name, uses={"llm": need}) for name, need in (("a", 1), ("b", 1), ("c", 2))})
    limiters = Limiters(limits, kinds)
    async with job_queue.database.pool.session() as session:
        await limiters.join(session, worker_id)
        await limiters.exchange(session)
    for claimed, in_use in (("a", 1), ("b", 1), ("", 0)):
        with Reservation(limiters) as reservation:
            assert reservation.one_of_each() == ["c"], "the level does not allow more at once"
            if claimed:
                reservation.keep(claimed, 7, 1)
        assert limiters["llm"].used == in_use
        limiters.give_back(limiters._held.pop((7, 1), ()))


async def test_retry_after_is_honoured_for_all_callers(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 5)
    await member.exchange()
    permit = await member.llm.take(1)
    began = time.monotonic()
    member.llm.give_back(permit, read_end(RateLimited("slow down", retry_after=0.2)))
    again = await member.llm.take(1)
    assert time.monotonic() - began > 0.19
    waiting = asyncio.create_task(member.llm.take(5))
    await asyncio.sleep(0)
    member.llm.give_back(again, read_end(RateLimited("come back later", retry_after=60)))
    for caller in (waiting, member.llm.take(1)):
        with pytest.raises(Resting, match="llm rests for another 60 s; it asked for patience"):
            await caller


async def test_more_than_there_are_cannot_be_had(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 5)
    for amount in (0, 6, True):
        with pytest.raises(BadJob, match="use 1 to 5"):
            await member.llm.take(amount)


async def trip(member: FleetMember, text: str = "no route") -> None:
    for _ in range(5):
        permit = await member.llm.take(1)
        member.llm.give_back(permit, read_end(OSError(text)))


async def test_a_reason_that_cannot_be_kept_as_it_is(job_queue: JobQueue) -> None:
    """It would fail again and again in the transaction that brings the permits, too."""
    member = await join_fleet(job_queue, 4)
    await member.exchange()
    await trip(member, "postgresql://ada:secret@host/ said a\0b\ud800" + "x" * 10_000)
    await member.exchange()
    reason = (await breaker(job_queue))["reason"]
    assert reason.startswith("OSError: postgresql://ada:***@host/ said ab?xxx")
    assert len(reason) == 300


async def test_one_probe_over_two_workers(job_queue: JobQueue) -> None:
    """Opened by one, closed for both; when the rest is over one of them may try, and its failure doubles the rest."""
    first, second = await join_fleet(job_queue, 4), await join_fleet(job_queue, 4)
    for member in (first, second, first):
        await member.exchange()
    await trip(first)
    await first.exchange()
    await second.exchange()
    row = await breaker(job_queue)
    assert (row["trips"], row["reason"]) == (1, "OSError: no route")
    for member in (first, second):
        with pytest.raises(
            RateLimited, match=r"llm rests for another .*; its breaker is open: OSError: no route"
        ) as refused:
            await member.llm.take(1)
        assert 25 < refused.value.retry_after.total_seconds() <= 30

    await job_queue.advance(31)
    for member in (first, second):
        await member.exchange()
    calls = [(member, asyncio.create_task(member.llm.take(1))) for member in (first, first, second, second)]
    await asyncio.sleep(0)
    for _ in range(3):
        for member in (second, first):
            await member.exchange()
    [(prober, probe)] = [(member, call) for member, call in calls if call.done()]
    assert (await breaker(job_queue))["probe_by"] == prober.id
    prober.llm.give_back(probe.result(), read_end(OSError("still no route")))
    for member in (prober, first, second):
        await member.exchange()
    row = await breaker(job_queue)
    assert (row["trips"], row["probe_by"], row["reason"]) == (2, None, "OSError: still no route")
    assert 55 < (row["rests_till"] - row["opened_at"]).total_seconds() - 31 <= 61
    refused_calls = await asyncio.gather(*(call for _, call in calls if call is not probe), return_exceptions=True)
    assert [type(answer).__name__ for answer in refused_calls] == ["Resting"] * 3, "nobody waits through a rest"


async def test_a_probe_that_succeeds_closes_it_for_all(job_queue: JobQueue) -> None:
    first, second = await join_fleet(job_queue, 4), await join_fleet(job_queue, 4)
    for member in (first, second, first):
        await member.exchange()
    await trip(first)
    await first.exchange()
    await second.exchange()
    await job_queue.advance(31)
    for member in (first, second):
        await member.exchange()
    call = asyncio.create_task(second.llm.take(1))
    await asyncio.sleep(0)
    await second.exchange()
    second.llm.give_back(await call, read_end(RateLimited("busy, but alive")))
    await second.exchange()
    row = await breaker(job_queue)
    assert (row["opened_at"], row["trips"], row["reason"]) == (None, 0, None)
    await first.exchange()
    assert (await first.llm.take(1)).amount == 1


async def test_a_probe_that_does_nothing_is_lost(job_queue: JobQueue) -> None:
    first, second = await join_fleet(job_queue, 4), await join_fleet(job_queue, 4)
    for member in (first, second, first):
        await member.exchange()
    await trip(first)
    await first.exchange()
    await job_queue.advance(31)
    for member in (first, second):
        await member.exchange()
    call = asyncio.create_task(first.llm.take(1))
    await asyncio.sleep(0)
    await first.exchange()
    permit = await call
    other = asyncio.create_task(second.llm.take(1))
    await asyncio.sleep(0)
    for _ in range(3):  # under way: kept, however long it takes
        await job_queue.advance(4)
        await first.exchange()
        await second.exchange()
    assert (await breaker(job_queue))["probe_by"] == first.id
    assert not other.done()
    await job_queue.lose(first.id)
    await job_queue.advance(6)
    await second.exchange()
    assert (await breaker(job_queue))["probe_by"] == second.id
    assert (await other).probing
    assert permit.probing


async def test_closed_by_hand(job_queue: JobQueue) -> None:
    member = await join_fleet(job_queue, 4)
    await member.exchange()
    await trip(member)
    await member.exchange()
    async with job_queue.database.pool.session() as session:
        assert await close_breaker(session, "llm")
        assert not await close_breaker(session, "llm"), "it is closed"
        assert not await close_breaker(session, "ocr"), "there is none"
    await member.exchange()
    assert (await member.llm.take(1)).amount == 1


# -- lanes of kinds that use a limit ---------------------------------------------------------------------------------


async def test_a_kind_that_no_longer_uses_a_limit_is_free(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    limits = Limits()
    limits.declare(Limit("llm", 2))
    async with job_queue.database.pool.session() as session:
        await Limiters(limits, {"nothing": make_kind(uses={"llm": 2})}).join(session, worker)  # type: ignore[arg-type]
        assert await session.fetchval("select amount from penstock.uses") == 2
        await Limiters(limits, {"nothing": make_kind(uses={"llm": 1})}).join(session, worker)  # type: ignore[arg-type]
        assert await session.fetchval("select amount from penstock.uses") == 1
        await Limiters(limits, {"nothing": make_kind()}).join(session, worker)  # type: ignore[arg-type]
        assert await session.fetchval("select count(*) from penstock.uses") == 0


# -- real workers -------------------------------------------------------------------------------------------------


class Service:
    """A dependency: counts who is inside, and is as good or bad as it is told."""

    def __init__(self) -> None:
        self.inside = self.most = self.calls = 0
        self.error: Exception | None = None
        self.by: dict[int, int] = {}

    async def call(
        self, seconds: float = 0.02, amount: int = 1, who: int = 0, until: asyncio.Event | None = None
    ) -> None:
        self.inside += amount
        self.calls += 1
        self.by[who] = self.by.get(who, 0) + 1
        self.most = max(self.most, self.inside)
        try:
            await asyncio.sleep(seconds)
            if until is not None:
                await until.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.inside -= amount


Declare = Callable[[Penstock, int], None]


@asynccontextmanager
async def fleet(url: DatabaseUrl, count: int, declare: Declare, concurrency: int = 20) -> AsyncIterator[list[Penstock]]:
    """Workers of the same application, each with a pool and a heartbeat of its own."""
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        apps, works = [], []
        for number in range(count):
            app = Penstock(database_url=url, pool={"size": 4, "hold_limit": timedelta(seconds=2)})
            declare(app, number)
            apps.append(await stack.enter_async_context(app))
            works.append(asyncio.create_task(app.work(stop=stop, concurrency=concurrency, drain="1s")))
        try:
            yield apps
        finally:
            stop.set()
            await asyncio.gather(*works)


async def run(app: Penstock, query: str) -> Any:
    async with app.database.pool.session() as session:
        return await session.fetchval(query)


async def test_two_workers_never_exceed_the_limit(database_url: DatabaseUrl) -> None:
    service = Service()

    def declare(app: Penstock, number: int) -> None:
        app.limit("llm", 5)

        @app.job()
        async def ask(ctx: Context) -> None:
            async with ctx.limit("llm"):
                await service.call(who=number)

    async with fleet(database_url, 2, declare) as [app, _]:
        jobs = await app.enqueue_many([app.kinds["ask"]() for _ in range(300)])
        for job in jobs:
            await app.result(job, timeout="30s")
    assert service.calls == 300
    assert service.most == 5, "all of it was used, and never more"
    assert min(service.by.values()) > 50, "both had their part"


async def test_who_joins_a_busy_fleet_soon_has_its_part(database_url: DatabaseUrl) -> None:
    service, go_on = Service(), asyncio.Event()

    def declare(app: Penstock, number: int) -> None:
        app.limit("llm", 4)

        @app.job(queue=f"own-{number}")
        async def ask(ctx: Context) -> None:
            while not go_on.is_set():
                async with ctx.limit("llm"):
                    await service.call(who=number)

    async with fleet(database_url, 2, declare) as [busy, new]:
        jobs = [await busy.enqueue(busy.kinds["ask"]()) for _ in range(8)]
        await until(lambda: service.by.get(0, 0) > 100)
        jobs += [await new.enqueue(new.kinds["ask"]()) for _ in range(8)]
        await until(lambda: service.by.get(1, 0) > 0)
        await until(lambda: service.by[1] > 50)
        go_on.set()
        for job in jobs:
            await busy.result(job, timeout="10s")
    assert service.most == 4


async def test_uses_holds_permits_while_a_job_runs(database_url: DatabaseUrl) -> None:
    """Two permits for each job of a limit of five: two at once over both workers; the others are not even claimed."""
    service, go_on = Service(), asyncio.Event()

    def declare(app: Penstock, number: int) -> None:
        app.limit("llm", 5)

        @app.job(uses={"llm": 2})
        async def ask(ctx: Context) -> None:
            await service.call(amount=2, until=go_on)

        @app.job()
        async def other(ctx: Context) -> None: ...

    async with fleet(database_url, 2, declare) as [app, _]:
        jobs = await app.enqueue_many([app.kinds["ask"]() for _ in range(30)], priority=-1)
        await until(lambda: service.inside == 4)
        await app.result(await app.enqueue(app.kinds["other"]()), timeout="5s")  # a worse band has its turn
        assert await run(app, "select count(*) from penstock.jobs where state = 'running'") == 2
        go_on.set()
        for job in jobs:
            await app.result(job, timeout="10s")
    assert (service.calls, service.most) == (30, 4)


async def test_nobody_starves_with_one_permit_for_three_workers(database_url: DatabaseUrl) -> None:
    service = Service()

    def declare(app: Penstock, number: int) -> None:
        app.limit("llm", 1)

        @app.job(queue=f"own-{number}")
        async def ask(ctx: Context) -> None:
            while not enough():
                async with ctx.limit("llm"):
                    await service.call(who=number)

    def enough() -> bool:
        return len(service.by) == 3

    async with fleet(database_url, 3, declare, concurrency=2) as apps:
        jobs = [await app.enqueue(app.kinds["ask"]()) for app in apps]
        for job in jobs:
            await apps[0].result(job, timeout="15s")
    assert service.most == 1


async def test_an_open_breaker_burns_no_attempts(database_url: DatabaseUrl) -> None:
    """Lanes are closed, jobs stay ready, and when the service is back one probe opens them again."""
    service = Service()
    service.error = OSError("no route")

    def declare(app: Penstock, number: int) -> None:
        app.limit("llm", 4, rest="300ms", breaker_after=3)

        @app.job(uses={"llm": 1}, retries=100)
        async def ask(ctx: Context) -> None:
            await service.call(0.01, who=number)

    async with fleet(database_url, 2, declare) as [app, _]:
        jobs = await app.enqueue_many([app.kinds["ask"]() for _ in range(40)])
        async with asyncio.timeout(10):
            open_again = "select opened_at is not null and trips > 1 from penstock.limits"
            while not await run(app, open_again):  # noqa: ASYNC110  no event for SQL
                await asyncio.sleep(0.02)
        assert service.calls < 20, "the first failures, and one probe after each rest"
        assert await run(app, "select count(*) from penstock.jobs where state = 'ready' and attempt = 0") > 20
        service.error = None
        for job in jobs:
            await app.result(job, timeout="20s")
    assert service.calls < 60
    assert service.most <= 4


async def test_waiting_for_a_permit_is_no_stall_and_holds_no_connection(database_url: DatabaseUrl) -> None:
    done = asyncio.Event()
    waiting = 0

    def declare(app: Penstock, number: int) -> None:
        app.limit("llm", 1)

        @app.job(stall_after="300ms", retries=0)
        async def ask(ctx: Context) -> None:
            nonlocal waiting
            waiting += 1
            async with ctx.limit("llm"):
                waiting -= 1

        @app.job()
        async def hog(ctx: Context) -> None:
            async with ctx.limit("llm"):
                done.set()
                await asyncio.sleep(1.2)

    async with fleet(database_url, 1, declare) as [app]:
        hog = await app.enqueue(app.kinds["hog"]())
        await asyncio.wait_for(done.wait(), 10)
        jobs = await app.enqueue_many([app.kinds["ask"]() for _ in range(10)])
        await until(lambda: waiting == 10)
        assert app.database.pool.state.used == 0
        for job in [hog, *jobs]:
            await app.result(job, timeout="10s")


async def test_what_ctx_limit_refuses(database_url: DatabaseUrl) -> None:
    said: list[str] = []

    def declare(app: Penstock, number: int) -> None:
        app.limit("llm", 2)

        @app.job(uses={"llm": 1})
        async def ask(ctx: Context) -> None:
            for name, amount in (("ocr", 1), ("llm", 1)):
                try:
                    async with ctx.limit(name, amount):
                        pass
                except BadJob as error:
                    said.append(str(error))

    async with fleet(database_url, 1, declare) as [app]:
        await app.result(await app.enqueue(app.kinds["ask"]()), timeout="10s")
    assert "The limit ocr is not declared" in said[0]
    assert "ask uses llm already" in said[1]
