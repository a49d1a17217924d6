"""`penstock worker` as a person uses it: real processes, real signals, its port."""

import asyncio
import os
import signal
import socket
import time

import asyncpg
import pytest

from penstock.settings import DatabaseUrl
from tests.application import Application, address_of, fetch
from tests.metrics_samples import metrics


async def test_it_runs_jobs_and_leaves_the_fleet(application: Application) -> None:
    worker = await application.worker()
    job = await application.enqueue("greet", name="Bob")
    assert await application.client.result(job, timeout="10s") == "Hello, Bob"
    os.kill(worker.pid, signal.SIGTERM)
    assert await worker.end() == 0
    [row] = await application.run("select gone_why from penstock.workers")
    assert row["gone_why"] == "left"


async def test_sigterm_waits_for_what_runs(application: Application) -> None:
    worker = await application.worker("--drain", "10s")
    job = await application.enqueue("rest", queue="slow", seconds=2.0)
    await application.until_state(job, "running")
    os.kill(worker.pid, signal.SIGTERM)
    assert await worker.end() == 0
    await application.until_state(job, "done")


async def test_sigterm_gives_back_after_the_drain(application: Application) -> None:
    worker = await application.worker("--drain", "500ms")
    job = await application.enqueue("rest", queue="slow")
    await application.until_state(job, "running")
    began = time.monotonic()
    os.kill(worker.pid, signal.SIGTERM)
    assert await worker.end() == 0
    assert time.monotonic() - began > 0.5
    await application.until_state(job, "ready")


async def test_sigint_gives_back_at_once(application: Application) -> None:
    worker = await application.worker()
    job = await application.enqueue("rest", queue="slow")
    await application.until_state(job, "running")
    began = time.monotonic()
    os.kill(worker.pid, signal.SIGINT)
    assert await worker.end() == 0
    assert time.monotonic() - began < 15, "the drain would take 20 s"
    [row] = await application.run("select state, failures, quarantined from penstock.jobs where id = $1", job)
    assert tuple(row) == ("ready", 0, False), "nothing is charged"


async def test_a_second_signal_is_immediate(application: Application) -> None:
    worker = await application.worker()
    job = await application.enqueue("rest", queue="slow")
    await application.until_state(job, "running")
    os.kill(worker.pid, signal.SIGTERM)
    await application.until("select from penstock.workers where draining")
    os.kill(worker.pid, signal.SIGTERM)
    assert await worker.end(2) == 128 + signal.SIGTERM


async def test_only_the_named_queues_are_served(application: Application) -> None:
    await application.worker("--queues", "default=3,slow=1")
    [row] = await application.run("select queues, kinds, slots from penstock.workers")
    assert row["queues"] == ["default", "slow"]
    assert row["kinds"] == ["block", "greet", "read", "rest"]
    assert row["slots"] == 4


async def test_without_an_application_it_serves_documents(application: Application) -> None:
    worker = await application.worker("--port", "0", place="")
    await worker.until("worker started")
    [row] = await application.run("select queues, kinds from penstock.workers")
    assert {"documents", "inbox", "models", "redrive", "upkeep"} <= set(row["queues"])
    assert {"prepare_document", "ocr_pages"} < set(row["kinds"])
    assert (await fetch(address_of(worker), "/health/ready"))[0] == 200
    os.kill(worker.pid, signal.SIGTERM)
    assert await worker.end() == 0


BROKEN = {
    "absent": ("nowhere:app", "Module nowhere does not exist in"),
    "no name": ("shop:queue", "Module shop has no queue: give the name of its Penstock()."),
    "another thing": ("shop:greet", "shop:greet is a Kind, not a Penstock"),
    "nonsense": ("shop app", "'shop app' is not an application"),
    "no job": ("empty:app", "empty:app declares no job"),
    "it raises": ("raises", "Importing raises failed in"),
    "it imports": ("imports", "imports imports no_such_package, which is not installed"),
}


@pytest.mark.parametrize(("place", "sentence"), BROKEN.values(), ids=BROKEN)
async def test_an_application_that_cannot_be_used(application: Application, place: str, sentence: str) -> None:
    (application.folder / "empty.py").write_text("from penstock import Penstock\napp = Penstock()\n")
    (application.folder / "raises.py").write_text("1 / 0\n")
    (application.folder / "imports.py").write_text("import no_such_package\n")
    code, said = await application.penstock("worker", place)
    assert (code, sentence in said, "Traceback" in said) == (2, True, False), said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--queues", "slow"), "'slow' is not a queue and its concurrency"),
        (("--queues", "fast=1"), "the application declares no job for fast"),
        (("--queues", "slow=1", "--concurrency", "3"), "not both"),
        (("--drain", "soon"), "--drain: 'soon' is not a duration"),
        (("--drain", "-1"), "--drain"),
    ],
)
async def test_options_that_cannot_be_used(application: Application, options: tuple[str, ...], sentence: str) -> None:
    code, said = await application.penstock("worker", "shop:app", *options)
    assert (code, sentence in said, "Traceback" in said) == (2, True, False), said


async def until_status(address: str, wanted: int) -> str:
    """Ask until the readiness has this status; the answer."""
    async with asyncio.timeout(15):
        while True:
            status, said = await fetch(address, "/health/ready")
            if status == wanted:
                return said
            await asyncio.sleep(0.02)


# -- its port -----------------------------------------------------------------------------------------------------


async def test_the_port_tells_what_the_process_does(application: Application) -> None:
    worker = await application.worker("--port", "0", "--queues", "default=10,slow=1")
    address = address_of(worker)
    assert await fetch(address, "/health/live") == (200, '{"status":"live"}')
    assert await fetch(address, "/health/ready") == (200, '{"status":"ready","problems":[]}')
    await application.client.result(await application.enqueue("greet"), timeout="10s")
    read = await application.enqueue("read")
    await application.until_state(read, "dead")
    [resting, *waiting] = [await application.enqueue("rest", queue="slow") for _ in range(3)]
    await application.until_state(resting, "running")
    samples = await metrics(address)
    assert samples["penstock_job_attempts_total class= kind=greet outcome=done"] == 1
    assert samples["penstock_job_attempts_total class=Permanent kind=read outcome=dead"] == 1
    assert samples["penstock_job_seconds_count kind=greet"] == 1
    assert samples["penstock_job_seconds_max kind=greet"] >= samples["penstock_job_seconds_min kind=greet"] > 0
    assert samples["penstock_handlers_running kind=rest"] == 1
    assert samples["penstock_pool_connections state=size"] == 4
    assert samples["penstock_pool_connections state=waiting"] == 0
    assert samples["penstock_pool_hold_seconds_count"] > 0
    assert samples["penstock_fenced_writes_total"] == 0
    assert samples["penstock_loop_lag_seconds"] < 1
    assert samples["penstock_workers_alive"] == 1
    assert samples["penstock_lane_ready_jobs fairness_key=default kind=rest queue=slow"] == len(waiting)
    assert samples["penstock_lane_oldest_seconds fairness_key=default kind=rest queue=slow"] < 60


async def test_not_ready_when_the_database_is_away(application: Application, database_url: DatabaseUrl) -> None:
    worker = await application.worker("--port", "0")
    address = address_of(worker)
    # Nobody may connect, and everybody is cut: to the worker it looks like a server that is gone.
    [[name]] = await application.run("select current_database()")
    admin = await asyncpg.connect(database_url.with_database("postgres").reveal())
    await admin.execute(f"alter database {name} allow_connections false")
    try:
        await application.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'penstock-worker%'"
        )
        assert "PostgreSQL" in await until_status(address, 503)
        assert (await fetch(address, "/health/live"))[0] == 200
        assert "penstock_lane_ready_jobs" not in (await fetch(address, "/metrics"))[1], "absent rather than old"
    finally:
        await admin.execute(f"alter database {name} allow_connections true")
        await admin.close()


async def test_not_ready_for_a_while_after_the_loop_was_blocked(application: Application) -> None:
    worker = await application.worker("--port", "0")
    job = await application.enqueue("block", seconds=2.5)
    await application.until_state(job, "done")
    status, said = await fetch(address_of(worker), "/health/ready")
    assert (status, "The event loop was blocked for 2." in said) == (503, True)


async def test_not_ready_when_the_lease_is_lost(application: Application) -> None:
    worker = await application.worker("--port", "0")
    address = address_of(worker)
    await until_status(address, 200)
    await application.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'its lease ended'")
    said = await until_status(address, 503)
    assert "The lease is lost, and other workers have the jobs: its lease ended" in said
    await worker.until("joining the fleet again")
    await until_status(address, 200)


async def test_a_port_in_use(application: Application) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = await application.penstock("worker", "shop:app", "--port", port)
    assert (code, f"Port {port} is in use by process" in said) == (2, True), said
