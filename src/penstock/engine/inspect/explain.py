"""Explanations: why a job is where it is, as a sentence for a person, one word for a program, and the evidence.

The gates come from engine/gates.sql, which the claim obeys, too: jobs that are `open` or `behind` here are those that the claim
of a live worker would take (tests/engine/test_explain.py shows it). Measured durations are in queries.py.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from penstock.database import Session, check_schema, statements
from penstock.engine.inspect.queries import (
    MOST_RIVALS,
    DurationEstimate,
    expected_start,
    jobs_before,
    read_estimate,
    read_rivals,
)
from penstock.engine.queue import decode_job, find_job
from penstock.errors import SchemaMismatch
from penstock.text import counted, listed, span, up_to, utc, utc_relative

sql = statements(__file__)

COUNTED_TO = 1000
MOST_ATTEMPTS = 5
APPLICATION = "`penstock worker module:app`"  # starts a worker of an application

Facts = Mapping[str, Any]


def joined(*parts: str) -> str:
    """Parts of a text, without those that are empty."""
    return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Explanation:
    """`because` of a job is one of: done, cancelled, discarded, not found, dead, running, silent, cancelling, lost, backoff,
    scheduled, waiting, paused, open, behind, quarantined, quarantine busy, permits, permits in use, breaker, draining,
    unserved, no worker, schema.
    """

    subject: str  # Job 7
    predicate: str  # waits for a worker: none is running.
    advice: str  # Start one with `penstock worker module:app`.
    state: str
    because: str
    evidence: dict[str, Any] = field(default_factory=dict)  # for a program
    evidence_lines: tuple[str, ...] = ()  # for a person: short, the most demand first

    @property
    def sentence(self) -> str:
        return joined(self.subject, self.predicate, self.advice)

    def answer(self) -> dict[str, Any]:
        return {"sentence": self.sentence, "state": self.state, "evidence": self.evidence, "because": self.because}


async def explain_job(session: Session, job_id: int, *, pace: DurationEstimate | None = None) -> Explanation:
    """Alive first: a job only ever moves from the table to the history, so that it cannot be missed in between.

    `pace` replaces the one of its kind, for callers that have measured jobs which are more alike.
    """
    facts = await _read_facts(session, job_id)
    if facts is not None:
        await _measure(session, facts, pace)
        return _explanation(facts, *EXPLAINERS[facts["state"]](facts))
    past = await find_job(session, job_id)
    if past is not None:
        return _explanation(past, past["state"], _explain_past(past))
    return Explanation(
        "", f"Job {job_id} does not exist, neither alive nor in the history.", "", "not found", "not found"
    )


def _explanation(facts: Facts, because: str, predicate: str) -> Explanation:
    evidence = _evidence(facts)
    lines = tuple(_evidence_lines(evidence))
    return Explanation(
        f"Job {facts['id']}", predicate, advise(because, evidence), facts["state"], because, evidence, lines
    )


async def _read_facts(session: Session, job_id: int) -> dict[str, Any] | None:
    """The facts about a live job, with those that only its state needs; read again if it has moved between the two queries."""
    further = {"ready": sql.explain_gates, "later": sql.explain_gates, "waiting": sql.explain_children}
    while (row := await sql.explain_job.first(session, id=job_id)) is not None:
        if row["state"] not in further:
            return decode_job(row)
        more = await further[row["state"]].first(session, id=job_id)
        if more is not None and (more["state"], more["attempt"]) == (row["state"], row["attempt"]):
            return decode_job(row) | dict(more)
    return None


async def _measure(session: Session, facts: dict[str, Any], pace: DurationEstimate | None) -> None:
    """Add the estimated durations that its sentence needs."""
    facts |= {"pace": pace, "mean": None, "rivals": None, "schema": ""}
    if facts["state"] == "running" and pace is None:
        facts["pace"], facts["mean"] = await read_estimate(session, facts["queue"], facts["kind"])
    if facts["state"] != "ready" or facts["paused_since"] is not None:
        return
    if facts["open_workers"]:
        facts["pace"], facts["mean"] = await read_estimate(session, facts["queue"], facts["kind"])
        if not facts["quarantined"] and facts["shut"] is None:
            line = {name: facts[name] for name in ("queue", "lane", "priority")}
            facts["rivals"] = await read_rivals(session, **line)
    elif await sql.may_see_schema.value(session):
        try:
            await check_schema(session)
        except SchemaMismatch as mismatch:
            facts["schema"] = str(mismatch)


def _evidence(facts: Facts) -> dict[str, Any]:
    """The facts as plain values; what is not known is left out."""
    known = {key: value for key, value in facts.items() if value is not None}
    if "permits_of" in known:
        known["permits_of"] = json.loads(known["permits_of"])
    if "rivals" in known:
        start = _start_of(facts)
        known["other_lanes"] = len(known.pop("rivals"))
        if start is not None:
            known["expected_start_seconds"] = start.total_seconds()
    if "pace" in known:
        known["pace"] = known["pace"].as_json()
    if "mean" in known:
        known["queue_mean_seconds"] = known.pop("mean").total_seconds()
    if not known.get("schema"):
        known.pop("schema", None)
    return known


def _explain_past(row: Facts) -> str:
    error, at = row["error"] or {}, utc(row["finished_at"])
    match row["state"]:
        case "done":
            return f"is done: {row['kind']} ended at {at} in attempt {row['attempt']}."
        case "discarded":
            reason = error.get("discarded", "no reason given")
            return f"was discarded at {at}: {reason}. It had failed with: {_explain_error(error)}."
    if error.get("class") == "Cancelled":
        return f"was cancelled at {at}: {error['message']}."
    return f"was cancelled at {at}." + (f" Before that it had failed with: {_explain_error(error)}." if error else "")


def _explain_error(error: Mapping[str, Any]) -> str:
    kind, level, said = error.get("type", "an unknown error"), error.get("class", "unknown"), error.get("message", "")
    return f"{kind} ({level}): {said}".rstrip(". ")


def _explain_waiting(row: Facts) -> tuple[str, str]:
    if row["held"]:
        return "waiting", (
            f"waits for its turn: of the {counted(row['children'], 'child')} of job {row['parent']} (map {row['map']}) at most "
            f"{row['children_at_once']} run at once, and {row['children_unfinished']:,} have not ended."
        )
    if row["children"] is None:
        return "waiting", "is waiting for children, but no fan-out row exists."
    ended = row["children"] - row["children_unfinished"]
    dead = f", {row['children_dead']:,} of them dead" if row["children_dead"] else ""
    return "waiting", (
        f"waits for its children, without a slot: {ended:,} of {row['children']:,} of the map {row['map']} have ended{dead}."
    )


def _explain_dead(row: Facts) -> tuple[str, str]:
    error = row["error"]
    step = f" in the step {error['step']}" if error.get("step") else ""
    return "dead", f"is dead after {counted(row['attempt'], 'attempt')}{step}, with {_explain_error(error)}."


def _explain_running(row: Facts) -> tuple[str, str]:
    worker = row["owner"] or str(row["worker_id"])
    if row["owner_gone_at"] is not None or row["owner"] is None or row["owner_silent"]:
        since = row["owner_gone_at"] or row["owner_heartbeat_at"] or row["claimed_at"]
        others = row["workers"] - (1 if row["owner"] is not None and row["owner_gone_at"] is None else 0)
        rescue = (
            "another worker takes it over within seconds"
            if others
            else "it is taken over as soon as another worker runs"
        )
        return "lost", (
            f"was running when its worker {worker} was lost ({utc_relative(since, row['now'])}): {rescue}, and it runs again."
        )
    since = utc_relative(row["claimed_at"], row["now"])
    doing = (
        f"on worker {worker} since {since}, in attempt {row['attempt']}; {_explain_progress(row)}"
        f"the worker's last heartbeat was {span(row['now'] - row['owner_heartbeat_at'])} ago"
    )
    if row["cancelling"]:
        return "cancelling", f"is being cancelled: its worker stops it at the next heartbeat. It runs {doing}."
    if row["now"] - row["owner_heartbeat_at"] > row["owner_lease"] / 2:
        return "silent", (
            f"runs {doing}, of a lease of {span(row['owner_lease'])}: its event loop is blocked by a handler, its machine "
            "hangs, or it cannot reach the database."
        )
    pace: DurationEstimate | None = row["pace"]
    soon = f"; {pace.predict(row['now'] - row['begun_at'])}" if pace is not None and row["begun_at"] is not None else ""
    return "running", f"runs {doing}{soon}."


def _explain_progress(row: Facts) -> str:
    progress = row["progress"] or {}
    step = f"step {progress['step']}; " if progress.get("step") else ""
    if "done" not in progress:
        return step
    total = f" of {progress['total']:g}" if progress.get("total") is not None else ""
    note = f" ({progress['note']})" if progress.get("note") else ""
    return f"{step}progress {progress['done']:g}{total}{note}; "


def _explain_later(row: Facts) -> tuple[str, str]:
    until = utc_relative(row["run_at"], row["now"])
    because, said = "scheduled", f"is scheduled for {until}"
    if row["error"] is not None:
        because, said = "backoff", f"failed with {_explain_error(row['error'])}; it is tried again at {until}"
    if row["run_at"] > row["now"]:
        return because, f"{said}."
    if not row["workers"]:
        return because, f"{said}, but no worker is running:"
    return because, f"{said}: it is due, and the next heartbeat of any worker makes it ready."


def _explain_pause(row: Facts) -> str:
    return (
        f"the {row['paused_what'].replace('_', ' ')} {row['paused_name']} has been paused since "
        f"{utc_relative(row['paused_since'], row['now'])} "
        f"({row['paused_reason']}):"
    )


def _explain_ready(row: Facts) -> tuple[str, str]:
    if row["paused_since"] is not None:
        return "paused", f"waits because {_explain_pause(row)}"
    if not row["open_workers"]:
        return _explain_unserved(row) if row["shut"] is None else (row["shut"], f"waits for {_explain_shut(row)}.")
    if row["quarantined"]:
        return _explain_quarantined(row)
    if row["shut"] is not None:
        return row["shut"], f"waits for {_explain_shut(row)}."
    busy = f"{_explain_busy(row)}{_explain_silence(row)}{_explain_start(row)}"
    lane = f"its lane ({row['queue']}, {row['kind']}, {row['fairness_key']})"
    rivals = len(row["rivals"] or ())
    turns = f", which takes turns with {up_to(rivals, MOST_RIVALS, 'other lane')}" if rivals else ""
    if row["ahead_in_lane"]:
        ahead = up_to(row["ahead_in_lane"], COUNTED_TO, "job")
        return "behind", f"is behind {ahead} in {lane}{turns}; {busy}."
    return "open", f"is the next of {lane}{turns}; {busy}."


def _explain_start(row: Facts) -> str:
    """The estimated start, and what would make it earlier."""
    if row["rivals"] is None:
        return ""
    start = _start_of(row)
    if start is None or start < timedelta(seconds=1):
        return ""
    about = span(start)
    # Jobs beyond the bound are not counted: it is this long at least.
    when = f"not before {about} from now" if row["ahead_in_lane"] > COUNTED_TO else f"in about {about}"
    return f": it should start {when}, and earlier with another worker"


def _start_of(row: Facts) -> timedelta | None:
    before = jobs_before(row["ahead_in_lane"], row["rivals"])
    return expected_start(before, mean=row["mean"], slots=row["open_slots"], running=row["open_running"])


def _explain_shut(row: Facts) -> str:
    """The limit whose permits or breaker keep the lane closed."""
    name = row["limit_name"]
    if row["shut"] == "breaker":
        probe = (
            f"{row['breaker_prober']} probes it now"
            if row["breaker_prober"] is not None
            else f"the next probe is at {utc_relative(row['breaker_rests_till'], row['now'])}"
        )
        since = utc_relative(row["breaker_opened_at"], row["now"])
        return f"{name}: its breaker has been open since {since}, because {row['breaker_reason'].rstrip('.')}; {probe}"
    parts = json.loads(row["permits_of"] or "[]")
    used = sum(part["used"] for part in parts)
    users = ", ".join(f"{part['worker']}: {part['used']}" for part in parts)
    if used >= row["permits"]:
        return f"{name}: all {row['permits']} permits are in use ({users})"
    few = "the workers that serve it have too few of the others yet"
    if row["shut"] == "permits in use":
        limits = ", ".join(str(part["concurrency"]) for part in parts)
        few = f"more concurrent calls are not allowed yet (concurrency limit {limits})"
    return f"{name}: {used} of {row['permits']} permits are in use ({users or 'by no worker'}), and {few}"


def _explain_busy(row: Facts) -> str:
    serve = f"{counted(row['open_workers'], 'worker')} {'serves' if row['open_workers'] == 1 else 'serve'} it"
    if row["open_running"] >= row["open_slots"]:
        return f"{serve}, with all {row['open_slots']} slots in use"
    return f"{serve}, with {row['open_running']} of {row['open_slots']} slots in use"


def _explain_silence(row: Facts) -> str:
    if row["silent_workers"] < row["open_workers"]:
        return ""
    return ", but none of them has sent a heartbeat within its lease"


def _explain_quarantined(row: Facts) -> tuple[str, str]:
    said = "ran when its worker was lost; such jobs run one at a time per worker"
    ahead = row["quarantined_ahead"]
    behind = f", and {up_to(ahead, COUNTED_TO, 'other')} {'is' if ahead == 1 else 'are'} before it" if ahead else ""
    if not row["workers_without_quarantined"]:
        return "quarantine busy", f"{said}, and every worker that serves it runs one now{behind}."
    return "quarantined", f"{said}{behind}; {_explain_busy(row)}{_explain_silence(row)}."


def _explain_unserved(row: Facts) -> tuple[str, str]:
    if row["schema"]:
        return "schema", "waits: no worker of this release can serve it."
    if not row["workers"]:
        return "no worker", f"waits for a worker: none is running.{_explain_former(row)}"
    if row["draining_workers"]:
        only = "only worker that serves it is" if row["draining_workers"] == 1 else "workers that serve it are all"
        return "draining", f"waits: the {only} draining and will stop."
    return "unserved", (
        f"waits: no live worker serves the kind {row['kind']} in the queue {row['queue']}.{_explain_former(row)}"
    )


def _explain_former(row: Facts) -> str:
    if row["last_server"] is None:
        return " None has done so within the last week."
    left = utc_relative(row["last_server_left_at"], row["now"])
    how = "which left" if row["last_server_left_why"] == "left" else f"of which {row['last_server_left_why']},"
    return f" The last one that served it was {row['last_server']}, {how} at {left}."


EXPLAINERS: dict[str, Callable[[Facts], tuple[str, str]]] = {
    "dead": _explain_dead,
    "running": _explain_running,
    "later": _explain_later,
    "waiting": _explain_waiting,
    "ready": _explain_ready,
}


def advise(because: str, job: Facts, worker: str = APPLICATION) -> str:
    """Advice for the word and the evidence of a job; `worker` is the command that starts one."""
    resume = ""
    if "paused_since" in job:
        resume = f"`penstock resume --{job['paused_what'].replace('_', '-')} {shlex.quote(job['paused_name'])}`."
    match because:
        case "dead":
            redrive, discard = (f"penstock dead {verb} {job['id']}" for verb in ("redrive", "discard"))
            return f"Fix the cause, then run `{redrive}`. To discard it: `{discard} --reason …`."
        case "silent":
            return "If it stays silent, another worker takes the job over; `penstock doctor` names the process."
        case "waiting" if "children" not in job:
            return "Run `penstock invariants`."
        case "backoff" | "scheduled":
            start = f"start one with {worker}." if job["run_at"] <= job["now"] and not job["workers"] else ""
            return joined(start, f"Then it will wait because {_explain_pause(job)} {resume}" if resume else "")
        case "breaker":
            return f"When the cause is fixed: `penstock limits close {shlex.quote(job['limit_name'])}`."
    advice: dict[str, str] = {
        "paused": resume,
        "schema": job.get("schema", ""),
        "no worker": f"Start one with {worker}.",
        "draining": f"Start another one with {worker}.",
        "unserved": f"Start one whose application declares it: {worker}.",
    }
    return advice.get(because, "")


def _evidence_lines(job: Facts) -> Iterator[str]:
    yield (
        f"job {job['id']}: {job['kind']} in the queue {job['queue']}, fairness key {job['fairness_key']}, "
        f"priority {job['priority']}"
    )
    yield (
        f"enqueued {utc(job['enqueued_at'])}; {counted(job['attempt'], 'attempt')}, {counted(job['failures'], 'failure')}"
        " charged"
    )
    for attempt in (job.get("attempts") or [])[-MOST_ATTEMPTS:]:
        said = f": {_first_line(attempt['error'])}" if attempt.get("error") else ""
        took = span(timedelta(seconds=attempt["seconds"])) if attempt.get("seconds") is not None else "an unknown time"
        yield f"attempt {attempt['number']} on worker {attempt['worker_id']}: {attempt['outcome']} after {took}{said}"
    if job.get("error") and job["error"].get("code"):
        yield f"failed in the code {job['error']['code']}, fingerprint {job.get('fingerprint', 'none')}"
    yield from _fleet_lines(job)
    if pace := job.get("pace"):
        usual, long = (span(timedelta(seconds=pace[key])) for key in ("usual_seconds", "long_seconds"))
        yield f"{pace['like']} take {usual} (half of them) to {long} (nine of ten), by the last {pace['jobs']:,}"


def _fleet_lines(job: Facts) -> Iterator[str]:
    if job.get("state") != "ready":
        return
    if "workers" in job:
        serving = f"{job['open_workers']} of {counted(job['workers'], 'live worker')} may take it"
        yield (
            f"{serving}, with {job['open_running']} of {job['open_slots']} slots in use" if job["workers"] else serving
        )
    if "ahead_in_lane" in job:
        others = f", {counted(job['other_lanes'], 'other lane')} in turn with it" if "other_lanes" in job else ""
        yield f"{counted(job['ahead_in_lane'], 'job')} ahead in its lane{others}"
    if job.get("limit_name"):
        used = [f"{part['worker']} {part['used']} of {part['granted']}" for part in job.get("permits_of") or ()]
        yield f"limit {job['limit_name']}: {counted(job['permits'], 'permit')}; {listed(used) or 'no worker has any'}"
    if job.get("last_server"):
        left = f"{job.get('last_server_left_why', 'left')} at {utc(job['last_server_left_at'])}"
        yield f"last served by {job['last_server']}, {left}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:200]
