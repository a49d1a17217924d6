"""Findings about the engine: its workers, their jobs, the limits that they share, and the schedules.

Workers: none is running or serves documents, one is silent, many were lost, a pool is exhausted, notifications do not arrive.
Jobs: kinds without a worker, and old, dead and paused jobs. Limits that are full or whose breaker is open; schedules that are
overdue, paused or retired.
"""

import shlex
from collections.abc import Iterator
from datetime import timedelta

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents import PREPARE, PREPARE_PACKET, UNREADABLE
from penstock.engine import ScheduleState, WorkerState
from penstock.engine.inspect import LaneWait, WaitingLane, dead_by_cause
from penstock.engine.limits import LimitState
from penstock.operations.doctor.finding import START, WORKER, Finding
from penstock.text import counted, listed, span, utc_relative

sql = statements(__file__)

DOCUMENT_KINDS = (PREPARE, PREPARE_PACKET, "ocr_pages")  # kinds of jobs that read documents
MOST_CAUSES = 20  # of dead jobs
LOST_IN_AN_HOUR = 3  # workers: more than a deploy or a spot machine explains
DIRECT_URL = (
    "export PENSTOCK_DATABASE_DIRECT_URL='postgresql://…'  # the same database, around any pooler; then restart"
)


# -- workers ------------------------------------------------------------------------------------------------------


def examine_serving(alive: int, serving: int, *, documents: bool) -> Iterator[Finding]:
    """Whether any worker is alive and, if there may be `documents` to prepare, whether one is serving them."""
    advice = " Start one with `penstock worker`, or everything with `penstock up`." if documents else ""
    if not alive:
        said = f"No worker is running: nothing that is enqueued will run.{advice}"
        yield Finding("no-worker", said, WORKER if documents else START)
    elif documents and not serving:
        said = f"No running worker serves documents: uploads are accepted and wait.{advice}"
        yield Finding("no-document-worker", said, WORKER)


def examine_silent(workers: list[WorkerState]) -> Iterator[Finding]:
    alive = [worker for worker in workers if worker.status != "silent"]
    for worker in workers:
        if worker.silent_for > worker.lease / 2:
            said = (
                f"The worker {worker.name} has been silent for {span(worker.silent_for)} of its lease of "
                f"{span(worker.lease)}, with {counted(worker.running, 'job')} running: its process hangs, or cannot "
                f"reach the database. End it on {worker.host}; other workers take over its jobs."
            )
            # Without another running worker none would notice its end: a new one does.
            others = any(other.id != worker.id for other in alive)
            command = f"kill -KILL {worker.pid}" if others else START
            yield Finding(
                "silent-worker", said, command, {"worker": worker.id, "running": worker.running}, subject=worker.name
            )


async def examine_lost(session: Session) -> list[Finding]:
    """Workers that ended without deregistering."""
    row = await sql.lost_lately.first(session)
    if row is None or row["lost"] <= LOST_IN_AN_HOUR:
        return []
    said = (
        f"{counted(row['lost'], 'worker')} were lost in the last hour, the last one {row['last_name']} ({row['last_why']}): "
        "they are killed, run out of memory, or hang. `penstock fleet` lists them; their logs show the cause. Their jobs run "
        "again. When the cause is fixed, acknowledge it, and only new losses are reported:"
    )
    return [
        Finding("workers-lost", said, "penstock doctor acknowledge workers-lost", dict(row), subject=row["last_name"])
    ]


def examine_pools(workers: list[WorkerState]) -> Iterator[Finding]:
    for worker in workers:
        load = worker.load
        if load.get("pool_waiting", 0) > 0 and load["pool"] >= load["pool_size"]:
            said = (
                f"The pool of the worker {worker.name} is exhausted: all {load['pool_size']} connections are in use, and "
                f"{load['pool_waiting']} calls wait. Hold connections for a shorter time, or restart it with a larger pool."
            )
            command = f"PENSTOCK_POOL__SIZE={2 * load['pool_size']} {START}"
            yield Finding("pool-full", said, command, {"worker": worker.id, **load}, subject=worker.name)


def examine_reported_notifications(workers: list[WorkerState]) -> Iterator[Finding]:
    deaf = [worker.name for worker in workers if worker.load.get("notified") is False]
    if deaf:
        said = f"Notifications do not reach {counted(len(deaf), 'worker')} ({listed(deaf)}): they poll, and jobs start late."
        yield Finding("notifications", said, DIRECT_URL, {"workers": deaf}, subject="workers")


# -- jobs ---------------------------------------------------------------------------------------------------------


def examine_unserved(lanes: list[WaitingLane]) -> Iterator[Finding]:
    unserved = [lane for lane in lanes if not (lane.open or lane.paused or lane.shut)]
    for (queue, kind), waiting in _by_kind(unserved).items():
        ready = sum(lane.ready for lane in waiting)
        waits = f"{counted(ready, 'ready job')} {'waits' if ready == 1 else 'wait'}"
        said = f"No running worker serves the kind {kind} in the queue {queue}: {waits} for one."
        evidence = {"queue": queue, "kind": kind, "ready": ready, "oldest": waiting[0].oldest_id}
        command = WORKER if kind in DOCUMENT_KINDS else START
        yield Finding("unserved-kind", said, command, evidence, subject=f"{queue}/{kind}")


def examine_age(lanes: list[WaitingLane], workers: list[WorkerState], old_after: timedelta) -> Iterator[Finding]:
    old = [lane for lane in lanes if lane.open and lane.oldest_age > old_after]
    for (queue, kind), waiting in _by_kind(old).items():
        oldest = waiting[0]
        serving = [worker for worker in workers if kind in worker.kinds and queue in worker.queues]
        slots, running = sum(worker.slots for worker in serving), sum(worker.running for worker in serving)
        said = (
            f"The oldest ready job of the kind {kind}, {oldest.oldest_id}, is {span(oldest.oldest_age)} old: {running} of "
            f"{slots} slots are in use. Start another worker, or see `penstock why {oldest.oldest_id}`."
        )
        evidence = {"queue": queue, "kind": kind, "job": oldest.oldest_id, "seconds": oldest.oldest_age.total_seconds()}
        command = WORKER if kind in DOCUMENT_KINDS else START
        evidence |= {"slots": slots, "running": running}
        yield Finding("old-job", said, command, evidence, subject=f"{queue}/{kind}")


def examine_waits(waits: list[LaneWait], stale_after: timedelta) -> Iterator[Finding]:
    """The same for readiness, by a cheaper statement: the job that has waited longest for its first try."""
    longest = waits[0] if waits else None
    if longest is not None and longest.seconds > stale_after.total_seconds():
        said = (
            f"A ready job of the kind {longest.kind} has waited for {span(timedelta(seconds=longest.seconds))}, longer than "
            f"{span(stale_after)} (api.stale_after): `penstock doctor` shows the cause."
        )
        evidence = {"queue": longest.queue, "kind": longest.kind, "seconds": longest.seconds}
        yield Finding("old-job", said, START, evidence, subject=f"{longest.queue}/{longest.kind}")


def _by_kind(lanes: list[WaitingLane]) -> dict[tuple[str, str], list[WaitingLane]]:
    found: dict[tuple[str, str], list[WaitingLane]] = {}
    for lane in lanes:
        found.setdefault((lane.queue, lane.kind), []).append(lane)
    return found


async def examine_dead(session: Session) -> list[Finding]:
    """By cause. Documents that cannot be read are left out: a redrive cannot help, and they have a list of their own."""
    causes = await dead_by_cause(session, MOST_CAUSES, without=UNREADABLE, kinds=DOCUMENT_KINDS)
    return [_tell_dead(cause) for cause in causes]


def _tell_dead(cause: Record) -> Finding:
    failed = "job has failed permanently" if cause["count"] == 1 else "jobs have failed permanently for the same reason"
    said = f"{cause['count']:,} {cause['kind']} {failed}, {cause['class']}: {cause['message']}"
    command = f"penstock dead redrive --fingerprint {cause['fingerprint']}"
    if cause["unwanted"]:
        said += " (children of jobs that are over: no job waits for them)"
        command = f"penstock dead discard --fingerprint {cause['fingerprint']} --reason 'its parent is over'"
    return Finding("dead-jobs", said, command, dict(cause), subject=cause["fingerprint"], count=cause["count"])


def examine_pauses(pauses: list[Record]) -> Iterator[Finding]:
    for pause in pauses:
        since = f"{pause['since']:%Y-%m-%d %H:%M} UTC"
        said = f"The {pause['what'].replace('_', ' ')} {pause['name']} has been paused since {since}: {pause['reason']}"
        command = f"penstock resume --{pause['what'].replace('_', '-')} {shlex.quote(pause['name'])}"
        yield Finding("paused", said, command, dict(pause), subject=f"{pause['what']}/{pause['name']}")


# -- limits and schedules -----------------------------------------------------------------------------------------


def examine_breakers(limits: list[LimitState]) -> Iterator[Finding]:
    for limit in limits:
        if limit.opened_at is not None:
            said = (
                f"The breaker of {limit.name} is {limit.breaker_words}. Jobs that need {limit.name} wait; the breaker closes "
                "when a probe succeeds. If the cause is fixed, close it now:"
            )
            command = f"penstock limits close {shlex.quote(limit.name)}"
            yield Finding("breaker-open", said, command, limit.as_json(), subject=limit.name)


def examine_limits(limits: list[LimitState]) -> Iterator[Finding]:
    """A note: a full limit is not a fault, but it explains why work is slow."""
    for limit in limits:
        if limit.opened_at is None and limit.waiting and limit.used >= limit.permits:
            all_of_them = "The only permit" if limit.permits == 1 else f"All {limit.permits:,} permits"
            said = (
                f"{all_of_them} of {limit.name} {'is' if limit.permits == 1 else 'are'} in use, and "
                f"{counted(limit.waiting, 'call')} {'waits' if limit.waiting == 1 else 'wait'}: "
                f"{listed(limit.kinds)} {'goes' if len(limit.kinds) == 1 else 'go'} no faster. If {limit.name} can handle "
                "more, give it more permits:"
            )
            command = f"penstock limits set {shlex.quote(limit.name)} {limit.permits + limit.waiting}"
            yield Finding("limit-full", said, command, limit.as_json(), subject=limit.name)


def examine_schedules(overdue: list[Record]) -> Iterator[Finding]:
    if overdue:
        longest = overdue[0]
        said = (
            f"{counted(len(overdue), 'schedule')} should have fired and did not ({listed([row['name'] for row in overdue])}); "
            f"{longest['name']} is {span(longest['late'])} late. Every worker fires schedules: start one."
        )
        evidence = {"schedules": [dict(row) for row in overdue]}
        yield Finding("schedule-overdue", said, START, evidence)


def examine_declared(schedules: list[ScheduleState]) -> Iterator[Finding]:
    """Schedules that do not fire because they are paused or retired."""
    for schedule in schedules:
        name = f"The schedule {schedule.name} of the fairness key {schedule.fairness_key}"
        subject = f"{schedule.fairness_key}/{schedule.name}"
        command = f"{shlex.quote(schedule.name)} --fairness-key {shlex.quote(schedule.fairness_key)}"
        evidence = {
            key: getattr(schedule, key)
            for key in ("name", "fairness_key", "rule", "kind", "last_at", "fired", "skipped")
        }
        if schedule.retired_at is not None:
            said = (
                f"{name} has been retired since {utc_relative(schedule.retired_at, schedule.now)}: no worker declares it any "
                "more, and it does not fire. If it is not needed, remove it."
            )
            yield Finding("schedule-retired", said, f"penstock schedules remove {command}", evidence, subject=subject)
        elif schedule.paused_at is not None:
            said = f"{name} has been paused since {utc_relative(schedule.paused_at, schedule.now)}: it does not fire."
            yield Finding("schedule-paused", said, f"penstock schedules resume {command}", evidence, subject=subject)
