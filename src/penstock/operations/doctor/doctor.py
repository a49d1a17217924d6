"""`penstock doctor`: examines everything that is known to go wrong; each finding comes with the command that fixes it.

    doctor.py                  the schema, row-level security and notifications; it runs the parts below in this order
    engine.py                  workers, jobs, limits and schedules
    external.py                sources of documents and language models
    integrity.py               invariants and checks of documents
    server.py  settings.py     the PostgreSQL server; settings that do not fit it, the machine or the other workers
    disk.py                    disks and the blob store
    fixes.py                   `--fix`: the fixes that are safe

Doctor needs no worker and only reads, except for a few bytes that it writes to a bucket for a moment; it does not even migrate.
tools/findings.py lists all findings. For each there is a test that causes it, and one in which the advised command removes it.
"""

import asyncio
from datetime import timedelta

from penstock.database import (
    DatabaseAddress,
    Session,
    is_guarded,
    reach_database,
    read_migrations,
    schema_number,
    statements,
)
from penstock.engine import find_schedules, list_workers, overdue_schedules, pauses
from penstock.engine.inspect import dead_by_cause, waiting_lanes
from penstock.engine.limits import list_limits
from penstock.operations.doctor import engine
from penstock.operations.doctor.disk import LEAST_FREE, examine_blobs, examine_disks
from penstock.operations.doctor.engine import (
    examine_fleet,
    examine_lost,
    examine_pools,
    examine_reported_notifications,
    examine_unserved,
)
from penstock.operations.doctor.external import (
    examine_facts,
    examine_llms,
    examine_sources,
    examine_unserved_sources,
    is_source_lane,
)
from penstock.operations.doctor.finding import Finding
from penstock.operations.doctor.integrity import examine_documents, examine_invariants
from penstock.operations.doctor.server import DEAD_ROWS, LONG_AFTER, MANY_ROWS, examine_server
from penstock.operations.doctor.settings import examine_settings
from penstock.settings import Settings
from penstock.text import listed

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
    """All findings, the most fundamental first."""
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor")
        try:
            findings = [*await _examine_schema(session), *await _examine_notifications(reached.address)]
            if not any(finding.name.startswith("schema") for finding in findings):  # its tables may not be there
                findings += await _examine_engine(session, old_after)
                findings += await examine_sources(session, settings)
                findings += await examine_facts(session)
                findings += await examine_invariants(session)
                findings += await examine_documents(session)
                findings += await examine_server(
                    session,
                    settings,
                    pooled=reached.address.pooled,
                    dead_rows=dead_rows,
                    long_after=long_after,
                    many_rows=many_rows,
                )
                findings += await examine_settings(session, settings)
                findings += await examine_disks(session, settings, least_free=least_free)
        finally:
            session.terminate()
    return [*findings, *await examine_blobs(settings)]


async def examine_session(session: Session, settings: Settings, *, pooled: bool = False) -> list[Finding]:
    """The findings that take only a few statements, on an open connection: for a page that is loaded often."""
    return [
        *await _examine_engine(session, OLD_AFTER),
        *await examine_sources(session, settings),
        *await examine_server(session, settings, pooled=pooled),
    ]


async def _examine_engine(session: Session, old_after: timedelta) -> list[Finding]:
    workers = await list_workers(session)
    lanes = await waiting_lanes(session)
    limits = await list_limits(session)
    return [
        *await _examine_guard(session),
        *examine_fleet(workers),
        *await examine_lost(session),
        *examine_pools(workers),
        *examine_reported_notifications(workers),
        *examine_unserved([lane for lane in lanes if not is_source_lane(lane)]),
        *examine_unserved_sources(lanes, workers),
        *await examine_llms(session, lanes, workers),
        *engine.examine_age(lanes, workers, old_after),
        *engine.examine_dead(await dead_by_cause(session, 20)),
        *engine.examine_pauses(await pauses(session)),
        *engine.examine_schedules(await overdue_schedules(session)),
        *engine.examine_declared(await find_schedules(session, most=1000)),
        *engine.examine_breakers(limits),
        *engine.examine_limits(limits),
    ]


# -- the database -------------------------------------------------------------------------------------------------


async def _examine_schema(session: Session) -> list[Finding]:
    known = [migration.name for migration in read_migrations()]
    found = await schema_number(session)
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
    """Whether row-level security separates tenants, in addition to the conditions of the statements."""
    if await is_guarded(session):
        return []
    role = await session.fetchval("select quote_ident(current_user)")
    said = (
        "Row-level security is off, because this user may not create roles: tenants are kept apart by the application alone. "
        "Let a superuser run: create role penstock_fleet nologin; create role penstock_request nologin; grant penstock_fleet, "
        f"penstock_request to {role};"
    )
    return [Finding("unguarded", said, "penstock db psql -c 'select penstock.guard_all()'", {"user": role})]


async def _examine_notifications(address: DatabaseAddress) -> list[Finding]:
    """Send through the pooler, if there is one, and listen on a direct connection, as workers do."""
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
        return [Finding("notifications", said, engine.DIRECT_URL, {"within_seconds": ECHO_PATIENCE})]
    finally:
        listener.terminate()
        sender.terminate()
    return []
