"""`doctor`: looks at everything that is known to go wrong, and says for each what it found and the command that mends it.

It reads, and changes nothing (but for bytes that a bucket keeps for a moment); it does not even migrate. `--fix` does what is
safe (fixing.py). It needs no worker. The parts look by noun: fleet, jobs, schedules, arriving, checking, holding, upkeep,
clashes, room, storage. What there is to find is listed in catalog.py; for each there is a test that causes it, and one in which
the advised command removes it.
"""

import asyncio
from datetime import timedelta

from penstock.database import Session, reach_database, statements
from penstock.database.database import Address
from penstock.database.migrations import read_migrations
from penstock.database.migrations import sql as migrations_sql
from penstock.database.tenancy import is_guarded
from penstock.engine.census import waiting_lanes
from penstock.engine.fleet import sql as fleet_sql
from penstock.engine.limits import list_limits
from penstock.engine.queue import sql as queue_sql
from penstock.engine.schedules import find_schedules, overdue_schedules
from penstock.engine.wording import listed
from penstock.operations.arriving import examine_sources
from penstock.operations.checking import examine_checks
from penstock.operations.clashes import examine_clashes
from penstock.operations.finding import Finding
from penstock.operations.fleet import (
    direct_url,
    examine_fleet,
    examine_lost,
    examine_pools,
    examine_reported_notifications,
)
from penstock.operations.holding import examine_invariants
from penstock.operations.jobs import (
    examine_age,
    examine_breakers,
    examine_dead,
    examine_limits,
    examine_pauses,
    examine_unserved,
)
from penstock.operations.llms import examine_llms
from penstock.operations.reading import examine_reading
from penstock.operations.room import LEAST_FREE, examine_room
from penstock.operations.schedules import examine_declared, examine_schedules
from penstock.operations.storage import examine_blobs
from penstock.operations.upkeep import DEAD_ROWS, LONG_AFTER, MANY_ROWS, examine_server
from penstock.settings import Settings

sql = statements(__file__)

ECHO = "penstock_doctor"
ECHO_PATIENCE = 2.0
OLD_AFTER = timedelta(minutes=5)


async def examine(
    settings: Settings,
    *,
    old_after: timedelta = OLD_AFTER,
    dead_rows: int = DEAD_ROWS,
    long_after: timedelta = LONG_AFTER,
    many_rows: int = MANY_ROWS,
    least_free: int = LEAST_FREE,
) -> list[Finding]:
    """Everything that is wrong, most fundamental first."""
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor")
        try:
            findings = [*await _examine_schema(session), *await _examine_notifications(reached.address)]
            if not any(finding.name.startswith("schema") for finding in findings):  # its tables may not be there
                findings += await _examine_engine(session, old_after)
                findings += await examine_sources(session, settings)
                findings += await examine_reading(session)
                findings += await examine_invariants(session)
                findings += await examine_checks(session)
                findings += await examine_server(
                    session,
                    settings,
                    pooled=reached.address.pooled,
                    dead_rows=dead_rows,
                    long_after=long_after,
                    many_rows=many_rows,
                )
                findings += await examine_clashes(session, settings)
                findings += await examine_room(session, settings, least_free=least_free)
        finally:
            session.terminate()
    return [*findings, *await examine_blobs(settings)]


async def examine_session(session: Session, settings: Settings, *, pooled: bool = False) -> list[Finding]:
    """The part that costs no more than a few statements, on a connection that is there: for a page that is asked often."""
    return [
        *await _examine_engine(session, OLD_AFTER),
        *await examine_sources(session, settings),
        *await examine_server(session, settings, pooled=pooled),
    ]


async def _examine_engine(session: Session, old_after: timedelta) -> list[Finding]:
    workers = await fleet_sql.workers(session, gone_within=timedelta(0))
    lanes = await waiting_lanes(session)
    limits = await list_limits(session)
    return [
        *await _examine_guard(session),
        *examine_fleet(workers),
        *await examine_lost(session),
        *examine_pools(workers),
        *examine_reported_notifications(workers),
        *examine_unserved(lanes),
        *await examine_llms(session, lanes, workers),
        *examine_age(lanes, workers, old_after),
        *examine_dead(await queue_sql.dead_by_cause(session, most=20)),
        *examine_pauses(await queue_sql.pauses(session)),
        *examine_schedules(await overdue_schedules(session)),
        *examine_declared(await find_schedules(session, most=1000)),
        *examine_breakers(limits),
        *examine_limits(limits),
    ]


# -- the database -------------------------------------------------------------------------------------------------


async def _examine_schema(session: Session) -> list[Finding]:
    known = [migration.name for migration in read_migrations()]
    there = await migrations_sql.has_registry.value(session)
    found = max((row["number"] for row in await migrations_sql.applied_migrations(session)), default=0) if there else 0
    evidence = {"schema": found, "code": len(known)}
    if found < len(known):
        missing = listed(known[found:])
        said = f"The database is at schema {found}, and this Penstock needs {len(known)}: {missing} is missing."
        return [Finding("schema-behind", said, "penstock db migrate", evidence)]
    if found > len(known) + 1:  # one step newer is what a rolling deploy looks like
        said = (
            f"The database is at schema {found}, and this Penstock knows {len(known)}: a newer release has migrated it."
        )
        return [Finding("schema-ahead", said, "pip install --upgrade penstock", evidence)]
    return []


async def _examine_guard(session: Session) -> list[Finding]:
    """Whether the database itself keeps tenants apart, below the conditions of the statements."""
    if await is_guarded(session):
        return []
    role = await session.fetchval("select quote_ident(current_user)")
    said = (
        "Row-level security is off, because this user may not create roles: tenants are kept apart by the application alone. "
        "Let a superuser run: create role penstock_fleet nologin; create role penstock_request nologin; grant penstock_fleet, "
        f"penstock_request to {role};"
    )
    return [Finding("unguarded", said, "penstock db psql -c 'select penstock.guard_all()'", {"user": role})]


async def _examine_notifications(address: Address) -> list[Finding]:
    """Sent on the ordinary way, expected on the direct one, as workers do it."""
    arrived = asyncio.Event()
    listener = await address.open_session("doctor", direct=True)
    sender = await address.open_session("doctor")
    try:
        await listener.add_listener(ECHO, lambda *_: arrived.set())
        await sql.send_echo.value(sender, channel=ECHO)
        async with asyncio.timeout(ECHO_PATIENCE):
            await arrived.wait()
    except TimeoutError:
        said = f"A notification did not arrive within {ECHO_PATIENCE:.0f} s: workers poll, and jobs start late."
        return [Finding("notifications", said, direct_url(), {"within_seconds": ECHO_PATIENCE})]
    finally:
        listener.terminate()
        sender.terminate()
    return []
