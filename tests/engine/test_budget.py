"""How many connections the fleet may open: who fits, who waits, and who is told what would fit."""

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from penstock import Context, Penstock
from penstock.database import Database
from penstock.engine.connection_budget import (
    OWN_SESSIONS,
    ConnectionBudget,
    ConnectionLimit,
    connections_needed,
    join_fleet,
    read_budget,
    try_to_join,
)
from penstock.engine.fleet import leave
from penstock.errors import BudgetExceeded
from tests.engine.limited_role import MEMBER, LimitedRole
from tests.polling import until

OWN = connections_needed(0, pooled=False)


async def budget_of(database: Database, need: int) -> ConnectionBudget:
    async with database.pool.session() as session:
        return await read_budget(session, need)


# -- the rule ---------------------------------------------------------------------------------------------------------


def test_the_tightest_limit_decides() -> None:
    server, role = ConnectionLimit("max_connections", 97, 20, 20), ConnectionLimit("the role's limit", 40, 2, 1)
    budget = ConnectionBudget(13, (server, role), (("a:1", 13), ("b:2", 13)))
    assert (budget.promised, budget.free, budget.fits) == (26, 12, False)
    assert budget.possible, "the other two may leave"
    assert budget.largest_pool == 39 - OWN
    assert "13 are needed, but 12 are left: the role's limit is 40, 2 workers may open 26" in budget.shortage


def test_what_stays_can_never_be_had() -> None:
    budget = ConnectionBudget(13, (ConnectionLimit("max_connections", 20, 10, 8),), ())
    assert not budget.possible
    assert f"Set pool.size to {12 - OWN} or less" in budget.refusal
    assert (
        "no pool.size is small enough"
        in replace(budget, limits=(ConnectionLimit("max_connections", 20, 20, 15),)).refusal
    )


def test_behind_a_pooler_only_the_direct_sessions_count() -> None:
    assert connections_needed(8, pooled=True) == connections_needed(8, pooled=False) - 8
    budget = ConnectionBudget(OWN, (ConnectionLimit("max_connections", 20, 20, 18),), (), pooled=True)
    assert "pool.size to" not in budget.refusal


# -- what is counted --------------------------------------------------------------------------------------------------


async def test_the_limits_are_those_of_the_server(limited_role: LimitedRole) -> None:
    database = await limited_role.database()
    [server] = (await budget_of(database, 1)).limits
    most, reserved = await limited_role.admin.fetchrow(  # type: ignore[misc]
        "select current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int"
    )
    assert server.size == most - reserved, "none is set for the role and the database"
    await limited_role.limit(30)
    name = await limited_role.admin.fetchval("select current_database()")
    await limited_role.admin.execute(f"alter database {name} connection limit 50")
    [_, role, here] = (await budget_of(database, 1)).limits
    assert (role.size, here.size) == (30, 50)
    assert (limited_role.role in role.name, name in here.name) == (True, True)


async def test_a_superuser_is_not_bound_by_a_limit_of_its_role_or_database(database: Database) -> None:
    async with database.pool.session() as session:
        name = await session.fetchval("select current_database()")
        await session.execute(f"alter database {name} connection limit 3")
    [server] = (await budget_of(database, 1)).limits
    assert "max_connections" in server.name


async def test_sessions_are_counted_once(limited_role: LimitedRole) -> None:
    await limited_role.limit(30)
    database = await limited_role.database()
    assert (await budget_of(database, 1)).limits[1].others == 0, "our own are our need"
    await limited_role.stranger()
    await limited_role.stranger()
    other = await limited_role.stranger()
    await other.execute("set application_name = 'penstock-worker elsewhere:1'")
    role = (await budget_of(database, 1)).limits[1]
    assert (role.others, role.staying) == (3, 2), "a worker's sessions are others' until it has registered, and may go"
    worker = await limited_role.worker(10)
    budget = await budget_of(database, 1)
    assert (budget.limits[1].others, budget.promised, budget.free) == (2, 10, 18), "then it counts with its most"
    await leave(limited_role.admin, worker)  # type: ignore[arg-type]
    budget = await budget_of(database, 1)
    assert (budget.limits[1].others, budget.promised) == (3, 0), "gone, but its session is still there"


async def test_what_a_stranger_may_not_see_is_counted(limited_role: LimitedRole) -> None:
    """Other people's sessions show neither type nor state to an ordinary role."""
    database = await limited_role.database()
    async with database.pool.session() as session:
        hidden = await session.fetchval(
            "select count(*) from pg_stat_activity where backend_type is null and datname = current_database()"
        )
    assert hidden >= 1, "the administrator's"
    name = await limited_role.admin.fetchval("select current_database()")
    await limited_role.admin.execute(f"alter database {name} connection limit 50")
    assert (await budget_of(database, 1)).limits[1].others == hidden


async def test_a_release_that_did_not_say_counts_with_what_it_has(limited_role: LimitedRole) -> None:
    await limited_role.limit(30)
    database = await limited_role.database()
    old = await limited_role.stranger()
    await old.execute("set application_name = 'penstock-worker'")
    await limited_role.worker(0)
    budget = await budget_of(database, 1)
    assert (budget.promised, budget.limits[1].others, budget.limits[1].staying) == (0, 1, 0)


async def test_a_worker_opens_no_more_than_it_needs(limited_role: LimitedRole) -> None:
    """Every connection of the pool in use, and new lanes from many handlers at once."""
    app = Penstock(database_url=limited_role.url, home=limited_role.home, pool={"size": 2})
    need = connections_needed(2, pooled=False)
    done, most = 0, 0

    @app.job()
    async def crowd(ctx: Context, n: int) -> None:
        nonlocal done
        await app.enqueue_many([last()], fairness_key=f"share {n}")
        done += 1

    @app.job()
    async def last(ctx: Context) -> None: ...

    async with app:
        await app.enqueue_many([crowd(n=n) for n in range(30)])
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(concurrency=30, stop=stop))
        async with asyncio.timeout(20):
            while done < 30:
                now = await limited_role.admin.fetchval(
                    "select count(*) from pg_stat_activity where usename = $1", limited_role.role
                )
                most = max(most, now)
        assert await limited_role.admin.fetchval("select connections from penstock.workers") == need
        stop.set()
        await working
    assert len(OWN_SESSIONS) + 1 <= most <= need


# -- joining ----------------------------------------------------------------------------------------------------------


async def test_what_fits_registers(limited_role: LimitedRole) -> None:
    await limited_role.limit(2 * (OWN + 2))
    await limited_role.worker(OWN + 2)
    database = await limited_role.database()
    worker_id = await join_fleet(database, MEMBER, asyncio.Event())
    [row] = await limited_role.admin.fetch("select connections from penstock.workers where id = $1", worker_id)
    assert row["connections"] == OWN + 2


async def test_what_does_not_fit_now_waits_until_another_leaves(
    limited_role: LimitedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.connection_budget.TRY_EVERY", 0.02)
    await limited_role.limit(2 * (OWN + 2) - 1)
    other = await limited_role.worker(OWN + 2)
    database = await limited_role.database()
    with capture_logs() as logs:
        joining = asyncio.create_task(join_fleet(database, MEMBER, asyncio.Event()))
        await until(lambda: bool(logs))
        for _ in range(3):
            tried, _ = await try_to_join(database, replace(MEMBER, connections=OWN + 2))
            assert tried is None
            await asyncio.sleep(0.03)  # more looks than one of the other, too
        assert not joining.done()
        assert len(logs) == 1, "it says so once, and then now and then"
    assert logs[0]["event"] == "waiting for connections"
    assert f"{OWN + 2} are needed, but {OWN + 1} are left" in logs[0]["reason"]
    await leave(limited_role.admin, other)  # type: ignore[arg-type]
    assert await asyncio.wait_for(joining, 5) is not None


async def test_the_room_of_the_dead_is_taken_though_nobody_is_left_to_declare_them_gone(
    limited_role: LimitedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.connection_budget.TRY_EVERY", 0.02)
    await limited_role.limit(OWN + 2)
    dead = await limited_role.worker(OWN + 2)
    await limited_role.admin.execute("select pg_advisory_unlock_all()")  # its process has ended
    database = await limited_role.database()
    assert await asyncio.wait_for(join_fleet(database, MEMBER, asyncio.Event()), 5) is not None
    assert (
        await limited_role.admin.fetchval("select gone_why from penstock.workers where id = $1", dead)
        == "its process ended"
    )


async def test_a_stop_ends_the_waiting(limited_role: LimitedRole) -> None:
    await limited_role.limit(OWN + 2)
    await limited_role.worker(OWN + 2)
    database = await limited_role.database()
    stop = asyncio.Event()
    with capture_logs() as logs:
        joining = asyncio.create_task(join_fleet(database, MEMBER, stop))
        await until(lambda: bool(logs))
        stop.set()
        assert await asyncio.wait_for(joining, 0.5) is None, "at once, and not with the next look"
    assert await limited_role.admin.fetchval("select count(*) from penstock.workers") == 1


async def test_what_can_never_fit_is_told_the_largest_setting_that_does(
    limited_role: LimitedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.connection_budget.TRY_EVERY", 0.02)
    await limited_role.limit(OWN + 7)
    for _ in range(3):
        await limited_role.stranger()
    with pytest.raises(BudgetExceeded, match=r"others use 3\. Set pool\.size to 4 or less"):
        await join_fleet(await limited_role.database(pool_size=8), MEMBER, asyncio.Event())
    with pytest.raises(BudgetExceeded):
        await join_fleet(await limited_role.database(pool_size=5), MEMBER, asyncio.Event())
    assert await join_fleet(await limited_role.database(pool_size=4), MEMBER, asyncio.Event()) is not None


async def test_none_fits(limited_role: LimitedRole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.connection_budget.TRY_EVERY", 0.02)
    await limited_role.limit(OWN)
    with pytest.raises(BudgetExceeded, match="is small enough"):
        await join_fleet(await limited_role.database(pool_size=1), MEMBER, asyncio.Event())


async def test_one_that_has_worked_before_waits_instead(
    limited_role: LimitedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's crowd must not end a fleet that was declared gone for a moment."""
    monkeypatch.setattr("penstock.engine.connection_budget.TRY_EVERY", 0.02)
    await limited_role.limit(OWN + 4)
    crowd = [await limited_role.stranger() for _ in range(3)]
    database = await limited_role.database()
    with capture_logs() as logs:
        joining = asyncio.create_task(join_fleet(database, MEMBER, asyncio.Event(), again=True))
        await until(lambda: bool(logs))
        await asyncio.sleep(0.1)  # more looks than it takes to give up
        assert not joining.done()
    for connection in crowd:
        await connection.close()
    assert await asyncio.wait_for(joining, 5) is not None


async def test_a_crowd_that_waits_for_itself_thins_out(
    limited_role: LimitedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of many that wait holds a few connections: together they would keep everybody from starting, for ever."""
    monkeypatch.setattr("penstock.engine.connection_budget.TRY_EVERY", 0.02)
    monkeypatch.setattr("penstock.engine.connection_budget.CROWD_PATIENCE", 0.1)
    await limited_role.limit(OWN + 4)
    database = await limited_role.database()
    crowd = [await limited_role.stranger() for _ in range(3)]
    for waiting in crowd:
        await waiting.execute("set application_name = 'penstock-worker elsewhere:7'")
    with pytest.raises(BudgetExceeded, match="but 3 are held by processes of Penstock that have not registered"):
        await join_fleet(database, MEMBER, asyncio.Event())
    await crowd[0].close()
    assert await join_fleet(database, MEMBER, asyncio.Event()) is not None


async def test_two_at_the_same_time_do_not_both_take_the_last_room(limited_role: LimitedRole) -> None:
    await limited_role.limit(5 * (OWN + 2))
    await limited_role.worker(4 * (OWN + 2))
    databases = [await limited_role.database() for _ in range(4)]
    member = replace(MEMBER, connections=OWN + 2)
    for _ in range(10):
        tries = await asyncio.gather(*(try_to_join(database, member) for database in databases))
        joined = [worker_id for worker_id, _ in tries if worker_id is not None]
        assert len(joined) == 1
        await leave(limited_role.admin, joined[0])  # type: ignore[arg-type]
