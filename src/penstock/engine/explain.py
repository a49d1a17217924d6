"""Why a job is where it is: one sentence for a person, one word for a program, and the evidence.

The gates come from gates.sql, which the claim obeys, too: what is called open or behind here is what some live worker's
claim would take, and nothing else is (tests/engine/test_explain.py shows it). The sentences are in explain_live.py, the lines
of evidence in explain_evidence.py, what was measured in pace.py, and the SQL in explain.sql.
"""

import json
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.database.migrations import check_schema
from penstock.engine.explain_evidence import evidence_lines
from penstock.engine.explain_live import Row, explain_live, start_of, tell_error
from penstock.engine.pace import Pace, read_line, read_pace
from penstock.engine.queue import sql as queue_sql
from penstock.errors import SchemaMismatch

sql = statements(__file__)

# Some live worker would take it, now or when its turn comes.
CLAIMABLE = frozenset({"open", "behind", "suspect", "permits in use"})


@dataclass(frozen=True)
class Explanation:
    """`because` of a job is one of: done, cancelled, discarded, not found, dead, running, silent, cancelling, lost, backoff,
    scheduled, waiting, paused, open, behind, suspect, suspects busy, permits, permits in use, breaker, draining, unserved, no
    worker, schema. Documents, messages and sources have some more.
    """

    sentence: str
    state: str
    evidence: dict[str, Any]
    because: str

    @property
    def evidence_lines(self) -> list[str]:
        """The evidence for a person: short lines, the most telling first."""
        return evidence_lines(self.evidence)


async def explain(session: Session, job_id: int, *, pace: Pace | None = None) -> Explanation:
    """Alive first: a job only ever moves from the table to the history, so that it cannot be missed in between.

    `pace` is for who knows better than the history of its kind how long it takes.
    """
    facts = await _look(session, job_id)
    if facts is not None:
        await _measure(session, facts, pace)
        because, sentence = explain_live(facts)
        return Explanation(f"Job {job_id} {sentence}", facts["state"], _evidence(facts), because)
    past = await queue_sql.find_job.first(session, id=job_id)
    if past is not None:
        return Explanation(f"Job {job_id} {_tell_past(past)}", past["state"], _evidence(dict(past)), past["state"])
    sentence = f"There is no job {job_id}, neither alive nor in the history."
    return Explanation(sentence, "not found", {}, "not found")


async def _look(session: Session, job_id: int) -> dict[str, Any] | None:
    """What is known of a live job, and what only its state needs to know; anew if it has moved between the two looks."""
    further = {"ready": sql.explain_gates, "later": sql.explain_gates, "waiting": sql.explain_family}
    while (row := await sql.explain_job.first(session, id=job_id)) is not None:
        if row["state"] not in further:
            return dict(row)
        more = await further[row["state"]].first(session, id=job_id)
        if more is not None and (more["state"], more["attempt"]) == (row["state"], row["attempt"]):
            return {**row, **more}
    return None


async def _measure(session: Session, facts: dict[str, Any], pace: Pace | None) -> None:
    """Adds how long it takes, as far as its sentence tells it."""
    facts |= {"pace": pace, "mean": None, "rivals": None, "schema": ""}
    if facts["state"] == "running" and pace is None:
        facts["pace"], facts["mean"] = await read_pace(session, facts["queue"], facts["kind"])
    if facts["state"] != "ready" or facts["paused_since"] is not None:
        return
    if facts["open_workers"]:
        facts["pace"], facts["mean"] = await read_pace(session, facts["queue"], facts["kind"])
        if not facts["suspect"] and facts["shut"] is None:
            line = {name: facts[name] for name in ("queue", "lane", "priority")}
            facts["rivals"] = await read_line(session, **line)
    elif await sql.may_see_schema.value(session):
        try:
            await check_schema(session)
        except SchemaMismatch as mismatch:
            facts["schema"] = str(mismatch)


def _evidence(row: Row) -> dict[str, Any]:
    """The row as plain values; what is not known is left out."""
    facts = {key: value for key, value in row.items() if value is not None}
    for key in ("error", "progress", "args", "result", "attempts", "permits_of"):
        if key in facts:
            facts[key] = json.loads(facts[key])
    if facts.get("rivals") is not None:
        start = start_of(row)
        facts["other_lanes"] = len(facts.pop("rivals"))
        if start is not None:
            facts["expected_start_seconds"] = start.total_seconds()
    if "pace" in facts:
        facts["pace"] = facts["pace"].as_json()
    if "mean" in facts:
        facts["queue_mean_seconds"] = facts.pop("mean").total_seconds()
    if not facts.get("schema"):
        facts.pop("schema", None)
    return facts


def _tell_past(row: Record) -> str:
    error = json.loads(row["error"]) if row["error"] else {}
    at = f"{row['finished_at']:%Y-%m-%d %H:%M:%S} UTC"
    match row["state"]:
        case "done":
            return f"is done: {row['kind']} ended at {at} in attempt {row['attempt']}."
        case "discarded":
            reason = error.get("discarded", "no reason given")
            return f"was discarded at {at}: {reason}. It had failed with: {tell_error(error)}."
    if error.get("class") == "Cancelled":
        return f"was cancelled at {at}: {error['message']}."
    return f"was cancelled at {at}." + (f" Before that it had failed with: {tell_error(error)}." if error else "")
