"""Why a job is where it is: one sentence for a person, one word for a program, and the evidence.

The gates come from gates.sql, which the claim obeys, too: what is called open or behind here is what some live worker's
claim would take, and nothing else is (tests/engine/test_explain.py shows it). The SQL is in explain.sql.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.engine.queue import sql as queue_sql
from penstock.engine.wording import counted, moment, span, up_to

sql = statements(__file__)

COUNTED_TO = 1000
# Some live worker would take it, now or when its turn comes.
CLAIMABLE = frozenset({"open", "behind", "suspect", "permits in use"})


@dataclass(frozen=True)
class Explanation:
    """`because` is one of: done, cancelled, discarded, not found, dead, running, cancelling, lost, backoff, scheduled,
    waiting, paused, open, behind, suspect, suspects busy, permits, permits in use, breaker, draining, unserved, no worker.
    """

    sentence: str
    state: str
    evidence: dict[str, Any]
    because: str


async def explain(session: Session, job_id: int) -> Explanation:
    """Alive first: a job only ever moves from the table to the history, so that it cannot be missed in between."""
    row = await sql.explain_job.first(session, id=job_id)
    if row is not None:
        because, sentence = _explain_live(row)
        return Explanation(f"Job {job_id} {sentence}", row["state"], _evidence(row), because)
    past = await queue_sql.find_job.first(session, id=job_id)
    if past is not None:
        return Explanation(f"Job {job_id} {_tell_past(past)}", past["state"], _evidence(past), past["state"])
    sentence = f"There is no job {job_id}, neither alive nor in the history."
    return Explanation(sentence, "not found", {}, "not found")


def _evidence(row: Record) -> dict[str, Any]:
    """The row as plain values; what is not known is left out."""
    facts = {key: value for key, value in row.items() if value is not None}
    for key in ("error", "progress", "args", "result", "attempts", "permits_of"):
        if key in facts:
            facts[key] = json.loads(facts[key])
    return facts


# -- over ---------------------------------------------------------------------------------------------------------


def _tell_past(row: Record) -> str:
    error = json.loads(row["error"]) if row["error"] else {}
    at = f"{row['finished_at']:%Y-%m-%d %H:%M:%S} UTC"
    match row["state"]:
        case "done":
            return f"is done: {row['kind']} ended at {at} in attempt {row['attempt']}."
        case "discarded":
            reason = error.get("discarded", "no reason given")
            return f"was discarded at {at}: {reason}. It had failed with: {_tell_error(error)}."
    if error.get("class") == "Cancelled":
        return f"was cancelled at {at}: {error['message']}."
    return f"was cancelled at {at}." + (f" Before that it had failed with: {_tell_error(error)}." if error else "")


def _tell_error(error: dict[str, Any]) -> str:
    return (
        f"{error.get('type', 'an unknown error')} ({error.get('class', 'unknown')}): {error.get('message', '')}".rstrip(
            ". "
        )
    )


# -- alive --------------------------------------------------------------------------------------------------------


def _explain_live(row: Record) -> tuple[str, str]:
    """One word and the sentence behind "Job 7"."""
    tell: dict[str, Callable[[Record], tuple[str, str]]] = {
        "dead": _tell_dead,
        "running": _tell_running,
        "later": _tell_later,
        "waiting": _tell_waiting,
        "ready": _tell_ready,
    }
    return tell[row["state"]](row)


def _tell_waiting(row: Record) -> tuple[str, str]:
    if row["held"]:
        return "waiting", (
            f"waits for its turn: of the {counted(row['children'], 'child')} of job {row['parent']} (map {row['map']}) at most "
            f"{row['children_at_once']} run at once, and {row['children_unfinished']:,} have not ended."
        )
    ended = row["children"] - row["children_unfinished"]
    dead = f", {row['children_dead']:,} of them dead" if row["children_dead"] else ""
    return "waiting", (
        f"waits for its children, without a slot: {ended:,} of {row['children']:,} of the map {row['map']} have ended{dead}."
    )


def _tell_dead(row: Record) -> tuple[str, str]:
    job_id, error = row["id"], json.loads(row["error"])
    step = f" in the step {error['step']}" if error.get("step") else ""
    return "dead", (
        f"is dead after {counted(row['attempt'], 'attempt')}{step}, with {_tell_error(error)}. "
        f"When the cause is mended: `penstock dead redrive {job_id}`. "
        f"To give it up: `penstock dead discard {job_id} --reason …`."
    )


def _tell_running(row: Record) -> tuple[str, str]:
    worker = row["owner"] or f"number {row['worker_id']}"
    if row["owner_gone_at"] is not None or row["owner"] is None or row["owner_silent"]:
        since = row["owner_gone_at"] or row["owner_beat_at"] or row["claimed_at"]
        others = row["workers"] - (1 if row["owner"] is not None and row["owner_gone_at"] is None else 0)
        rescue = "it will be rescued within seconds" if others else "it will be rescued as soon as another worker runs"
        return "lost", (
            f"was running when its worker {worker} was lost ({moment(since, row['now'])}): {rescue}, and then runs again."
        )
    doing = (
        f"on worker {worker} since {moment(row['claimed_at'], row['now'])}, in attempt {row['attempt']}; {_tell_progress(row)}"
        f"the worker's last beat was {span(row['now'] - row['owner_beat_at'])} ago."
    )
    if row["cancelling"]:
        return "cancelling", f"is being cancelled: its worker is told with the next beat. It runs {doing}"
    return "running", f"runs {doing}"


def _tell_progress(row: Record) -> str:
    if row["progress"] is None:
        return ""
    progress = json.loads(row["progress"])
    step = f"step {progress['step']}; " if progress.get("step") else ""
    if "done" not in progress:
        return step
    total = f" of {progress['total']:g}" if progress.get("total") is not None else ""
    note = f" ({progress['note']})" if progress.get("note") else ""
    return f"{step}progress {progress['done']:g}{total}{note}; "


def _tell_later(row: Record) -> tuple[str, str]:
    until = moment(row["run_at"], row["now"])
    if row["error"] is not None:
        because = "backoff"
        said = f"failed with {_tell_error(json.loads(row['error']))}; it is tried again at {until}"
    else:
        because, said = "scheduled", f"is scheduled for {until}"
    if row["run_at"] <= row["now"]:
        said += ": it is due, and the next beat of any worker makes it ready" if row["workers"] else ", but"
        said += "" if row["workers"] else " there is no worker: start one with `penstock worker module:app`"
    if row["paused_since"] is not None:
        said += f". Then it will wait because {_tell_pause(row)}"
    return because, f"{said}."


def _tell_pause(row: Record) -> str:
    return (
        f"the {row['paused_what']} {row['paused_name']} is paused since {moment(row['paused_since'], row['now'])} "
        f"({row['paused_reason']}): `penstock resume --{row['paused_what']} {shlex.quote(row['paused_name'])}`"
    )


def _tell_ready(row: Record) -> tuple[str, str]:
    if row["paused_since"] is not None:
        return "paused", f"waits because {_tell_pause(row)}."
    if not row["open_workers"]:
        return _tell_unserved(row) if row["shut"] is None else (row["shut"], f"waits for {_tell_shut(row)}.")
    if row["suspect"]:
        return _tell_suspect(row)
    if row["shut"] is not None:
        return row["shut"], f"waits for {_tell_shut(row)}."
    busy = f"{_tell_busy(row)}{_tell_silence(row)}"
    if row["ahead_in_lane"]:
        ahead = up_to(row["ahead_in_lane"], COUNTED_TO, "job")
        return "behind", f"is behind {ahead} in its lane ({row['queue']}, {row['kind']}, {row['share']}); {busy}."
    return "open", f"is the next of its lane ({row['queue']}, {row['kind']}, {row['share']}); {busy}."


def _tell_shut(row: Record) -> str:
    """The limit whose permits or breaker keep the lane closed."""
    name = row["limit_name"]
    if row["shut"] == "breaker":
        probe = (
            f"{row['breaker_prober']} probes it now"
            if row["breaker_prober"] is not None
            else f"the next probe is at {moment(row['breaker_rests_till'], row['now'])}"
        )
        since = moment(row["breaker_opened_at"], row["now"])
        return f"{name}: its breaker is open since {since}, because {row['breaker_reason'].rstrip('.')}; {probe}"
    parts = json.loads(row["permits_of"] or "[]")
    used = sum(part["used"] for part in parts)
    users = ", ".join(f"{part['worker']}: {part['used']}" for part in parts)
    if used >= row["permits"]:
        return f"{name}: all {row['permits']} permits are in use ({users})"
    few = "the workers that serve it have too few of the others yet"
    if row["shut"] == "permits in use":
        few = f"more calls at once are not dared yet (level {', '.join(str(part['level']) for part in parts)})"
    return f"{name}: {used} of {row['permits']} permits are in use ({users or 'by nobody'}), and {few}"


def _tell_busy(row: Record) -> str:
    serve = f"{counted(row['open_workers'], 'worker')} {'serves' if row['open_workers'] == 1 else 'serve'} it"
    if row["open_running"] >= row["open_slots"]:
        return f"{serve}, with all {row['open_slots']} slots in use"
    return f"{serve}, with {row['open_running']} of {row['open_slots']} slots in use"


def _tell_silence(row: Record) -> str:
    if row["silent_workers"] < row["open_workers"]:
        return ""
    return ", but none of them has beaten within its lease"


def _tell_suspect(row: Record) -> tuple[str, str]:
    said = "ran when its worker was lost; such jobs run one at a time per worker"
    ahead = row["suspects_ahead"]
    behind = f", and {up_to(ahead, COUNTED_TO, 'other')} {'is' if ahead == 1 else 'are'} before it" if ahead else ""
    if not row["workers_without_suspect"]:
        return "suspects busy", f"{said}, and every worker that serves it runs one now{behind}."
    return "suspect", f"{said}{behind}; {_tell_busy(row)}{_tell_silence(row)}."


def _tell_unserved(row: Record) -> tuple[str, str]:
    if not row["workers"]:
        return (
            "no worker",
            f"waits for a worker: none is running.{_tell_former(row)} Start one with `penstock worker module:app`.",
        )
    if row["draining_workers"]:
        only = "only worker that serves it is" if row["draining_workers"] == 1 else "workers that serve it are all"
        return "draining", (
            f"waits: the {only} draining and will stop. Start another one with `penstock worker module:app`."
        )
    return "unserved", (
        f"waits: no live worker serves the kind {row['kind']} in the queue {row['queue']}.{_tell_former(row)} "
        "Start one whose application declares it: `penstock worker module:app`."
    )


def _tell_former(row: Record) -> str:
    if row["last_server"] is None:
        return " None has done so within the last week."
    left = moment(row["last_server_left_at"], row["now"])
    return f" The last one that served it was {row['last_server']}, which left at {left}."
