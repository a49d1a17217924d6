"""The status of documents, jobs and workers, problems first: `penstock status` and `GET /api/status`.

It covers documents, not the engine below them, which `doctor` examines.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents import count_documents
from penstock.engine import Penstock, WorkerState, list_workers, pauses
from penstock.engine.inspect import count_jobs
from penstock.text import counted, span

sql = statements(__file__)

OLD_AFTER = timedelta(minutes=5)
MOST_CAUSES = 10
KIND = "prepare_document"


async def read_status(app: Penstock, *, collection: str | None = None, tenant: str = "default") -> dict[str, Any]:
    """Everything, or what belongs to one collection: documents, jobs, workers, problems."""
    documents = await count_documents(app, collection, tenant=tenant)
    fairness_key = collection if collection is None or tenant == "default" else f"{tenant}/{collection}"

    async def look(session: Session) -> tuple[Any, ...]:
        return (
            await count_jobs(session, fairness_key),
            await list_workers(session),
            await sql.oldest_queued(session, tenant=tenant, collection=collection),
            await sql.failed_by_cause(session, tenant=tenant, collection=collection, most=MOST_CAUSES),
            await pauses(session),
        )

    jobs, workers, oldest, causes, paused = await app.database.pool.repeat(look)
    return {
        "documents": documents,
        "jobs": jobs,
        "workers": [_describe(worker) for worker in workers],
        "problems": [
            *_find_worker_problems(workers, documents),
            *_find_pauses(paused),
            *_find_waiting(oldest),
            *_find_failed(causes),
        ],
    }


def _describe(worker: WorkerState) -> dict[str, Any]:
    known = ("id", "name", "host", "pid", "status", "running", "slots", "started_at", "heartbeat_at", "load")
    return {key: getattr(worker, key) for key in known} | {"serves_documents": KIND in worker.kinds}


def _find_worker_problems(workers: list[WorkerState], documents: dict[str, int]) -> Iterator[str]:
    alive = [worker for worker in workers if worker.status != "silent"]
    serving = [worker for worker in alive if KIND in worker.kinds and not worker.draining]
    unfinished = documents["queued"] + documents["processing"]
    if not serving:
        waiting = f" {counted(unfinished, 'document')} {'waits' if unfinished == 1 else 'wait'}." if unfinished else ""
        whom = "No worker is running" if not alive else "No running worker serves documents"
        yield f"{whom}.{waiting} Start one with `penstock worker`, or everything with `penstock up`."
    for worker in workers:
        if worker.status == "silent":
            yield f"The worker {worker.name} has been silent for {span(worker.silent_for)}: `penstock doctor`."


def _find_pauses(pauses: list[Record]) -> Iterator[str]:
    for pause in pauses:
        what, name = pause["what"], pause["name"]
        resume = f"penstock resume --{what.replace('_', '-')} {name}"
        yield f"The {what.replace('_', ' ')} {name} is paused ({pause['reason']}): `{resume}`."


def _find_waiting(oldest: list[Record]) -> Iterator[str]:
    for row in oldest:
        if row["age"] > OLD_AFTER:
            yield f"Document {row['id']} ({row['name']}) has waited for {span(row['age'])}: `penstock why {row['id']}`."


def _find_failed(causes: list[Record]) -> Iterator[str]:
    for cause in causes:
        example = f"{cause['id']} ({cause['name']}): {(cause['message'] or 'no reason is known').rstrip('.')}"
        number = counted(cause["count"], "document")
        yield f"{number} failed ({cause['cause']}), such as {example}. `penstock why {cause['id']}` says more."
