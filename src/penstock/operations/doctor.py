"""`doctor`: looks at everything that is known to go wrong, and says for each what it found and the command that mends it.

It reads, and changes nothing (but for bytes that a bucket keeps for a moment); it does not even migrate. It needs no worker.
Each finding is one function below; for each there is a test that causes it and one in which the advised command removes it
(tests/operations/test_doctor.py).
"""

import asyncio
import json
import shlex
from collections.abc import Iterator
from datetime import timedelta

from asyncpg import Record

from penstock.database import Session, reach_database, statements
from penstock.database.database import Address
from penstock.database.migrations import read_migrations
from penstock.database.migrations import sql as migrations_sql
from penstock.database.tenancy import is_guarded
from penstock.engine.census import Waiting, waiting_lanes
from penstock.engine.fleet import sql as fleet_sql
from penstock.engine.limits import LimitState, list_limits
from penstock.engine.queue import sql as queue_sql
from penstock.engine.schedules import overdue_schedules
from penstock.engine.wording import counted, listed, span
from penstock.operations.checking import examine_checks
from penstock.operations.finding import START, Finding
from penstock.operations.llms import examine_llms
from penstock.operations.storage import examine_blobs
from penstock.operations.upkeep import DEAD_ROWS, LONG_AFTER, examine_server
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
) -> list[Finding]:
    """Everything that is wrong, most fundamental first."""
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor")
        try:
            findings = [*await _examine_schema(session), *await _examine_notifications(reached.address)]
            if not any(finding.name.startswith("schema") for finding in findings):  # its tables may not be there
                findings += await _examine_engine(session, old_after)
                findings += await examine_server(
                    session, settings, pooled=reached.address.pooled, dead_rows=dead_rows, long_after=long_after
                )
        finally:
            session.terminate()
    return [*findings, *await examine_blobs(settings)]


async def _examine_engine(session: Session, old_after: timedelta) -> list[Finding]:
    workers = await fleet_sql.workers(session, gone_within=timedelta(0))
    lanes = await waiting_lanes(session)
    causes = await queue_sql.dead_by_cause(session, most=20)
    pauses = await queue_sql.pauses(session)
    overdue = await overdue_schedules(session)
    limits = await list_limits(session)
    return [
        *await _examine_guard(session),
        *_examine_fleet(workers),
        *_examine_pools(workers),
        *_examine_reported_notifications(workers),
        *_examine_unserved(lanes),
        *await examine_llms(session, lanes, workers),
        *_examine_age(lanes, workers, old_after),
        *_examine_dead(causes),
        *_examine_pauses(pauses),
        *_examine_schedules(overdue),
        *_examine_breakers(limits),
        *await examine_checks(session),
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
        return [Finding("notifications", said, _direct_url(), {"within_seconds": ECHO_PATIENCE})]
    finally:
        listener.terminate()
        sender.terminate()
    return []


def _direct_url() -> str:
    return "export PENSTOCK_DATABASE_DIRECT_URL=postgresql://…  # the same database, around any pooler; then restart"


# -- the fleet ----------------------------------------------------------------------------------------------------


def _examine_fleet(workers: list[Record]) -> Iterator[Finding]:
    alive = [worker for worker in workers if worker["silent_for"] <= worker["lease"]]
    if not alive:
        yield Finding("no-worker", "No worker is alive: nothing that is enqueued will run.", START)
    for worker in workers:
        if worker["silent_for"] > worker["lease"] / 2:
            said = (
                f"The worker {worker['name']} has been silent for {span(worker['silent_for'])} of its lease of "
                f"{span(worker['lease'])}, with {counted(worker['running'], 'job')} running: its process hangs, or cannot "
                f"reach the database. On {worker['host']}, end it; others take over."
            )
            # Nobody else is there who could notice its end: a new worker does.
            others = any(other["id"] != worker["id"] for other in alive)
            command = f"kill -KILL {worker['pid']}" if others else START
            yield Finding("silent-worker", said, command, {"worker": worker["id"], "running": worker["running"]})


def _examine_pools(workers: list[Record]) -> Iterator[Finding]:
    for worker in workers:
        load = json.loads(worker["load"])
        if load.get("pool_waiting", 0) > 0 and load["pool"] >= load["pool_size"]:
            said = (
                f"The pool of the worker {worker['name']} is exhausted: all {load['pool_size']} connections are in use, and "
                f"{load['pool_waiting']} wait for one. Hold them for a shorter time, or restart it with more."
            )
            command = f"PENSTOCK_POOL__SIZE={2 * load['pool_size']} {START}"
            yield Finding("pool-full", said, command, {"worker": worker["id"], **load})


def _examine_reported_notifications(workers: list[Record]) -> Iterator[Finding]:
    deaf = [worker["name"] for worker in workers if json.loads(worker["load"]).get("notified") is False]
    if deaf:
        said = f"Notifications do not arrive at {counted(len(deaf), 'worker')} ({listed(deaf)}): they poll."
        yield Finding("notifications", said, _direct_url(), {"workers": deaf})


# -- the jobs -----------------------------------------------------------------------------------------------------


def _examine_unserved(lanes: list[Waiting]) -> Iterator[Finding]:
    unserved = [lane for lane in lanes if not (lane.open or lane.paused or lane.shut)]
    for (queue, kind), waiting in _by_kind(unserved).items():
        depth = sum(lane.depth for lane in waiting)
        said = (
            f"No live worker serves the kind {kind} in the queue {queue}: {counted(depth, 'ready job')} wait for one."
        )
        evidence = {"queue": queue, "kind": kind, "ready": depth, "oldest": waiting[0].oldest_id}
        yield Finding("unserved-kind", said, START, evidence)


def _examine_age(lanes: list[Waiting], workers: list[Record], old_after: timedelta) -> Iterator[Finding]:
    old = [lane for lane in lanes if lane.open and lane.oldest_age > old_after]
    for (queue, kind), waiting in _by_kind(old).items():
        oldest = waiting[0]
        serving = [worker for worker in workers if kind in worker["kinds"] and queue in worker["queues"]]
        slots, running = sum(worker["slots"] for worker in serving), sum(worker["running"] for worker in serving)
        said = (
            f"The oldest ready job of the kind {kind}, {oldest.oldest_id}, is {span(oldest.oldest_age)} old: {running} of "
            f"{slots} slots are in use. Start another worker, or ask `penstock why {oldest.oldest_id}`."
        )
        evidence = {"queue": queue, "kind": kind, "job": oldest.oldest_id, "seconds": oldest.oldest_age.total_seconds()}
        yield Finding("old-job", said, START, evidence | {"slots": slots, "running": running})


def _by_kind(lanes: list[Waiting]) -> dict[tuple[str, str], list[Waiting]]:
    found: dict[tuple[str, str], list[Waiting]] = {}
    for lane in lanes:
        found.setdefault((lane.queue, lane.kind), []).append(lane)
    return found


def _examine_dead(causes: list[Record]) -> Iterator[Finding]:
    for cause in causes:
        died = "job has died" if cause["count"] == 1 else "jobs have died of the same cause"
        said = f"{cause['count']:,} {cause['kind']} {died}, {cause['class']}: {cause['message']}"
        command = f"penstock dead redrive --fingerprint {cause['fingerprint']}"
        if cause["unwanted"]:
            said += " (children of jobs that are over: nobody waits for them)"
            command = f"penstock dead discard --fingerprint {cause['fingerprint']} --reason 'its parent is over'"
        yield Finding("dead-jobs", said, command, dict(cause))


def _examine_pauses(pauses: list[Record]) -> Iterator[Finding]:
    for pause in pauses:
        since = f"{pause['since']:%Y-%m-%d %H:%M} UTC"
        said = f"The {pause['what']} {pause['name']} has been paused since {since}: {pause['reason']}"
        command = f"penstock resume --{pause['what']} {shlex.quote(pause['name'])}"
        yield Finding("paused", said, command, dict(pause))


def _examine_schedules(overdue: list[Record]) -> Iterator[Finding]:
    if overdue:
        longest = overdue[0]
        said = (
            f"{counted(len(overdue), 'schedule')} should have ticked and did not ({listed([row['name'] for row in overdue])}); "
            f"{longest['name']} is {span(longest['late'])} late. Every worker ticks: start one."
        )
        evidence = {"schedules": [dict(row) for row in overdue]}
        yield Finding("schedule-overdue", said, START, evidence)


def _examine_breakers(limits: list[LimitState]) -> Iterator[Finding]:
    for limit in limits:
        if limit.opened_at is not None:
            said = (
                f"The breaker of {limit.name} is {limit.breaker}. Nothing that needs it runs; it closes by itself when a probe "
                "succeeds. If the cause is mended, there is no need to wait:"
            )
            yield Finding("breaker-open", said, f"penstock limits close {limit.name}", limit.as_json())
