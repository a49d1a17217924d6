"""How many connections the fleet may open: who fits, who waits, and who is told what would fit."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from penstock import Context, Penstock
from penstock.database import Database, open_database
from penstock.database.migrations import grant_use
from penstock.engine.budget import (
    OWN_SESSIONS,
    Budget,
    Limit,
    connections_needed,
    join_fleet,
    read_budget,
    try_to_join,
)
from penstock.engine.fleet import Member, leave
from penstock.engine.fleet import sql as fleet_sql
from penstock.errors import BudgetExceeded
from penstock.settings import DatabaseUrl, PoolSettings, Settings
from tests.waiting import until

OWN = connections_needed(0, pooled=False)
MEMBER = Member(queues=["default"], kinds=["nothing"], slots=1, lease=timedelta(seconds=15))


@dataclass
class Tenant:
    """A role of its own with a small limit, so that tests that run at the same time do not count."""

    role: str
    url: DatabaseUrl
    admin: "asyncpg.Connection[asyncpg.Record]"
    home: Path
    stack: AsyncExitStack

    async def limit(self, connections: int) -> None:
        await self.admin.execute(f"alter role {self.role} connection limit {connections}")

    async def database(self, pool_size: int = 2) -> Database:
        pool = PoolSettings(size=pool_size, warm=1, step=1)
        return await self.stack.enter_async_context(
            open_database(Settings(home=self.home, database_url=self.url, pool=pool), role="worker")
        )

    async def stranger(self) -> "asyncpg.Connection[asyncpg.Record]":
        """A session of some other program."""
        connection = await asyncpg.connect(self.url.reveal())
        self.stack.callback(connection.terminate)
        return connection

    async def worker(self, connections: int, name: str = "elsewhere:1") -> int:
        """A worker that lives on another machine: a row, and the lock that shows that it lives."""
        host, pid = name.split(":")
        member = replace(MEMBER, connections=connections, host=host, pid=int(pid))
        worker_id: int = await fleet_sql.register_worker.value(
            self.admin, name=member.name, host=host, pid=int(pid), version="1", queues=member.queues,
            kinds=member.kinds, slots=1, lease=member.lease, connections=connections,
        )  # fmt: skip
        assert await fleet_sql.hold_lock.value(self.admin, worker_id=worker_id)
        return worker_id


@pytest.fixture
async def tenant(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Tenant]:
    async with tenancy(database_url, tmp_path) as made:
        yield made


@asynccontextmanager
async def tenancy(database_url: DatabaseUrl, home: Path) -> AsyncIterator[Tenant]:
    role, password = f"tenant_{os.getpid()}_{secrets.token_hex(4)}", secrets.token_hex(8)
    admin = await asyncpg.connect(database_url.reveal())
    await admin.execute(f"create role {role} login password '{password}'")
    await grant_use(admin, role=role)  # type: ignore[arg-type]
    text = database_url.reveal().replace(f"//penstock:{database_url.password}@", f"//{role}:{password}@")
    try:
        async with AsyncExitStack() as stack:
            yield Tenant(role, DatabaseUrl(text), admin, home, stack)
    finally:
        await admin.execute(f"drop owned by {role}")
        await admin.execute(f"drop role {role}")
        await admin.close()


async def budget_of(database: Database, need: int) -> Budget:
    async with database.pool.session() as session:
        return await read_budget(session, need)


# -- the rule ---------------------------------------------------------------------------------------------------------


def test_the_tightest_limit_decides() -> None:
    server, role = Limit("max_connections", 97, 20, 20), Limit("the role's limit", 40, 2, 1)
    budget = Budget(13, (server, role), (("a:1", 13), ("b:2", 13)))
    assert (budget.promised, budget.free, budget.fits) == (26, 12, False)
    assert budget.possible, "the other two may leave"
    assert budget.largest_pool == 39 - OWN
    assert "13 are needed, but 12 are left: the role's limit is 40, 2 workers may open 26" in budget.shortage


def test_what_stays_can_never_be_had() -> None:
    budget = Budget(13, (Limit("max_connections", 20, 10, 8),), ())
    assert not budget.possible
    assert f"Set pool.size to {12 - OWN} or less" in budget.refusal
    assert "no pool.size is small enough" in replace(budget, limits=(Limit("max_connections", 20, 20, 15),)).refusal


def test_behind_a_pooler_only_the_direct_sessions_count() -> None:
    assert connections_needed(8, pooled=True) == connections_needed(8, pooled=False) - 8
    budget = Budget(OWN, (Limit("max_connections", 20, 20, 18),), (), pooled=True)
    assert "pool.size to" not in budget.refusal


# -- what is counted --------------------------------------------------------------------------------------------------


async def test_the_limits_are_those_of_the_server(tenant: Tenant) -> None:
    database = await tenant.database()
    [server] = (await budget_of(database, 1)).limits
    most, reserved = await tenant.admin.fetchrow(  # type: ignore[misc]
        "select current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int"
    )
    assert server.size == most - reserved, "none is set for the role and the database"
    await tenant.limit(30)
    name = await tenant.admin.fetchval("select current_database()")
    await tenant.admin.execute(f"alter database {name} connection limit 50")
    [_, role, here] = (await budget_of(database, 1)).limits
    assert (role.size, here.size) == (30, 50)
    assert (tenant.role in role.name, name in here.name) == (True, True)


async def test_a_superuser_is_not_bound_by_a_limit_of_its_role_or_database(database: Database) -> None:
    async with database.pool.session() as session:
        name = await session.fetchval("select current_database()")
        await session.execute(f"alter database {name} connection limit 3")
    [server] = (await budget_of(database, 1)).limits
    assert "max_connections" in server.name


async def test_sessions_are_counted_once(tenant: Tenant) -> None:
    await tenant.limit(30)
    database = await tenant.database()
    assert (await budget_of(database, 1)).limits[1].others == 0, "our own are our need"
    await tenant.stranger()
    await tenant.stranger()
    other = await tenant.stranger()
    await other.execute("set application_name = 'penstock-worker elsewhere:1'")
    role = (await budget_of(database, 1)).limits[1]
    assert (role.others, role.staying) == (3, 2), "a worker's sessions are others' until it has registered, and may go"
    worker = await tenant.worker(10)
    budget = await budget_of(database, 1)
    assert (budget.limits[1].others, budget.promised, budget.free) == (2, 10, 18), "then it counts with its most"
    await leave(tenant.admin, worker)  # type: ignore[arg-type]
    budget = await budget_of(database, 1)
    assert (budget.limits[1].others, budget.promised) == (3, 0), "gone, but its session is still there"


async def test_what_a_stranger_may_not_see_is_counted(tenant: Tenant) -> None:
    """Other people's sessions show neither type nor state to an ordinary role."""
    database = await tenant.database()
    async with database.pool.session() as session:
        hidden = await session.fetchval(
            "select count(*) from pg_stat_activity where backend_type is null and datname = current_database()"
        )
    assert hidden >= 1, "the administrator's"
    name = await tenant.admin.fetchval("select current_database()")
    await tenant.admin.execute(f"alter database {name} connection limit 50")
    assert (await budget_of(database, 1)).limits[1].others == hidden


async def test_a_release_that_did_not_say_counts_with_what_it_has(tenant: Tenant) -> None:
    await tenant.limit(30)
    database = await tenant.database()
    old = await tenant.stranger()
    await old.execute("set application_name = 'penstock-worker'")
    await tenant.worker(0)
    budget = await budget_of(database, 1)
    assert (budget.promised, budget.limits[1].others, budget.limits[1].staying) == (0, 1, 0)


async def test_a_worker_opens_no_more_than_it_needs(tenant: Tenant) -> None:
    """Every connection of the pool in use, and new lanes from many handlers at once."""
    app = Penstock(database_url=tenant.url, home=tenant.home, pool={"size": 2})
    need = connections_needed(2, pooled=False)
    done, most = 0, 0

    @app.job()
    async def crowd(ctx: Context, n: int) -> None:
        nonlocal done
        await app.enqueue_many([last()], share=f"share {n}")
        done += 1

    @app.job()
    async def last(ctx: Context) -> None: ...

    async with app:
        await app.enqueue_many([crowd(n=n) for n in range(30)])
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(concurrency=30, stop=stop))
        async with asyncio.timeout(20):
            while done < 30:
                now = await tenant.admin.fetchval(
                    "select count(*) from pg_stat_activity where usename = $1", tenant.role
                )
                most = max(most, now)
        assert await tenant.admin.fetchval("select connections from penstock.workers") == need
        stop.set()
        await working
    assert len(OWN_SESSIONS) + 1 <= most <= need


# -- joining ----------------------------------------------------------------------------------------------------------


async def test_what_fits_registers(tenant: Tenant) -> None:
    await tenant.limit(2 * (OWN + 2))
    await tenant.worker(OWN + 2)
    database = await tenant.database()
    worker_id = await join_fleet(database, MEMBER, asyncio.Event())
    [row] = await tenant.admin.fetch("select connections from penstock.workers where id = $1", worker_id)
    assert row["connections"] == OWN + 2


async def test_what_does_not_fit_now_waits_until_another_leaves(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.budget.LOOK_EVERY", 0.02)
    await tenant.limit(2 * (OWN + 2) - 1)
    other = await tenant.worker(OWN + 2)
    database = await tenant.database()
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
    await leave(tenant.admin, other)  # type: ignore[arg-type]
    assert await asyncio.wait_for(joining, 5) is not None


async def test_the_room_of_the_dead_is_taken_though_nobody_is_left_to_declare_them_gone(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.budget.LOOK_EVERY", 0.02)
    await tenant.limit(OWN + 2)
    dead = await tenant.worker(OWN + 2)
    await tenant.admin.execute("select pg_advisory_unlock_all()")  # its process has ended
    database = await tenant.database()
    assert await asyncio.wait_for(join_fleet(database, MEMBER, asyncio.Event()), 5) is not None
    assert (
        await tenant.admin.fetchval("select gone_why from penstock.workers where id = $1", dead) == "its process ended"
    )


async def test_a_stop_ends_the_waiting(tenant: Tenant) -> None:
    await tenant.limit(OWN + 2)
    await tenant.worker(OWN + 2)
    database = await tenant.database()
    stop = asyncio.Event()
    with capture_logs() as logs:
        joining = asyncio.create_task(join_fleet(database, MEMBER, stop))
        await until(lambda: bool(logs))
        stop.set()
        assert await asyncio.wait_for(joining, 0.5) is None, "at once, and not with the next look"
    assert await tenant.admin.fetchval("select count(*) from penstock.workers") == 1


async def test_what_can_never_fit_is_told_the_largest_setting_that_does(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.budget.LOOK_EVERY", 0.02)
    await tenant.limit(OWN + 7)
    for _ in range(3):
        await tenant.stranger()
    with pytest.raises(BudgetExceeded, match=r"others use 3\. Set pool\.size to 4 or less"):
        await join_fleet(await tenant.database(pool_size=8), MEMBER, asyncio.Event())
    with pytest.raises(BudgetExceeded):
        await join_fleet(await tenant.database(pool_size=5), MEMBER, asyncio.Event())
    assert await join_fleet(await tenant.database(pool_size=4), MEMBER, asyncio.Event()) is not None


async def test_none_fits(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.budget.LOOK_EVERY", 0.02)
    await tenant.limit(OWN)
    with pytest.raises(BudgetExceeded, match="is small enough"):
        await join_fleet(await tenant.database(pool_size=1), MEMBER, asyncio.Event())


async def test_one_that_has_worked_before_waits_instead(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's crowd must not end a fleet that was declared gone for a moment."""
    monkeypatch.setattr("penstock.engine.budget.LOOK_EVERY", 0.02)
    await tenant.limit(OWN + 4)
    crowd = [await tenant.stranger() for _ in range(3)]
    database = await tenant.database()
    with capture_logs() as logs:
        joining = asyncio.create_task(join_fleet(database, MEMBER, asyncio.Event(), again=True))
        await until(lambda: bool(logs))
        await asyncio.sleep(0.1)  # more looks than it takes to give up
        assert not joining.done()
    for connection in crowd:
        await connection.close()
    assert await asyncio.wait_for(joining, 5) is not None


async def test_a_crowd_that_waits_for_itself_thins_out(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many that wait holds a few connections: together they would keep everybody from starting, for ever."""
    monkeypatch.setattr("penstock.engine.budget.LOOK_EVERY", 0.02)
    monkeypatch.setattr("penstock.engine.budget.CROWD_PATIENCE", 0.1)
    await tenant.limit(OWN + 4)
    database = await tenant.database()
    crowd = [await tenant.stranger() for _ in range(3)]
    for waiting in crowd:
        await waiting.execute("set application_name = 'penstock-worker elsewhere:7'")
    with pytest.raises(BudgetExceeded, match="but 3 are held by processes of Penstock that have not registered"):
        await join_fleet(database, MEMBER, asyncio.Event())
    await crowd[0].close()
    assert await join_fleet(database, MEMBER, asyncio.Event()) is not None


async def test_two_at_the_same_time_do_not_both_take_the_last_room(tenant: Tenant) -> None:
    await tenant.limit(5 * (OWN + 2))
    await tenant.worker(4 * (OWN + 2))
    databases = [await tenant.database() for _ in range(4)]
    member = replace(MEMBER, connections=OWN + 2)
    for _ in range(10):
        tries = await asyncio.gather(*(try_to_join(database, member) for database in databases))
        joined = [worker_id for worker_id, _ in tries if worker_id is not None]
        assert len(joined) == 1
        await leave(tenant.admin, joined[0])  # type: ignore[arg-type]
