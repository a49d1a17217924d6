"""Schedules by hand: declared, ticked by several sessions, missed, overlapping, paused, retired, and wrong."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Penstock
from penstock.database import Session
from penstock.engine import Kind
from penstock.engine import scheduler as module
from penstock.engine.job import Dead, Done, Failure
from penstock.engine.maintenance import TICK, Maintenance
from penstock.engine.scheduler import CATCH_UP, KEY_KEPT, Scheduler, plan, sql, tick
from penstock.engine.schedules import (
    Schedule,
    Schedules,
    ScheduleState,
    add_lanes,
    count_schedules,
    declare,
    find_schedules,
    overdue_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
)
from penstock.errors import BadJob
from penstock.settings import DatabaseUrl, Settings
from tests.engine.conftest import JobQueue, make_kind, nothing
from tests.engine.query_plans import plan_of, prepare
from tests.slow import slow_but_first

NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def schedule(name: str = "tidy", rule: Any = "every 1m", kind: Kind = nothing, n: int = 0, **options: Any) -> Schedule:
    chosen = {"timezone": "UTC", "fairness_key": "_system", "missed": "one", "overlap": "allow"} | options
    return Schedule.of(name, rule, kind(n=n), **chosen)


async def set_clock(job_queue: JobQueue, at: datetime) -> None:
    await job_queue.run("update penstock.test_clock set shift = $1 - statement_timestamp()", at)


async def declare_all(job_queue: JobQueue, *schedules: Schedule, origin: str = "code") -> int:
    async with job_queue.database.pool.session() as session:
        await add_lanes(session, {each.lane for each in schedules})
        return await declare(session, schedules, origin, fresh_for=HOUR / 4)


async def tick_once(job_queue: JobQueue, **options: Any) -> int:
    async with job_queue.database.pool.session() as session:
        return await tick(session, **options)


async def tick_all(job_queue: JobQueue) -> None:
    for _ in range(1000):
        if await tick_once(job_queue) == 0:
            return
    raise AssertionError("it does not end")


async def row_of(job_queue: JobQueue, name: str = "tidy", fairness_key: str = "_system") -> ScheduleState:
    async with job_queue.database.pool.session() as session:
        [found] = await find_schedules(session, name, fairness_key)
    return found


async def keys(job_queue: JobQueue) -> list[str]:
    """Of all jobs, alive or over, as far as a key still tells."""
    return [row["unique_key"] for row in await job_queue.run("select unique_key from penstock.jobs order by id")]


def counts(found: ScheduleState) -> tuple[int, int]:
    return found.fired, found.skipped


# -- ticking --------------------------------------------------------------------------------------------------------


async def test_each_tick_makes_one_job_in_the_lane_of_the_schedule(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(kind=make_kind("sweep", queue="night"), n=7, fairness_key="acme"))
    assert await tick_once(job_queue) == 0, "not yet"
    await set_clock(job_queue, NOON + timedelta(seconds=61))
    assert await tick_once(job_queue) == 1
    assert await tick_once(job_queue) == 0
    [job] = await job_queue.run(
        "select job.id, queue, kind, fairness_key, args, unique_key, unique_for, state::text from penstock.jobs as job "
        "join penstock.lanes as lane on lane.id = job.lane"
    )
    assert (job["queue"], job["kind"], job["fairness_key"], job["args"], job["state"]) == (
        "night", "sweep", "acme", '{"n":7}', "ready",
    )  # fmt: skip
    assert job["unique_key"] == "schedule/2027-01-15T12:01:00Z/acme/tidy"
    row = await row_of(job_queue, fairness_key="acme")
    assert (row.next_at, row.last_at, row.last_job) == (
        NOON + timedelta(minutes=2), NOON + timedelta(minutes=1), job["id"],
    )  # fmt: skip
    assert counts(row) == (1, 0)


async def test_a_tick_wakes_the_workers_of_its_queue(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(kind=make_kind("sweep", queue="night")))
    told = job_queue.database.notifications.subscribe("penstock_queue_night")
    await set_clock(job_queue, NOON + HOUR)
    await tick_once(job_queue)
    assert await told.wait(5)
    told.close()


async def test_several_workers_that_tick_at_once_make_one_job_for_each_tick(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, *(schedule(f"s{n}", fairness_key=f"share {n % 7}") for n in range(200)))
    for minute in range(1, 4):
        await set_clock(job_queue, NOON + timedelta(minutes=minute))
        await asyncio.gather(*(tick_once(job_queue, batch=30) for _ in range(20)))
        await tick_all(job_queue)
    made = await keys(job_queue)
    assert len(made) == len(set(made)) == 600
    rows = await job_queue.run("select fired, skipped from penstock.schedules")
    assert [tuple(row) for row in rows] == [(3, 0)] * 200


async def test_a_wrong_next_at_makes_no_second_job(job_queue: JobQueue) -> None:
    """Neither one that lies back, nor one that is no tick at all; also when the job is over by now."""
    worker = await job_queue.worker()
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(missed="all"))
    await set_clock(job_queue, NOON + timedelta(seconds=130))
    await tick_all(job_queue)
    assert len(await keys(job_queue)) == 2
    for job in await job_queue.claim(worker):
        await job_queue.settle(worker, (job, Done()))
    for wrong in (timedelta(seconds=60), timedelta(seconds=61.5)):
        await job_queue.run("update penstock.schedules set next_at = $1", NOON + wrong)
        await tick_all(job_queue)
        assert await keys(job_queue) == []
        assert (await row_of(job_queue)).next_at == NOON + timedelta(minutes=3)
    assert counts(await row_of(job_queue)) == (2, 3)


async def test_a_tick_that_fails_before_its_commit_has_not_happened(
    job_queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, session: Session) -> None:
        assert name == "cron-tick"
        raise ZeroDivisionError

    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule())
    await set_clock(job_queue, NOON + timedelta(minutes=1))
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(module, "reach", fail)
        await tick_once(job_queue)
    assert await keys(job_queue) == []
    await tick_once(job_queue)
    assert await keys(job_queue) == ["schedule/2027-01-15T12:01:00Z/_system/tidy"]


@pytest.mark.parametrize(
    ("change", "rule", "expected"),
    [
        (
            datetime(2027, 3, 28, 1, tzinfo=UTC),
            "30 2 * * *",
            ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"],
        ),
        (
            datetime(2026, 10, 25, 1, tzinfo=UTC),
            "30 2 * * *",
            ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        (
            datetime(2026, 10, 25, 1, tzinfo=UTC),
            "*/30 2 * * *",
            [f"2026-10-{time}:00Z" for time in ("24T00:00", "24T00:30", "25T00:00", "25T00:30", "25T01:00", "25T01:30",
                                                "26T01:00", "26T01:30")],
        ),
    ],
    ids=["spring", "autumn", "autumn, both hours"],
)  # fmt: skip
async def test_several_workers_across_a_change_of_the_clocks(
    job_queue: JobQueue, change: datetime, rule: str, expected: list[str]
) -> None:
    """The database's clock moves over two days, in steps that are not the rule's; four workers tick, and others restart."""
    begin = change - timedelta(hours=30)
    await set_clock(job_queue, begin)
    declared = schedule(rule=rule, timezone="Europe/Berlin", missed="all")
    for step in range(75):
        await set_clock(job_queue, begin + step * timedelta(minutes=47, seconds=3))
        again = [declare_all(job_queue, declared)] if step % 5 == 0 else []
        await asyncio.gather(*(tick_once(job_queue) for _ in range(4)), *again)
        await tick_all(job_queue)
    assert [key.split("/")[1] for key in await keys(job_queue)] == expected
    assert len(await job_queue.run("select from penstock.schedules")) == 1


async def test_a_lane_that_is_not_there_is_added_and_not_inside_the_transaction(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule())
    await job_queue.run("delete from penstock.lanes")
    await set_clock(job_queue, NOON + timedelta(minutes=1))
    assert await tick_once(job_queue) == 1
    assert (len(await job_queue.run("select from penstock.lanes")), await keys(job_queue)) == (1, [])
    assert await tick_once(job_queue) == 1
    assert len(await keys(job_queue)) == 1


async def test_a_schedule_that_cannot_tick_is_not_in_the_way_of_others(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule("a"), schedule("b"), schedule("c"), schedule("d"))
    await job_queue.run("update penstock.schedules set timezone = 'Mars/Olympus', rule = '0 * * * *' where name = 'a'")
    await job_queue.run("update penstock.schedules set rule = 'nonsense' where name = 'b'")
    await job_queue.run("update penstock.schedules set rule = 'every 1ms' where name = 'c'")
    await set_clock(job_queue, NOON + timedelta(minutes=1))
    await tick_all(job_queue)
    assert await keys(job_queue) == ["schedule/2027-01-15T12:01:00Z/_system/d"]
    for name in "abc":
        row = await row_of(job_queue, name)
        assert counts(row) == (0, 1)
        assert row.next_at is not None
        assert timedelta(0) < row.next_at - (NOON + timedelta(minutes=2)) < timedelta(seconds=10)


async def test_a_statement_that_is_refused_does_not_end_the_beat(job_queue: JobQueue, settings: Settings) -> None:
    """The schema of the release before has no such table."""
    scheduler = Scheduler(settings, Schedules())
    await job_queue.run("alter table penstock.schedules rename to others")
    async with job_queue.database.pool.session() as session:
        assert await scheduler.do(session) is None
        assert await session.fetchval("select 1") == 1


@pytest.mark.parametrize("statistics", slow_but_first(["skewed", "none", "empty"]))
async def test_looking_for_what_is_due_scans_no_jobs(job_queue: JobQueue, statistics: str) -> None:
    await prepare(job_queue, statistics, rows=5_000)
    await declare_all(job_queue, *(schedule(f"s{n}", overlap="skip") for n in range(1000)))
    await job_queue.run("update penstock.schedules set last_job = 1")
    for generic in (False, True):
        async with job_queue.database.pool.transaction() as tx:
            found = await plan_of(tx, sql.due_schedules, {"batch": 500}, generic=generic)
        scans = [node["Node Type"] for node in found if node.get("Relation Name") == "jobs"]
        assert scans == ["Index Scan"], found


# -- missed and overlap -----------------------------------------------------------------------------------------------


LATE_BY = {"a little": timedelta(minutes=5, seconds=59), "a minute": timedelta(minutes=30), "no": timedelta(seconds=61)}


@pytest.mark.parametrize(
    ("missed", "late", "fired", "skipped"),
    [
        ("one", "no", ["12:01"], 0),
        ("one", "a little", ["12:05"], 4),
        ("one", "a minute", ["12:30"], 29),
        ("skip", "no", ["12:01"], 0),
        ("skip", "a little", ["12:05"], 4),
        ("all", "a little", ["12:01", "12:02", "12:03", "12:04", "12:05"], 0),
        ("all", "a minute", [f"12:{minute:02}" for minute in range(1, 31)], 0),
    ],
)
@pytest.mark.parametrize("rule", ["* * * * *", "every 1m"])
def test_what_becomes_of_missed_ticks(rule: str, missed: str, late: str, fired: list[str], skipped: int) -> None:
    now, found, left_out = NOON + LATE_BY[late], [], 0
    next_at: datetime | None = NOON + timedelta(minutes=1)
    while next_at is not None and next_at <= now:
        planned = plan(rule, "UTC", missed, next_at, now)
        assert len(planned.fire) <= CATCH_UP
        found += [f"{at:%H:%M}" for at in planned.fire]
        left_out += planned.skipped
        next_at = planned.next_at
    assert (found, left_out) == (fired, skipped)


async def test_missed_all_goes_on_in_the_next_rounds(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(missed="all"))
    await set_clock(job_queue, NOON + LATE_BY["a minute"])
    await tick_once(job_queue)
    assert len(await keys(job_queue)) == CATCH_UP
    await tick_all(job_queue)
    assert [key[20:25] for key in await keys(job_queue)] == [f"12:{minute:02}" for minute in range(1, 31)]
    assert counts(await row_of(job_queue)) == (30, 0)


async def test_missed_skip_leaves_out_what_is_a_minute_late(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(missed="skip", rule="0 * * * *"))
    await set_clock(job_queue, NOON + 3 * HOUR + timedelta(seconds=61))
    await tick_all(job_queue)
    assert (await keys(job_queue), counts(await row_of(job_queue))) == ([], (0, 3))
    await set_clock(job_queue, NOON + 4 * HOUR + timedelta(seconds=58))
    await tick_all(job_queue)
    assert (len(await keys(job_queue)), counts(await row_of(job_queue))) == (1, (1, 3))


@pytest.mark.parametrize("rule", ["* * * * *", "every 1m"])
async def test_a_year_of_missed_ticks_is_gone_through_in_bounded_bites(job_queue: JobQueue, rule: str) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(rule=rule))
    await set_clock(job_queue, NOON + timedelta(days=3))
    await tick_all(job_queue)
    assert len(await keys(job_queue)) == 1
    assert counts(await row_of(job_queue)) == (1, 3 * 24 * 60 - 1)


async def test_overlap_skip_waits_for_the_end_of_the_last_job(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(overlap="skip"))
    ends: list[Callable[[], Any]] = [Done, lambda: Dead(Failure("Permanent", "ValueError", "no", "trace", "f00"))]
    minute = 0
    for number, end in enumerate(ends, start=1):
        for _ in range(3):  # the first of these fires; then its job waits, then it runs
            minute += 1
            await set_clock(job_queue, NOON + timedelta(minutes=minute))
            await tick_once(job_queue)
        [job] = await job_queue.claim(worker)
        assert counts(await row_of(job_queue)) == (number, 2 * number)
        await job_queue.settle(worker, (job, end()))
    await set_clock(job_queue, NOON + timedelta(minutes=minute + 1))
    await tick_once(job_queue)
    assert counts(await row_of(job_queue)) == (3, 4), "one that is dead is not alive"


async def test_overlap_skip_makes_one_job_of_many_missed(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(overlap="skip", missed="all"))
    await set_clock(job_queue, NOON + timedelta(minutes=5))
    await tick_all(job_queue)
    assert ([key[20:25] for key in await keys(job_queue)], counts(await row_of(job_queue))) == (["12:01"], (1, 4))


def test_keys_are_kept_for_a_day_or_sixty_ticks() -> None:
    kept = {rule: plan(rule, "UTC", "one", NOON, NOON).keep for rule in ("every 1s", "* * * * *", "0 12 * * *")}
    assert kept == {"every 1s": timedelta(minutes=1), "* * * * *": HOUR, "0 12 * * *": KEY_KEPT}


# -- declaring ----------------------------------------------------------------------------------------------------------


async def test_declaring_again_changes_nothing(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    assert await declare_all(job_queue, schedule()) == 1
    before = await job_queue.run("select ctid, * from penstock.schedules")
    for _ in range(25):
        assert await declare_all(job_queue, schedule()) == 0
    assert await job_queue.run("select ctid, * from penstock.schedules") == before
    await job_queue.advance(1000)
    assert await declare_all(job_queue, schedule()) == 1, "its date is renewed"
    row = await row_of(job_queue)
    assert row.declared_at > NOON + timedelta(seconds=999)
    assert row.next_at == NOON + timedelta(minutes=1), "missed ticks stay due"


async def test_many_workers_that_declare_at_once_make_one_row_each(job_queue: JobQueue) -> None:
    several = [schedule(f"s{n}") for n in range(300)]
    await asyncio.gather(*(declare_all(job_queue, *(several if n % 2 else several[::-1])) for n in range(8)))
    assert len(await job_queue.run("select from penstock.schedules")) == 300


async def test_a_changed_rule_begins_anew_and_a_changed_call_keeps_its_tick(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(rule="every 1h"))
    await set_clock(job_queue, NOON + 2 * HOUR)
    await declare_all(job_queue, schedule(rule="every 1h", n=5, missed="skip", overlap="skip"))
    row = await row_of(job_queue)
    assert (row.next_at, row.args, row.missed, row.overlap) == (NOON + HOUR, {"n": 5}, "skip", "skip")
    await declare_all(job_queue, schedule(rule="30 * * * *"))
    assert (await row_of(job_queue)).next_at == NOON + 2.5 * HOUR
    await declare_all(job_queue, schedule(rule="30 * * * *", timezone="Asia/Kolkata"))
    assert (await row_of(job_queue)).next_at == NOON + 3 * HOUR


async def test_what_is_no_longer_declared_is_retired_and_comes_back(job_queue: JobQueue, settings: Settings) -> None:
    ours, theirs = Schedules(), Schedules()
    ours.declare(schedule("ours"))
    theirs.declare(schedule("theirs", rule="0 * * * *"))
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule("by hand"[:2]), origin="api")
    async with job_queue.database.pool.session() as session:
        us, them = Scheduler(settings, ours), Scheduler(settings, theirs)
        await us.do(session)
        await them.do(session)
        for minutes in (20, 40, 59, 61):
            await set_clock(job_queue, NOON + timedelta(minutes=minutes))
            await us._tend(session)
        assert (await row_of(job_queue, "theirs")).state == "retired"
        assert (await row_of(job_queue, "ours")).retired_at is None
        assert (await row_of(job_queue, "by")).retired_at is None
        await set_clock(job_queue, NOON + timedelta(hours=5, minutes=10))
        await tick_all(job_queue)
        assert not [key for key in await keys(job_queue) if key.endswith("/theirs")], "what is retired does not tick"
        await them._tend(session)
        assert (await row_of(job_queue, "theirs")).retired_at is None, "its worker was only cut off"
        await tick_all(job_queue)
    assert [key for key in await keys(job_queue) if key.endswith("/theirs")] == [
        "schedule/2027-01-15T17:00:00Z/_system/theirs"
    ]
    assert counts(await row_of(job_queue, "theirs")) == (1, 4)


async def test_what_a_worker_with_less_patience_has_retired_comes_back(job_queue: JobQueue, settings: Settings) -> None:
    schedules = Schedules()
    schedules.declare(schedule())
    scheduler = Scheduler(settings, schedules)
    async with job_queue.database.pool.session() as session:
        await scheduler.do(session)
        await job_queue.run("update penstock.schedules set retired_at = penstock.now()")
        await scheduler._tend(session)
        assert (await row_of(job_queue)).state == "active"
        await job_queue.run("update penstock.schedules set retired_at = penstock.now()")
        await Scheduler(settings, schedules).do(session)
        assert (await row_of(job_queue)).state == "active"


async def test_what_was_retired_long_ago_is_deleted(job_queue: JobQueue, settings: Settings) -> None:
    await declare_all(job_queue, schedule())
    scheduler = Scheduler(settings, Schedules())
    async with job_queue.database.pool.session() as session:
        await job_queue.advance(3601)
        await scheduler._tend(session)
        await job_queue.advance(29 * 86400)
        await scheduler._tend(session)
        assert len(await job_queue.run("select from penstock.schedules")) == 1
        await job_queue.advance(2 * 86400)
        await scheduler._tend(session)
    assert await job_queue.run("select from penstock.schedules") == []


async def test_old_code_that_joins_anew_does_not_bring_the_old_rule_back(
    job_queue: JobQueue, settings: Settings
) -> None:
    old, new = Schedules(), Schedules()
    old.declare(schedule(rule="every 1m"))
    new.declare(schedule(rule="every 2m"))
    async with job_queue.database.pool.session() as session:
        before = Scheduler(settings, old)
        await before.do(session)
        await Scheduler(settings, new).do(session)
        await before.do(session)
        await job_queue.advance(1000)
        await before._tend(session)
    assert (await row_of(job_queue)).rule == "every 2m"


async def test_a_schedule_that_is_declared_while_the_worker_works_is_found(
    job_queue: JobQueue, settings: Settings
) -> None:
    schedules = Schedules()
    scheduler = Scheduler(settings, schedules)
    async with job_queue.database.pool.session() as session:
        assert await scheduler.do(session) is None
        schedules.declare(schedule(rule="every 1s"))
        until = await scheduler.do(session)
    assert until is not None
    assert 0 < until <= 1


async def test_ten_thousand_are_declared_in_bites_with_beats_between(job_queue: JobQueue, settings: Settings) -> None:
    schedules = Schedules()
    for n in range(2500):
        schedules.declare(schedule(f"s{n}", rule="every 1h"))
    scheduler = Scheduler(settings, schedules)
    async with job_queue.database.pool.session() as session:
        assert [await scheduler.do(session) == 0.0 for _ in range(3)] == [True, True, False]
    assert len(await job_queue.run("select from penstock.schedules")) == 2500


# -- in the application -----------------------------------------------------------------------------------------------


def application(database_url: DatabaseUrl) -> tuple[Penstock, Kind]:
    app = Penstock(database_url=database_url)
    return app, app.job(name="nothing")(nothing.handler)


async def test_a_worker_declares_and_ticks(job_queue: JobQueue, database_url: DatabaseUrl) -> None:
    app, kind = application(database_url)
    app.schedule("often", timedelta(seconds=1), kind(n=1))
    async with app:
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(concurrency=2, stop=stop))
        async with asyncio.timeout(10):
            while len(await job_queue.run("select from penstock.job_history")) < 2:  # noqa: ASYNC110  no event for SQL
                await asyncio.sleep(0.02)
        stop.set()
        await working
    assert (await row_of(job_queue, "often")).origin == "code"


async def test_the_chores_rest_until_the_next_tick(job_queue: JobQueue, settings: Settings) -> None:
    """So that it is fired within some milliseconds, and not with the next heartbeat."""
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(rule="every 1h"))
    chores = Maintenance(settings, await job_queue.worker(), Scheduler(settings, Schedules()))
    async with job_queue.database.pool.session() as session:
        await chores.do(session)  # with everything that comes once a minute
        assert await chores.do(session) == TICK
        await set_clock(job_queue, NOON + HOUR - timedelta(milliseconds=250))
        assert 0.005 <= await chores.do(session) <= 0.25
        await set_clock(job_queue, NOON + HOUR)
        await chores.do(session)
    assert len(await keys(job_queue)) == 1


async def test_add_and_remove_by_hand(job_queue: JobQueue, database_url: DatabaseUrl) -> None:
    app, kind = application(database_url)
    async with app:
        await app.add_schedule("report", "0 6 * * MON", kind(n=1), fairness_key="acme", timezone="Europe/Berlin")
        await app.add_schedule("report", "0 7 * * MON", kind(n=2), fairness_key="acme", timezone="Europe/Berlin")
        row = await row_of(job_queue, "report", "acme")
        assert (row.rule, row.args, row.origin, row.state) == ("0 7 * * MON", {"n": 2}, "api", "active")
        assert not await app.remove_schedule("report"), "of another fairness key"
        assert await app.remove_schedule("report", fairness_key="acme")
        assert not await app.remove_schedule("report", fairness_key="acme")

        await declare_all(job_queue, schedule("coded"))
        with pytest.raises(BadJob, match="is declared in code: change it there"):
            await app.add_schedule("coded", "every 1h", kind())
        with pytest.raises(BadJob, match="is declared in code: remove it there"):
            await app.remove_schedule("coded")
        assert (await row_of(job_queue, "coded")).rule == "every 1m"
        await job_queue.run("update penstock.schedules set retired_at = penstock.now()")
        await app.add_schedule("coded", "every 1h", kind())
        row = await row_of(job_queue, "coded")
        assert (row.rule, row.origin, row.retired_at) == ("every 1h", "api", None)
        await declare_all(job_queue, schedule("coded"))
        assert (await row_of(job_queue, "coded")).origin == "code", "code takes over what it declares"


async def test_pause_resume_and_run(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, schedule(missed="all", n=3))
    async with job_queue.database.pool.session() as session:
        assert await pause_schedule(session, "tidy", "_system")
        assert not await pause_schedule(session, "tidy", "_system")
        await set_clock(job_queue, NOON + HOUR)
        await tick_all(job_queue)
        assert await keys(job_queue) == []
        number = await run_schedule(session, "tidy", "_system")
        assert number is not None
        assert (await job_queue.find(number))["args"] == '{"n":3}'
        assert await run_schedule(session, "tidy", "other") is None
        assert await resume_schedule(session, "tidy", "_system")
        assert not await resume_schedule(session, "tidy", "_system")
        await tick_all(job_queue)
        assert await keys(job_queue) == [None], "ticks of the pause were not missed"
        assert (await row_of(job_queue)).next_at == NOON + HOUR + timedelta(minutes=1)
        assert not await remove_schedule(session, "no such", "_system")


async def test_states(job_queue: JobQueue) -> None:
    await set_clock(job_queue, NOON)
    await declare_all(job_queue, *(schedule(name) for name in ("active", "late", "paused", "retired")))
    await job_queue.run("update penstock.schedules set paused_at = penstock.now() where name = 'paused'")
    await job_queue.run("update penstock.schedules set retired_at = penstock.now() where name = 'retired'")
    await job_queue.run("update penstock.schedules set next_at = next_at - interval '3 minutes' where name <> 'active'")
    async with job_queue.database.pool.session() as session:
        states = {found.name: found.state for found in await find_schedules(session)}
        counted = await count_schedules(session)
        overdue = await overdue_schedules(session)
    assert states == {"active": "active", "late": "overdue", "paused": "paused", "retired": "retired"}
    assert counted == {"active": 1, "overdue": 1, "paused": 1, "retired": 1}
    assert [row["name"] for row in overdue] == ["late"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cron_or_interval": "61 * * * *"}, "is not a cron rule"),
        ({"cron_or_interval": "0 0 30 2 *"}, "never comes true"),
        ({"cron_or_interval": "every 10ms"}, "whole seconds"),
        ({"timezone": "Berlin"}, "did you mean Europe/Berlin"),
        ({"missed": "some"}, "missed of the schedule tidy is 'some': use 'skip' or 'one' or 'all'"),
        ({"overlap": True}, "overlap of the schedule tidy is True: use 'allow' or 'skip'"),
        ({"call": "nothing"}, "'nothing' is not a job: call the decorated function"),
        ({"call": nothing}, "is not a job"),
        ({"name": "no spaces"}, "cannot be the name of a schedule"),
        ({"name": ""}, "cannot be the name of a schedule"),
        ({"name": None}, "cannot be the name of a schedule"),
        ({"fairness_key": ""}, "cannot be a fairness key"),
        ({"fairness_key": "a\nb"}, "cannot be a fairness key"),
        ({"fairness_key": None}, "cannot be a fairness key"),
    ],
    ids=str,
)
async def test_what_cannot_be_scheduled(change: dict[str, Any], sentence: str) -> None:
    app = Penstock()
    good: dict[str, Any] = {"name": "tidy", "cron_or_interval": "0 2 * * *", "call": nothing()}
    with pytest.raises(BadJob, match=sentence):
        app.schedule(**good | change)
    assert not app.schedules


async def test_one_name_and_share_is_declared_once() -> None:
    app = Penstock()
    app.schedule("tidy", "every 60s", nothing(n=1))
    app.schedule("tidy", timedelta(minutes=1), nothing(n=1))
    app.schedule("tidy", "every 2m", nothing(n=1), fairness_key="acme")
    with pytest.raises(BadJob, match="Schedule tidy of the fairness key _system is declared twice"):
        app.schedule("tidy", "every 60s", nothing(n=2))
    assert list(app.schedules) == [("tidy", "_system"), ("tidy", "acme")]
