"""The matrix: a worker meets a fault at a failpoint, another one takes over, and everything must be done exactly once.

Not part of `./dev test`: `./dev prove` runs the pairwise selection, `./dev prove --full` all cells. The armed worker is
alone until it has met its fault, so that a run which does not reach the failpoint is noticed. Then a healthy one comes. A
stopped process goes on after the others have done its work.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from penstock import Penstock
from penstock.settings import DatabaseUrl
from tests.proofs.all_invariants import violations
from tests.proofs.failpoint_worker import TABLES, WORKLOADS, Workload
from tests.proofs.matrix import Cell, all_cells, pairwise
from tests.scenarios.worker_processes import WorkerProcess, WorkerProcesses

CELLS = all_cells() if os.environ.get("PENSTOCK_TEST_MATRIX") == "full" else pairwise(all_cells())
JOBS = 5


@pytest.fixture
async def worker_processes(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[WorkerProcesses]:
    connection = await asyncpg.connect(database_url.reveal())
    await connection.execute(TABLES)
    environ = {"PENSTOCK_DATABASE_URL": database_url.reveal()}
    async with Penstock(database_url=database_url, home=tmp_path, pool={"size": 2}) as client:
        worker_processes = WorkerProcesses(
            client, connection, tmp_path, environ, module="tests.proofs.failpoint_worker"
        )
        try:
            yield worker_processes
        finally:
            await worker_processes.stop()
    await connection.close()


@pytest.mark.parametrize("cell", CELLS, ids=str)
async def test_everything_is_done_once(worker_processes: WorkerProcesses, cell: Cell) -> None:
    workload = WORKLOADS[cell.workload]
    options = ["--schedule"] if workload.scheduled else []
    armed = f"{cell.point}={cell.fault}"
    if cell.point == "before-rescue":  # somebody takes the jobs and dies; the armed worker is the one who finds out
        victim = await worker_processes.start(*options, PENSTOCK_TEST_FAILPOINTS="after-claim=kill")
        await put_in(worker_processes, workload)
        await until_met(victim, "kill")
        worker = await worker_processes.start(*options, ready=False, PENSTOCK_TEST_FAILPOINTS=armed)
    elif cell.point == "before-promote":  # passed with the first heartbeat: what is due must be there before
        await put_in(worker_processes, workload)
        worker = await worker_processes.start(*options, ready=False, PENSTOCK_TEST_FAILPOINTS=armed)
    else:
        worker = await worker_processes.start(*options, PENSTOCK_TEST_FAILPOINTS=armed)
        await put_in(worker_processes, workload)
    await until_met(worker, cell.fault)
    await worker_processes.start(*options)
    if workload.scheduled:
        await worker_processes.until("select fired = 1 from penstock.schedules")
    await worker_processes.until_over(within=30)
    await assert_done_once(worker_processes, cell, workload)
    if cell.fault == "stop":
        await worker_processes.until(
            "select exists (select from penstock.workers where pid = $1 and gone_at is not null)", worker.pid
        )
        worker.signal(signal.SIGCONT)
        await worker.until("joining the fleet again")
        await assert_done_once(worker_processes, cell, workload)


async def put_in(worker_processes: WorkerProcesses, workload: Workload) -> None:
    """Everything is accepted at once; a schedule's hour passes at once, too."""
    if workload.scheduled:
        await worker_processes.until("select exists (select from penstock.schedules)")
        await worker_processes.connection.execute("update penstock.test_clock set shift = shift + interval '1 hour'")
        await worker_processes.until("select fired = 1 or next_at <= penstock.now() from penstock.schedules")
        return
    calls = [workload.call(n=n) for n in range(JOBS)]
    numbers = await worker_processes.client.enqueue_many(calls, run_in="300ms" if workload.later else None)
    await worker_processes.connection.execute(
        "insert into kept.jobs select id, 0 from unnest($1::bigint[]) as id", numbers
    )


async def until_met(worker: WorkerProcess, fault: str) -> None:
    """A run that does not reach its failpoint proves nothing."""
    if fault == "kill":
        assert await worker.end() == -signal.SIGKILL, worker.logged
        return
    await worker.until("failpoint reached", within=30)
    if fault != "stop":  # what it raises may end it
        return
    process = psutil.Process(worker.pid)
    async with asyncio.timeout(5):
        while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110  no event for that
            await asyncio.sleep(0.01)


async def assert_done_once(worker_processes: WorkerProcesses, cell: Cell, workload: Workload) -> None:
    connection = worker_processes.connection
    assert await connection.fetchval("select count(*) from penstock.jobs") == 0, "nothing is left alive"
    over = await connection.fetch(
        "select id, args, outcome, result, failures from penstock.job_history where fanout is null order by id"
    )
    expected = [1] if workload.scheduled else list(range(JOBS))
    assert [json.loads(row["args"])["n"] for row in over] == expected
    assert {row["outcome"] for row in over} == {"done"}
    assert [json.loads(row["result"]) for row in over] == [workload.returns(n) for n in expected]
    assert cell.fault == "raise" or not any(row["failures"] for row in over), "nobody is charged for a lost worker"
    effects = await connection.fetch("select job, value from proofs.effects order by job")
    assert [(row["job"], row["value"]) for row in effects] == (
        [(row["id"], json.loads(row["result"])) for row in over] if workload.effects else []
    )
    assert await violations(connection) == []
