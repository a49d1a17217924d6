"""Why is it not done, and what shall I do? In each of these cases `why` names the cause, and `doctor` cause and command.

With real processes where the case needs them.
"""

import os
import signal

from penstock.documents import explain_document
from penstock.engine import Kind
from penstock.operations import examine
from penstock.settings import DatabaseUrl
from tests.application import Application, anything, application
from tests.documents.conftest import DocumentQueue, app, document_queue
from tests.engine.limited_role import LimitedRole, limited_role
from tests.operations.advice import BRITTLE, EACH, found, vanished
from tests.operations.few_connections import limited_application
from tests.processes import start

__all__ = ["app", "application", "document_queue", "limited_application", "limited_role"]


async def why(application: Application, reference: object) -> str:
    code, said = await application.penstock("why", str(reference))
    assert code == 0, said
    return said


async def test_no_worker_then_an_unserved_kind(application: Application) -> None:
    job = await application.enqueue("rest", queue="slow")
    said = await why(application, job)
    assert (
        "waits for a worker: none is running. None has done so within the last week. Start one with `penstock worker"
        in said
    )
    assert f"  job {job}: rest in the queue slow, fairness key default, priority 0\n" in said
    assert (await found(application, "no-worker")).command == "penstock worker module:app"

    served = await application.worker()
    await application.until_state(job, "running")
    os.kill(served.pid, signal.SIGINT)
    await served.end()
    await application.worker("--queues", "default=1")
    said = await why(application, job)
    assert "no live worker serves the kind rest in the queue slow. The last one that served it was" in said
    assert "which left at" in said
    assert (await found(application, "unserved-kind")).command == "penstock worker module:app"


async def test_paused(application: Application) -> None:
    await application.worker()
    await application.penstock("pause", "--kind", "greet", "--reason", "the printer burns")
    job = await application.enqueue("greet")
    said = await why(application, job)
    assert "the kind greet has been paused since" in said
    assert "(the printer burns): `penstock resume --kind greet`" in said
    assert (await found(application, "paused")).command == "penstock resume --kind greet"


async def test_a_breaker_is_open(application: Application) -> None:
    (application.folder / "brittle.py").write_text(BRITTLE)
    await application.worker(place="brittle:app")
    await application.enqueue("read", broken=True)
    finding = await found(application, "breaker-open")
    said = await why(application, await application.enqueue("read"))
    assert "waits for scanner: its breaker has been open since" in said
    assert "OSError: no route" in said
    assert f"When the cause is fixed: `{finding.command}`" in said
    assert finding.command == "penstock limits close scanner"


async def test_dead_letters_of_one_cause(application: Application) -> None:
    await application.worker()
    jobs = [await application.enqueue("read", n=n) for n in range(3)]
    for job in jobs:
        await application.until_state(job, "dead")
    said = await why(application, jobs[0])
    assert "is dead after 1 attempt, with Permanent (Permanent): page 0 is torn" in said
    assert f"`penstock dead redrive {jobs[0]}`" in said
    assert "attempt 1 on worker 1: dead after" in said
    finding = await found(application, "dead-jobs")
    assert "3 read jobs have failed permanently for the same reason, Permanent: page" in finding.sentence
    assert finding.command.startswith("penstock dead redrive --fingerprint ")


async def test_a_poison_document(document_queue: DocumentQueue) -> None:
    """It takes three workers with it, the last two alone (with real processes: test_document_crash_loop.py)."""
    made = await document_queue.add("bomb.txt")
    worker = await document_queue.job_queue.worker(document_queue.kind)
    assert await document_queue.job_queue.claim(worker, queue="documents")
    for _ in range(2):
        await document_queue.job_queue.lose(worker)
        worker = await document_queue.job_queue.worker(document_queue.kind)
        assert await document_queue.job_queue.claimers[worker].claim_quarantined(["documents"])
    await document_queue.job_queue.lose(worker)
    told = await explain_document(document_queue.app, made.id)
    assert told.because == "failed"
    assert (
        "has failed (WorkerLost): Its worker was lost 2 times while it ran as the only quarantined job."
        in told.sentence
    )
    assert f"When the cause is fixed: `penstock documents retry {made.id}`." in told.sentence
    [finding] = [one for one in await examine(document_queue.app.settings) if one.name == "dead-jobs"]
    assert "1 prepare_document job has failed permanently, Poison" in finding.sentence
    assert finding.command.startswith("penstock dead redrive --fingerprint ")


async def test_a_fair_share_wait(application: Application) -> None:
    await application.worker("--queues", "slow=1")
    for _ in range(3):
        await application.until_state(
            await application.enqueue("rest", queue="slow", seconds=0.1), "done"
        )  # so that there is a pace
    await application.until_state(await application.enqueue("rest", queue="slow"), "running")
    await application.until("select from penstock.workers where load ->> 'running' = '1'")  # by its next heartbeat
    for fairness_key in ("mill", "weir", "lock"):
        await application.client.enqueue_many(
            [Kind("rest", anything, "slow")() for _ in range(30)], fairness_key=fairness_key
        )
    job = await application.client.enqueue(Kind("rest", anything, "slow")(), fairness_key="weir")
    said = await why(application, job)
    assert "is behind 30 jobs in its lane (slow, rest, weir), which takes turns with 2 other lanes" in said
    assert "1 worker serves it, with all 1 slots in use: it should start in about" in said
    assert "earlier with another worker" in said
    await application.run("update penstock.jobs set enqueued_at = enqueued_at - interval '10 min' where id = $1", job)
    answer = await examine(application.client.settings)
    assert [one.name for one in answer] == []  # its lane's oldest job is young: nobody is starved
    await application.run(
        "update penstock.jobs set enqueued_at = enqueued_at - interval '10 min' where state = 'ready'"
    )
    assert (await found(application, "old-job")).command == "penstock worker module:app"


async def test_a_blocked_event_loop(application: Application) -> None:
    worker = await application.worker()
    job = await application.enqueue("block", seconds=30.0)
    await application.until_state(job, "running")
    finding = await found(application, "silent-worker", within=25)
    assert "its process hangs, or cannot reach the database" in finding.sentence
    said = await why(application, job)
    assert "its event loop is blocked by a handler, its machine hangs, or it cannot reach the database" in said
    assert finding.command == "penstock worker module:app", "nobody else is there who could take over"
    os.kill(worker.pid, signal.SIGKILL)


async def test_notifications_do_not_arrive(application: Application, database_url: DatabaseUrl) -> None:
    application.environ["PENSTOCK_DATABASE_DIRECT_URL"] = database_url.with_database("postgres").reveal()
    answer = await application.ask("doctor", code=1)
    [told] = [one for one in answer["findings"] if one["name"] == "notifications"]
    assert "workers poll, and jobs start late" in told["sentence"]
    assert told["command"].startswith("export PENSTOCK_DATABASE_DIRECT_URL='postgresql://")


async def test_the_budget_is_too_small(limited_application: Application, limited_role: LimitedRole) -> None:
    """A second worker waits for room; until it is there, nobody serves what only it would."""
    await limited_role.limit(EACH + 4)
    await limited_application.worker("--queues", "default=1")
    job = await limited_application.enqueue("rest", queue="slow")
    async with start(
        "-m",
        "penstock",
        "worker",
        "shop:app",
        environ=limited_application.environ | {"PENSTOCK_POOL__SIZE": "4"},
        cwd=limited_application.folder,
    ) as second:
        await second.until("connections")
    assert "no live worker serves the kind rest in the queue slow" in await why(limited_application, job)
    [finding] = [one for one in await examine(limited_application.client.settings) if one.name == "budget"]
    assert f"Another worker needs {EACH} and would wait" in finding.sentence
    assert finding.command in {"penstock fleet --budget"} or finding.command.startswith("PENSTOCK_POOL__SIZE=")


async def test_the_disk_is_full(application: Application) -> None:
    full = [one for one in await examine(application.client.settings, least_free=2**60) if one.name == "disk-full"]
    assert {one.evidence["what"] for one in full} >= {"blobs", "scratch"}
    job = await application.enqueue("greet")
    await application.run(
        "update penstock.jobs set state = 'later', run_at = penstock.now() + interval '1 min', attempt = 1, error = "
        """'{"type": "StorageFull", "class": "Transient", "message": "There is no room left on the disk."}', """
        "attempts = array[row(1, 1, now(), 1, 'retry', 'There is no room left on the disk.')::penstock.attempt]"
    )
    said = await why(application, job)
    assert "failed with StorageFull (Transient): There is no room left on the disk; it is tried again at" in said


async def test_a_schedule_does_not_fire(application: Application) -> None:
    await application.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await application.run("update penstock.schedules set next_at = next_at - interval '3 hours'")
    finding = await found(application, "schedule-overdue")
    assert finding.sentence.startswith("1 schedule should have fired and did not (hourly)")
    assert finding.command == "penstock worker module:app"
    await application.worker()
    await vanished(application, "schedule-overdue")
    [row] = await application.run("select last_job from penstock.schedules")
    await application.until_state(row["last_job"], "done")
    assert "is done: greet ended at" in await why(application, row["last_job"])
