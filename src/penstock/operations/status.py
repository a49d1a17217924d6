"""How things are, as `penstock status` and `GET /api/status` tell it: counts, workers, and first of all what is wrong.

It looks at documents, not at the machinery below them: that is `doctor`'s. The SQL is in status.sql.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents import counts
from penstock.engine import Penstock
from penstock.engine.fleet import sql as fleet_sql
from penstock.engine.queue import sql as queue_sql
from penstock.engine.wording import counted, span

sql = statements(__file__)

STATES = ("ready", "later", "running", "waiting", "dead")
OLD_AFTER = timedelta(minutes=5)
MOST_CAUSES = 10
KIND = "prepare_document"


async def read_status(app: Penstock, *, collection: str | None = None, tenant: str = "default") -> dict[str, Any]:
    """Everything, or what belongs to one collection: documents, jobs, workers, problems."""
    documents = await counts(app, collection, tenant=tenant)
    share = collection if collection is None or tenant == "default" else f"{tenant}/{collection}"

    async def look(session: Session) -> tuple[list[Record], ...]:
        return (
            await sql.count_jobs(session, share=share),
            await fleet_sql.workers(session, gone_within=timedelta(0)),
            await sql.oldest_queued(session, tenant=tenant, collection=collection),
            await sql.failed_by_cause(session, tenant=tenant, collection=collection, most=MOST_CAUSES),
            await queue_sql.pauses(session),
        )

    jobs, workers, oldest, causes, pauses = await app.database.pool.repeat(look)
    found = {row["state"]: {key: row[key] for key in ("count", "leased", "attempted")} for row in jobs}
    return {
        "documents": documents,
        "jobs": {state: found.get(state, {"count": 0, "leased": 0, "attempted": 0}) for state in STATES},
        "workers": [_describe(worker) for worker in workers],
        "problems": [
            *_find_worker_problems(workers, documents),
            *_find_pauses(pauses),
            *_find_waiting(oldest),
            *_find_failed(causes),
        ],
    }


def _describe(worker: Record) -> dict[str, Any]:
    silent = worker["silent_for"] > worker["lease"]
    return {
        "id": worker["id"],
        "name": worker["name"],
        "host": worker["host"],
        "pid": worker["pid"],
        "status": "silent" if silent else "draining" if worker["draining"] else "alive",
        "serves_documents": KIND in worker["kinds"],
        "running": worker["running"],
        "slots": worker["slots"],
        "started_at": worker["started_at"],
        "beat_at": worker["beat_at"],
        "load": json.loads(worker["load"]),
    }


def _find_worker_problems(workers: list[Record], documents: dict[str, int]) -> Iterator[str]:
    alive = [worker for worker in workers if worker["silent_for"] <= worker["lease"]]
    serving = [worker for worker in alive if KIND in worker["kinds"] and not worker["draining"]]
    unfinished = documents["queued"] + documents["processing"]
    if not serving:
        waiting = f" {counted(unfinished, 'document')} {'waits' if unfinished == 1 else 'wait'}." if unfinished else ""
        whom = "No worker is running" if not alive else "No running worker serves documents"
        yield f"{whom}.{waiting} Start one with `penstock worker`, or everything with `penstock up`."
    for worker in workers:
        if worker not in alive:
            yield f"The worker {worker['name']} has been silent for {span(worker['silent_for'])}: `penstock doctor`."


def _find_pauses(pauses: list[Record]) -> Iterator[str]:
    for pause in pauses:
        what, name = pause["what"], pause["name"]
        yield f"The {what} {name} is paused ({pause['reason']}): `penstock resume --{what} {name}`."


def _find_waiting(oldest: list[Record]) -> Iterator[str]:
    for row in oldest:
        if row["age"] > OLD_AFTER:
            yield f"Document {row['id']} ({row['name']}) has waited for {span(row['age'])}: `penstock why {row['id']}`."


def _find_failed(causes: list[Record]) -> Iterator[str]:
    for cause in causes:
        example = f"{cause['id']} ({cause['name']}): {(cause['message'] or 'no reason is known').rstrip('.')}"
        number = counted(cause["count"], "document")
        yield f"{number} failed ({cause['cause']}), such as {example}. `penstock why {cause['id']}` says more."
