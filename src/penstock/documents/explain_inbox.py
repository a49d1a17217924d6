"""Why a message of a source is not a document yet, and why nothing comes from a source. The SQL is in explain_inbox.sql."""

import json
from functools import partial
from typing import Any

from asyncpg import Record

from penstock.database import statements
from penstock.engine import Penstock
from penstock.engine.explain import Explanation, explain
from penstock.engine.wording import counted, moment, span, up_to
from penstock.settings.arriving import SourceSettings

sql = statements(__file__)

COUNTED_TO = 10_000
LATE_AFTER = 10  # times `poll_every`, and at least a minute, without an answer


async def explain_message(app: Penstock, number: int, *, tenant: str = "default") -> Explanation | None:
    """None if there is no such message."""
    row = await app.database.pool.repeat(partial(sql.show_message.first, message=number, tenant=tenant))
    if row is None:
        return None
    facts = dict(row) | {"error": None if row["error"] is None else json.loads(row["error"])}
    name = f"Message {number} ({row['message_id']} of the source {row['source']})"
    evidence: dict[str, Any] = {"message": {key: value for key, value in facts.items() if value is not None}}
    if row["state"] == "taken":
        return Explanation(f"{name} {_tell_taken(row)}", "taken", evidence, "taken")
    if row["state"] == "failed":
        error = facts["error"] or {}
        message = str(error.get("message", "no reason was kept")).rstrip(". ")
        said = f"has failed ({error.get('type') or error.get('class', 'unknown')}): {message}."
        return Explanation(
            f"{name} {said} When the cause is mended: `penstock inbox retry {number}`.", "failed", evidence, "failed"
        )
    job = await app.database.pool.repeat(lambda session: explain(session, row["job_id"]))
    evidence["job"] = vars(job)
    said = job.sentence.removeprefix(f"Job {row['job_id']} ").replace(
        "`penstock worker module:app`", "`penstock worker` or `penstock up`"
    )
    return Explanation(f"{name} {said} Then it becomes a document.", "waiting", evidence, job.because)


def _tell_taken(row: Record) -> str:
    if row["document_id"] is None:
        return "was taken; what it became was deleted and removed."
    return f"was taken: it is document {row['document_id']} (`penstock why {row['document_id']}`)."


async def find_message(app: Penstock, reference: str, *, tenant: str = "default") -> int | None:
    """By `source/number at the source`."""
    source, _, number = reference.partition("/")
    if not number:
        return None
    found: int | None = await app.database.pool.repeat(
        partial(sql.find_message.value, source=source, message_id=number, tenant=tenant)
    )
    return found


async def explain_source(app: Penstock, name: str, *, tenant: str = "default") -> Explanation | None:
    """None if neither the settings nor the database know it."""
    chosen = app.settings.sources.get(name)
    row = await app.database.pool.repeat(partial(sql.show_source.first, name=name, tenant=tenant, most=COUNTED_TO + 1))
    if row is None:
        if chosen is None or chosen.tenant != tenant:
            return None
        said = f"Source {name} was never read: start a worker that runs it, with `penstock worker` or `penstock up`."
        return Explanation(said, "unread", {}, "unread")
    because, said = tell_source(dict(row), chosen)
    evidence = {"source": {key: value for key, value in row.items() if value is not None}}
    return Explanation(f"Source {name} {said}", because, evidence, because)


def tell_source(row: dict[str, Any], chosen: SourceSettings | None) -> tuple[str, str]:
    """One word and the sentence behind "Source orders"; `doctor` tells of it with the same words."""
    now = row["now"]
    if row["error"] is not None:
        return "trouble", (
            f"does not answer since {moment(row['error_since'], now)}: {row['error'].rstrip('.')}. It is tried again all the "
            f"time; check its address and credentials in [sources.{row['name']}], then `penstock sources check {row['name']}`."
        )
    if chosen is None:
        return "unknown", (
            f"is not in the settings of this machine: its messages wait for a worker that has [sources.{row['name']}]."
        )
    if row["waiting"] + row["failed"] >= chosen.waiting:
        return "full", (
            f"is not read further: {up_to(row['waiting'], COUNTED_TO, 'message')} {'waits' if row['waiting'] == 1 else 'wait'} "
            f"and {row['failed']:,} failed, of "
            f"{chosen.waiting:,} that may. Start another worker, or see `penstock inbox --source {row['name']} --state failed`."
        )
    late = max(LATE_AFTER * chosen.poll_every.total_seconds(), 60.0)
    if chosen.type != "webhook" and (row["polled_at"] is None or (now - row["polled_at"]).total_seconds() > late):
        since = "was never read" if row["polled_at"] is None else f"was not read for {span(now - row['polled_at'])}"
        return "late", f"{since}: no worker runs it. Start one with `penstock worker` or `penstock up`."
    failed = f", and {counted(row['failed'], 'message')} failed" if row["failed"] else ""
    waiting = up_to(row["waiting"], COUNTED_TO, "message")
    answered = "" if row["polled_at"] is None else f" answered {span(now - row['polled_at'])} ago;"
    return "well", f"is read:{answered} {waiting} {'waits' if row['waiting'] == 1 else 'wait'}{failed}."
