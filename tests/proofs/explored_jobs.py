"""Jobs and families in the database of an exploration, and what was explored."""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.database import Session
from penstock.engine.children import Suspended
from penstock.engine.job import Job
from penstock.engine.queue import sql as queue_sql
from tests.engine.conftest import nothing
from tests.proofs.explore import Explored, ProofDatabase
from tests.proofs.stepped_session import SAVEPOINTS

BEGIN = ("BEGIN", *SAVEPOINTS)
LEASE_OVER = "update penstock.workers set heartbeat_at = heartbeat_at - interval '1 hour' where id = $1"
Answers = Mapping[str, Any]


async def running_job(
    proof_database: ProofDatabase, *, lost: bool = False, unique: str | None = None
) -> tuple[int, Job]:
    """A worker with one job; `lost`: its lease is over, and nobody has said so yet."""
    await proof_database.job_queue.enqueue(unique=unique)
    worker = await proof_database.job_queue.worker()
    [job] = await proof_database.job_queue.claim(worker)
    if lost:
        await proof_database.job_queue.run(LEASE_OVER, worker)
    return worker, job


async def state_of(session: Session, number: int) -> tuple[str, int]:
    """And the attempt."""
    row = await queue_sql.find_job.first(session, id=number)
    assert row is not None
    return row["state"], row["attempt"]


def told(explored: Explored, number: int) -> None:
    print(f"\n{explored}")  # noqa: T201  the number is the point
    assert explored.schedules == number, f"{explored}: if an actor has other statements now, say the new number"


async def fan_out(proof_database: ProofDatabase, children: int = 2, parents: int = 1) -> tuple[int, list[Job]]:
    """Parents that wait, and their children, which run on another worker; in the order of their numbers."""
    await proof_database.job_queue.enqueue(*(nothing(n=-n) for n in range(parents)))
    maker, worker = await proof_database.job_queue.worker(), await proof_database.job_queue.worker()
    for job in await proof_database.job_queue.claim(maker):
        with pytest.raises(Suspended):
            await proof_database.job_queue.context(job, maker).map("m", [nothing(n=n) for n in range(children)])
    return worker, sorted(await proof_database.job_queue.claim(worker), key=lambda job: job.id)


async def parent_states(session: Session) -> list[str]:
    rows = await session.fetch("select state::text from penstock.jobs where fanout is null order by id")
    return [row["state"] for row in rows]
