"""The queue without workers: tests claim, settle, heartbeat and rescue by hand, and move the clock."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from asyncpg import Record

from penstock.database import Database, Session, Statement
from penstock.engine import Call, JobId, Kind
from penstock.engine.claim import Claimer, Lanes
from penstock.engine.context import Context, Runtime
from penstock.engine.fleet import Registration, register
from penstock.engine.fleet import sql as fleet_sql
from penstock.engine.job import Job, Outcome
from penstock.engine.kinds import Kinds
from penstock.engine.limits.declare import Limits
from penstock.engine.limits.exchange import Limiters
from penstock.engine.maintenance import DEATHS_ALLOWED, rescue
from penstock.engine.maintenance import sql as chores_sql
from penstock.engine.queue import Order, enqueue_orders
from penstock.engine.queue import sql as queue_sql
from penstock.engine.settle import Settlement, Settler, settle
from tests.engine.limited_role import limited_role


async def do_nothing(ctx: Any, n: int = 0) -> None:
    """A handler for jobs that no test runs."""


def make_kind(name: str = "nothing", **options: Any) -> Kind:
    return Kind(name, do_nothing, **options)


nothing = make_kind()


class JobQueue:
    """A database with jobs, and workers that are only rows."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.lanes = Lanes()
        self.claimers: dict[int, Claimer] = {}

    def close(self) -> None:
        for claimer in self.claimers.values():
            claimer.close()
        self.claimers.clear()

    async def claim_quarantined(self, worker_id: int) -> Job | None:
        return await self.claimers[worker_id].claim_quarantined(["default"])

    async def run(self, query: str, *arguments: Any) -> list[Record]:
        async with self.database.pool.session() as session:
            rows: list[Record] = await session.fetch(query, *arguments)
            return rows

    async def run_statement(self, statement: Statement, **values: Any) -> list[Record]:
        async with self.database.pool.session() as session:
            return await statement(session, **values)

    async def enqueue(self, *calls: Call, **options: Any) -> list[JobId]:
        orders = [Order(call, **options) for call in calls or (nothing(),)]
        ids = await self.lanes.ids(self.database, (order.lane for order in orders))
        async with self.database.pool.transaction() as tx:
            return await enqueue_orders(tx, ids, orders)

    async def worker(self, *kinds: Kind, lease: float = 15) -> int:
        kinds = kinds or (nothing,)
        member = Registration(
            queues=sorted({kind.queue for kind in kinds}),
            kinds=[kind.name for kind in kinds],
            slots=10,
            lease=timedelta(seconds=lease),
        )
        async with self.database.pool.session() as session:
            worker_id = await register(session, member)
        self.claimers[worker_id] = Claimer(self.database, self.lanes, worker_id)
        return worker_id

    async def claim(self, worker_id: int, slots: int = 10, queue: str = "default") -> list[Job]:
        """As many as there are, up to the slots: a claim may stop at a lane that has run dry."""
        jobs: list[Job] = []
        while len(jobs) < slots and (more := await self.claimers[worker_id].claim({queue: slots - len(jobs)})):
            jobs += more
        return jobs

    async def settle(self, worker_id: int, *outcomes: tuple[Job, Outcome]) -> set[int]:
        async with self.database.pool.transaction() as tx:
            return await settle(tx, worker_id, [Settlement(job, outcome, 0.1) for job, outcome in outcomes])

    def context(self, job: Job, worker_id: int, kind: Kind = nothing, code: str = "") -> Context:
        pool = self.database.pool
        nobody = Limiters(Limits(), Kinds(), lambda: 0.0, lambda: None)
        lanes = partial(self.lanes.ids, self.database)
        return Context(job, kind, Runtime(pool, Settler(pool, worker_id), worker_id, code, lanes, nobody))

    async def heartbeat(self, worker_id: int) -> Record | None:
        async with self.database.pool.session() as session:
            return await fleet_sql.heartbeat.first(session, worker_id=worker_id, draining=False, load="{}")

    async def look(self, worker_id: int = 0) -> list[int]:
        """One round of every worker's duty: who is gone, by the lock or by the lease."""
        async with self.database.pool.session() as session:
            await chores_sql.note_missing_locks.run(session, worker_id=worker_id)
            return [row["id"] for row in await chores_sql.declare_gone(session, worker_id=worker_id)]

    async def rescue(self, gone_id: int) -> set[int]:
        async with self.database.pool.session() as session:
            return await rescue(session, gone_id)

    async def lose(self, worker_id: int) -> None:
        """The worker's lease ends, and its jobs are taken back."""
        await self.run(
            "update penstock.workers set heartbeat_at = heartbeat_at - interval '1 hour' where id = $1", worker_id
        )
        assert worker_id in await self.look()
        await self.rescue(worker_id)

    async def promote(self) -> int:
        async with self.database.pool.session() as session:
            return len(await chores_sql.promote_jobs(session, batch=500))

    async def advance(self, seconds: float) -> None:
        await self.run("update penstock.test_clock set shift = shift + $1", timedelta(seconds=seconds))

    async def find(self, job_id: int) -> Record:
        async with self.database.pool.session() as session:
            row = await queue_sql.find_job.first(session, id=job_id)
        assert row is not None, f"job {job_id} is lost"
        return row

    async def state(self, job_id: int) -> str:
        return str((await self.find(job_id))["state"])


@pytest.fixture
async def job_queue(database: Database) -> AsyncIterator[JobQueue]:
    job_queue = JobQueue(database)
    yield job_queue
    job_queue.close()


__all__ = ["DEATHS_ALLOWED", "JobQueue", "Session", "limited_role", "make_kind", "nothing"]
