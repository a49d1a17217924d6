"""`penstock doctor`: examines everything that is known to go wrong; each finding comes with the command that fixes it.

    doctor.py                  the schema, row-level security and notifications; it runs the parts below in this order
    engine.py                  workers, jobs, limits and schedules
    external.py                sources of documents and language models
    integrity.py               invariants and checks of documents
    server.py  settings.py     the PostgreSQL server; settings that do not fit it, the machine or the other workers
    disk.py                    disks and the blob store
    process.py                 the faults of one process, for its `/health/ready`
    acknowledgements.py        findings that an operator knows of
    fixes.py                   `--fix`: the fixes that are safe

Doctor needs no worker and only reads, except for a few bytes that it writes to a bucket for a moment; it does not even migrate.
`penstock status`, the API and the pages show the same findings, without those that need connections of their own.
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
from penstock.documents import PREPARE, UnreadDocument, list_unread
from penstock.engine import count_serving, find_schedules, list_workers, overdue_schedules, pauses
from penstock.engine.inspect import waiting_lanes
from penstock.engine.limits import list_limits
from penstock.operations.doctor import engine
from penstock.operations.doctor.disk import LEAST_FREE, examine_blobs, examine_disks
from penstock.operations.doctor.external import (
    examine_facts,
    examine_llms,
    examine_sources,
    examine_unserved_sources,
    is_source_lane,
)
from penstock.operations.doctor.finding import Finding, apply_acknowledgements, by_urgency
from penstock.operations.doctor.integrity import examine_documents, examine_invariants
from penstock.operations.doctor.server import DEAD_ROWS, LONG_AFTER, MANY_ROWS, examine_server
from penstock.operations.doctor.settings import examine_settings
from penstock.settings import Settings
from penstock.text import listed

sql = statements(__file__)

ECHO = "penstock_doctor"
ECHO_PATIENCE = 2.0
OLD_AFTER = timedelta(minutes=5)
MOST_UNREAD = 10  # documents that are listed


async def examine(
    settings: Settings,
    *,
    old_after: timedelta = OLD_AFTER,
    dead_rows: int = DEAD_ROWS,
    long_after: timedelta = LONG_AFTER,
    many_rows: int = MANY_ROWS,
    least_free: int = LEAST_FREE,
) -> list[Finding]:
    """All findings, the most urgent first."""
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor")
        try:
            findings = [*await _examine_schema(session), *await _examine_notifications(reached.address)]
            blobs = await examine_blobs(settings)
            if any(finding.name.startswith("schema") for finding in findings):  # the tables may not be there
                return by_urgency([*findings, *blobs])
            findings += await _examine_engine(session, old_after)
            findings += await examine_sources(session, settings)
            findings += await _examine_stored(session, settings)
            findings += await examine_server(
                session,
                settings,
                pooled=reached.address.pooled,
                dead_rows=dead_rows,
                long_after=long_after,
                many_rows=many_rows,
            )
            findings += await examine_disks(session, settings, least_free=least_free)
            return by_urgency(await apply_acknowledgements(session, [*findings, *blobs]))
        finally:
            session.terminate()


async def read_unread_everywhere(settings: Settings, *, most: int = MOST_UNREAD) -> tuple[list[UnreadDocument], int]:
    """The documents of all tenants that could not be read, the newest first, and how many there are."""
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor")
        try:
            schema = await _examine_schema(session)  # its tables may not be there
            return ([], 0) if schema else await list_unread(session, most=most)
        finally:
            session.terminate()


async def examine_session(session: Session, settings: Settings, *, pooled: bool = False) -> list[Finding]:
    """The findings that take only statements on an open connection, and the disks: for a page that is loaded often.

    Without those about the schema, notifications and a bucket.
    """
    findings = [
        *await _examine_engine(session, OLD_AFTER),
        *await examine_sources(session, settings),
        *await _examine_stored(session, settings),
        *await examine_server(session, settings, pooled=pooled),
        *await examine_disks(session, settings),
        *([] if settings.blobs.url else await examine_blobs(settings)),
    ]
    return by_urgency(await apply_acknowledgements(session, findings))


async def _examine_stored(session: Session, settings: Settings) -> list[Finding]:
    return [
        *await examine_facts(session),
        *await examine_invariants(session),
        *await examine_documents(session),
        *await examine_settings(session, settings),
    ]


async def _examine_engine(session: Session, old_after: timedelta) -> list[Finding]:
    workers = await list_workers(session)
    lanes = await waiting_lanes(session)
    limits = await list_limits(session)
    alive = sum(worker.status != "silent" for worker in workers)
    return [
        *await _examine_guard(session),
        *engine.examine_serving(
            alive, await count_serving(session, PREPARE), documents=await sql.has_collections.value(session)
        ),
        *engine.examine_silent(workers),
        *await engine.examine_lost(session),
        *engine.examine_pools(workers),
        *engine.examine_reported_notifications(workers),
        *engine.examine_unserved([lane for lane in lanes if not is_source_lane(lane)]),
        *examine_unserved_sources(lanes, workers),
        *await examine_llms(session, lanes, workers),
        *engine.examine_age(lanes, workers, old_after),
        *await engine.examine_dead(session),
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
    if found > len(known) + 1:  # one step newer is a rolling deploy
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
        "Row-level security is off, because this user may not create roles: only the application separates tenants. "
        "As a superuser, run: create role penstock_fleet nologin; create role penstock_request nologin; grant penstock_fleet, "
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
