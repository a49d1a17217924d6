"""The sentences about live jobs: one word and what stands behind "Job 7", from the row of explain.sql and what was measured."""

import json
import shlex
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from penstock.engine.pace import MOST_LANES, Pace, expected_start, jobs_before
from penstock.engine.wording import counted, moment, span, up_to

COUNTED_TO = 1000

Row = Mapping[str, Any]


def tell_error(error: Mapping[str, Any]) -> str:
    kind, level, said = error.get("type", "an unknown error"), error.get("class", "unknown"), error.get("message", "")
    return f"{kind} ({level}): {said}".rstrip(". ")


def explain_live(row: Row) -> tuple[str, str]:
    """One word and the sentence behind "Job 7"."""
    tell: dict[str, Callable[[Row], tuple[str, str]]] = {
        "dead": _tell_dead,
        "running": _tell_running,
        "later": _tell_later,
        "waiting": _tell_waiting,
        "ready": _tell_ready,
    }
    return tell[row["state"]](row)


def _tell_waiting(row: Row) -> tuple[str, str]:
    if row["held"]:
        return "waiting", (
            f"waits for its turn: of the {counted(row['children'], 'child')} of job {row['parent']} (map {row['map']}) at most "
            f"{row['children_at_once']} run at once, and {row['children_unfinished']:,} have not ended."
        )
    if row["children"] is None:
        return "waiting", "waits for children of which nobody knows: `penstock invariants` says what is wrong."
    ended = row["children"] - row["children_unfinished"]
    dead = f", {row['children_dead']:,} of them dead" if row["children_dead"] else ""
    return "waiting", (
        f"waits for its children, without a slot: {ended:,} of {row['children']:,} of the map {row['map']} have ended{dead}."
    )


def _tell_dead(row: Row) -> tuple[str, str]:
    job_id, error = row["id"], json.loads(row["error"])
    step = f" in the step {error['step']}" if error.get("step") else ""
    return "dead", (
        f"is dead after {counted(row['attempt'], 'attempt')}{step}, with {tell_error(error)}. "
        f"When the cause is mended: `penstock dead redrive {job_id}`. "
        f"To give it up: `penstock dead discard {job_id} --reason …`."
    )


def _tell_running(row: Row) -> tuple[str, str]:
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
        f"the worker's last beat was {span(row['now'] - row['owner_beat_at'])} ago"
    )
    if row["cancelling"]:
        return "cancelling", f"is being cancelled: its worker is told with the next beat. It runs {doing}."
    if row["now"] - row["owner_beat_at"] > row["owner_lease"] / 2:
        return "silent", (
            f"runs {doing}, of a lease of {span(row['owner_lease'])}: its event loop is blocked by a handler, its machine "
            "hangs, or it cannot reach the database. If it stays silent, others take the job over; `penstock doctor` names "
            "the process."
        )
    pace: Pace | None = row["pace"]
    soon = f"; {pace.tell(row['now'] - row['begun_at'])}" if pace is not None and row["begun_at"] is not None else ""
    return "running", f"runs {doing}{soon}."


def _tell_progress(row: Row) -> str:
    if row["progress"] is None:
        return ""
    progress = json.loads(row["progress"])
    step = f"step {progress['step']}; " if progress.get("step") else ""
    if "done" not in progress:
        return step
    total = f" of {progress['total']:g}" if progress.get("total") is not None else ""
    note = f" ({progress['note']})" if progress.get("note") else ""
    return f"{step}progress {progress['done']:g}{total}{note}; "


def _tell_later(row: Row) -> tuple[str, str]:
    until = moment(row["run_at"], row["now"])
    if row["error"] is not None:
        because = "backoff"
        said = f"failed with {tell_error(json.loads(row['error']))}; it is tried again at {until}"
    else:
        because, said = "scheduled", f"is scheduled for {until}"
    if row["run_at"] <= row["now"]:
        said += ": it is due, and the next beat of any worker makes it ready" if row["workers"] else ", but"
        said += "" if row["workers"] else " there is no worker: start one with `penstock worker module:app`"
    if row["paused_since"] is not None:
        said += f". Then it will wait because {_tell_pause(row)}"
    return because, f"{said}."


def _tell_pause(row: Row) -> str:
    return (
        f"the {row['paused_what']} {row['paused_name']} is paused since {moment(row['paused_since'], row['now'])} "
        f"({row['paused_reason']}): `penstock resume --{row['paused_what']} {shlex.quote(row['paused_name'])}`"
    )


def _tell_ready(row: Row) -> tuple[str, str]:
    if row["paused_since"] is not None:
        return "paused", f"waits because {_tell_pause(row)}."
    if not row["open_workers"]:
        return _tell_unserved(row) if row["shut"] is None else (row["shut"], f"waits for {_tell_shut(row)}.")
    if row["suspect"]:
        return _tell_suspect(row)
    if row["shut"] is not None:
        return row["shut"], f"waits for {_tell_shut(row)}."
    busy = f"{_tell_busy(row)}{_tell_silence(row)}{_tell_start(row)}"
    lane = f"its lane ({row['queue']}, {row['kind']}, {row['share']})"
    rivals = len(row["rivals"] or ())
    turns = f", which takes turns with {up_to(rivals, MOST_LANES, 'other lane')}" if rivals else ""
    if row["ahead_in_lane"]:
        ahead = up_to(row["ahead_in_lane"], COUNTED_TO, "job")
        return "behind", f"is behind {ahead} in {lane}{turns}; {busy}."
    return "open", f"is the next of {lane}{turns}; {busy}."


def _tell_start(row: Row) -> str:
    """When it may begin, and what would make that earlier."""
    if row["rivals"] is None:
        return ""
    start = start_of(row)
    if start is None or start < timedelta(seconds=1):
        return ""
    about = span(start)
    # Beyond the bound nobody has counted: it is this long at least.
    when = f"not before {about} from now" if row["ahead_in_lane"] > COUNTED_TO else f"in about {about}"
    return f": it should start {when}, and earlier with another worker"


def start_of(row: Row) -> timedelta | None:
    before = jobs_before(row["ahead_in_lane"], row["rivals"])
    return expected_start(before, mean=row["mean"], slots=row["open_slots"], running=row["open_running"])


def _tell_shut(row: Row) -> str:
    """The limit whose permits or breaker keep the lane closed."""
    name = row["limit_name"]
    if row["shut"] == "breaker":
        probe = (
            f"{row['breaker_prober']} probes it now"
            if row["breaker_prober"] is not None
            else f"the next probe is at {moment(row['breaker_rests_till'], row['now'])}"
        )
        since = moment(row["breaker_opened_at"], row["now"])
        mended = f"When the cause is mended: `penstock limits close {shlex.quote(name)}`"
        return (
            f"{name}: its breaker is open since {since}, because {row['breaker_reason'].rstrip('.')}; {probe}. {mended}"
        )
    parts = json.loads(row["permits_of"] or "[]")
    used = sum(part["used"] for part in parts)
    users = ", ".join(f"{part['worker']}: {part['used']}" for part in parts)
    if used >= row["permits"]:
        return f"{name}: all {row['permits']} permits are in use ({users})"
    few = "the workers that serve it have too few of the others yet"
    if row["shut"] == "permits in use":
        few = f"more calls at once are not dared yet (level {', '.join(str(part['level']) for part in parts)})"
    return f"{name}: {used} of {row['permits']} permits are in use ({users or 'by nobody'}), and {few}"


def _tell_busy(row: Row) -> str:
    serve = f"{counted(row['open_workers'], 'worker')} {'serves' if row['open_workers'] == 1 else 'serve'} it"
    if row["open_running"] >= row["open_slots"]:
        return f"{serve}, with all {row['open_slots']} slots in use"
    return f"{serve}, with {row['open_running']} of {row['open_slots']} slots in use"


def _tell_silence(row: Row) -> str:
    if row["silent_workers"] < row["open_workers"]:
        return ""
    return ", but none of them has beaten within its lease"


def _tell_suspect(row: Row) -> tuple[str, str]:
    said = "ran when its worker was lost; such jobs run one at a time per worker"
    ahead = row["suspects_ahead"]
    behind = f", and {up_to(ahead, COUNTED_TO, 'other')} {'is' if ahead == 1 else 'are'} before it" if ahead else ""
    if not row["workers_without_suspect"]:
        return "suspects busy", f"{said}, and every worker that serves it runs one now{behind}."
    return "suspect", f"{said}{behind}; {_tell_busy(row)}{_tell_silence(row)}."


def _tell_unserved(row: Row) -> tuple[str, str]:
    if row["schema"]:
        return "schema", f"waits: no worker of this release can serve it. {row['schema']}"
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


def _tell_former(row: Row) -> str:
    if row["last_server"] is None:
        return " None has done so within the last week."
    left = moment(row["last_server_left_at"], row["now"])
    how = "which left" if row["last_server_left_why"] == "left" else f"of which {row['last_server_left_why']},"
    return f" The last one that served it was {row['last_server']}, {how} at {left}."
