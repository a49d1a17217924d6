"""What `doctor` finds in the queue: jobs that nobody serves, that are old, dead or paused, and limits that hold them up."""

import shlex
from collections.abc import Iterator
from datetime import timedelta

from asyncpg import Record

from penstock.engine.census import Waiting
from penstock.engine.limits import LimitState
from penstock.engine.wording import counted, listed, span
from penstock.operations.finding import START, Finding


def examine_unserved(lanes: list[Waiting]) -> Iterator[Finding]:
    unserved = [lane for lane in lanes if not (lane.open or lane.paused or lane.shut)]
    for (queue, kind), waiting in _by_kind(unserved).items():
        depth = sum(lane.depth for lane in waiting)
        waits = f"{counted(depth, 'ready job')} {'waits' if depth == 1 else 'wait'}"
        said = f"No live worker serves the kind {kind} in the queue {queue}: {waits} for one."
        evidence = {"queue": queue, "kind": kind, "ready": depth, "oldest": waiting[0].oldest_id}
        yield Finding("unserved-kind", said, START, evidence)


def examine_age(lanes: list[Waiting], workers: list[Record], old_after: timedelta) -> Iterator[Finding]:
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


def examine_dead(causes: list[Record]) -> Iterator[Finding]:
    for cause in causes:
        died = "job has died" if cause["count"] == 1 else "jobs have died of the same cause"
        said = f"{cause['count']:,} {cause['kind']} {died}, {cause['class']}: {cause['message']}"
        command = f"penstock dead redrive --fingerprint {cause['fingerprint']}"
        if cause["unwanted"]:
            said += " (children of jobs that are over: nobody waits for them)"
            command = f"penstock dead discard --fingerprint {cause['fingerprint']} --reason 'its parent is over'"
        yield Finding("dead-jobs", said, command, dict(cause))


def examine_pauses(pauses: list[Record]) -> Iterator[Finding]:
    for pause in pauses:
        since = f"{pause['since']:%Y-%m-%d %H:%M} UTC"
        said = f"The {pause['what']} {pause['name']} has been paused since {since}: {pause['reason']}"
        command = f"penstock resume --{pause['what']} {shlex.quote(pause['name'])}"
        yield Finding("paused", said, command, dict(pause))


def examine_breakers(limits: list[LimitState]) -> Iterator[Finding]:
    for limit in limits:
        if limit.opened_at is not None:
            said = (
                f"The breaker of {limit.name} is {limit.breaker}. Nothing that needs it runs; it closes by itself when a probe "
                "succeeds. If the cause is mended, there is no need to wait:"
            )
            yield Finding("breaker-open", said, f"penstock limits close {shlex.quote(limit.name)}", limit.as_json())


def examine_limits(limits: list[LimitState]) -> Iterator[Finding]:
    """No fault by itself: the dependency bears no more. Worth knowing when things are slow."""
    for limit in limits:
        if limit.opened_at is None and limit.waiting and limit.used >= limit.permits:
            all_of_them = "The only permit" if limit.permits == 1 else f"All {limit.permits:,} permits"
            said = (
                f"{all_of_them} of {limit.name} {'is' if limit.permits == 1 else 'are'} in use, and "
                f"{counted(limit.waiting, 'call')} {'waits' if limit.waiting == 1 else 'wait'}: "
                f"{listed(limit.kinds)} {'goes' if len(limit.kinds) == 1 else 'go'} no faster. If {limit.name} bears "
                "more, give it more permits:"
            )
            command = f"penstock limits set {shlex.quote(limit.name)} {limit.permits + limit.waiting}"
            yield Finding("limit-full", said, command, limit.as_json(), note=True)
