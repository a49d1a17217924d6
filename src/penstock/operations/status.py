"""The status of documents, jobs and workers: `penstock status` and `GET /api/status`.

Problems are the findings of `doctor`. Documents that could not be read because of their content have a list of their own: they
are not a problem of operation.
"""

from collections.abc import Sequence
from typing import Any

from penstock.database import Session, all_tenants
from penstock.documents import PREPARE, UnreadDocument, count_documents, list_unread
from penstock.engine import Penstock, WorkerState, list_workers
from penstock.engine.inspect import count_jobs
from penstock.operations.doctor import MOST_UNREAD, Finding, examine, examine_session


async def read_status(
    app: Penstock, *, collection: str | None = None, tenant: str = "default", thorough: bool = False
) -> dict[str, Any]:
    """Documents, jobs and unread documents of the tenant, or of one collection; the workers, and the findings.

    `thorough`: also the findings that need connections of their own, as `doctor` has them.
    """
    documents = await count_documents(app, collection, tenant=tenant)
    fairness_key = collection if collection is None or tenant == "default" else f"{tenant}/{collection}"
    pooled = app.database.endpoint.address.pooled

    async def read(session: Session) -> tuple[dict[str, Any], list[WorkerState], list[Finding]]:
        findings = [] if thorough else await examine_session(session, app.settings, pooled=pooled)
        return await count_jobs(session, fairness_key), await list_workers(session), findings

    with all_tenants():  # findings are about all of them
        jobs, workers, findings = await app.database.pool.repeat(read)
    return {
        "documents": documents,
        "jobs": jobs,
        "workers": [_describe(worker) for worker in workers],
        "findings": await examine(app.settings) if thorough else findings,
        **await read_unread(app, collection=collection, tenant=tenant),
    }


async def read_unread(
    app: Penstock, *, collection: str | None = None, among: Sequence[int] | None = None, tenant: str = "default"
) -> dict[str, Any]:
    """The newest documents that could not be read, and how many there are; `among` some collections, by id."""

    async def read(session: Session) -> tuple[list[UnreadDocument], int]:
        return await list_unread(session, tenant=tenant, collection=collection, among=among, most=MOST_UNREAD)

    unread, count = await app.database.pool.repeat(read)
    return {"unread": unread, "unread_count": count}


def _describe(worker: WorkerState) -> dict[str, Any]:
    known = ("id", "name", "host", "pid", "status", "running", "slots", "started_at", "heartbeat_at", "load")
    return {key: getattr(worker, key) for key in known} | {"serves_documents": PREPARE in worker.kinds}
