"""`read_status`, of `penstock status` and `/api/status`: counts, findings of doctor, documents that could not be read."""

from datetime import timedelta

import pytest

from penstock.documents import create_collection, dismiss_document, find_document
from penstock.engine import Kind
from penstock.errors import NotFound
from penstock.operations import Finding, examine, read_status
from tests.application import Application, anything
from tests.documents.conftest import DocumentQueue


async def advance(document_queue: DocumentQueue, by: timedelta) -> None:
    await document_queue.run("update penstock.test_clock set shift = shift + $1", by)


async def problems(document_queue: DocumentQueue, **where: str) -> dict[str, Finding]:
    """Without that of the clock, which these tests move."""
    findings: list[Finding] = (await read_status(document_queue.app, **where))["findings"]  # type: ignore[arg-type]
    return {each.name: each for each in findings if each.is_problem and each.name != "clock-skew"}


async def test_an_empty_database_only_lacks_a_worker(document_queue: DocumentQueue) -> None:
    status = await read_status(document_queue.app)
    assert status["documents"] == dict.fromkeys(("queued", "processing", "ready", "failed", "deleted"), 0)
    assert set(status["jobs"]) == {"ready", "later", "running", "waiting", "dead"}
    assert status["workers"] == []
    [finding] = status["findings"]
    assert (finding.name, finding.severity, finding.command) == ("no-worker", "urgent", "penstock worker")
    assert "Start one with `penstock worker`, or everything with `penstock up`." in finding.sentence


async def test_its_findings_are_those_of_doctor(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt")
    status = await read_status(document_queue.app)
    assert status["documents"]["queued"] == 1
    assert status["jobs"]["ready"] == {"count": 1, "leased": 0, "attempted": 0}
    assert {each.name for each in status["findings"]} == {"no-worker", "unserved-kind"}
    thorough = await read_status(document_queue.app, thorough=True)
    doctor = await examine(document_queue.app.settings)
    assert (
        [each.name for each in thorough["findings"]] == [each.name for each in doctor] == ["no-worker", "unserved-kind"]
    )


async def test_workers_of_which_none_serves_documents(document_queue: DocumentQueue) -> None:
    await document_queue.job_queue.worker(Kind("greet", anything, "default"))
    assert list(await problems(document_queue)) == ["no-document-worker"]
    await document_queue.worker()
    assert await problems(document_queue) == {}


async def test_leased_means_that_a_live_worker_has_it(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt")
    await document_queue.claim_one()
    status = await read_status(document_queue.app)
    assert status["jobs"]["running"] == {"count": 1, "leased": 1, "attempted": 1}
    assert status["documents"]["processing"] == 1
    assert await problems(document_queue) == {}
    [worker] = status["workers"]
    assert (worker["status"], worker["running"], worker["serves_documents"]) == ("alive", 1, True)

    await advance(document_queue, timedelta(minutes=1))  # without a heartbeat
    status = await read_status(document_queue.app)
    assert status["jobs"]["running"] == {"count": 1, "leased": 0, "attempted": 1}
    assert status["workers"][0]["status"] == "silent"
    assert list(await problems(document_queue)) == ["no-worker", "silent-worker"], "the most urgent first"


async def test_a_long_wait(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt")
    await document_queue.worker()
    await advance(document_queue, timedelta(minutes=7))
    await document_queue.run("update penstock.workers set heartbeat_at = penstock.now()")
    assert (await problems(document_queue))["old-job"].evidence["kind"] == "prepare_document"


async def fail(document_queue: DocumentQueue, name: str, cause: str, message: str, **where: str) -> int:
    accepted = await document_queue.add(name, name.encode(), **where)
    await document_queue.bury(await document_queue.claim_one(), cause, message)
    return accepted.id


async def test_failures_of_content_are_not_problems(document_queue: DocumentQueue) -> None:
    """They have their own list; a failure for another reason is a dead letter, as ever."""
    await fail(document_queue, "a.pdf", "Encrypted", "a password is needed")
    await fail(document_queue, "b.pdf", "Corrupt", "it is damaged")
    status = await read_status(document_queue.app)
    assert (status["documents"]["failed"], status["jobs"]["dead"]["count"], status["unread_count"]) == (2, 2, 2)
    assert [(each.name, each.reason) for each in status["unread"]] == [
        ("b.pdf", "it is damaged"),
        ("a.pdf", "a password is needed"),
    ]
    assert await problems(document_queue) == {}
    assert not any(each.name == "dead-jobs" for each in await examine(document_queue.app.settings))

    broken = await find_document(document_queue.app, "b.pdf")
    await dismiss_document(document_queue.app, broken.id)
    assert [each.name for each in (await read_status(document_queue.app))["unread"]] == ["a.pdf"]

    await document_queue.run("update penstock.jobs set error = jsonb_set(error::jsonb, '{type}', '\"OSError\"')")
    assert list(await problems(document_queue)) == ["dead-jobs"]


async def test_a_job_of_an_application_that_fails_so_is_a_problem(application: Application) -> None:
    """Only documents have a list of their own."""
    await application.worker()
    job = await application.enqueue("read", n=1)
    await application.until_state(job, "dead")
    await application.run("update penstock.jobs set error = jsonb_set(error::jsonb, '{type}', '\"Corrupt\"')")
    assert "dead-jobs" in [each.name for each in await examine(application.client.settings)]


async def test_a_collection_by_itself(document_queue: DocumentQueue) -> None:
    await create_collection(document_queue.app, "other")
    await fail(document_queue, "a.pdf", "Encrypted", "a password is needed")
    await document_queue.add("a.txt", collection="other")
    everything, files, other = [
        await read_status(document_queue.app, collection=collection) for collection in (None, "files", "other")
    ]
    counts = [(each["documents"]["queued"], each["documents"]["failed"]) for each in (everything, files, other)]
    assert counts == [(1, 1), (0, 1), (1, 0)]
    counts = [(each["jobs"]["ready"]["count"], each["jobs"]["dead"]["count"]) for each in (everything, files, other)]
    assert counts == [(1, 1), (0, 1), (1, 0)]
    assert [each["unread_count"] for each in (everything, files, other)] == [1, 1, 0]
    with pytest.raises(NotFound):
        await read_status(document_queue.app, collection="none")


# -- the commands -----------------------------------------------------------------------------------------------------


async def test_status_and_doctor_agree(application: Application) -> None:
    code, said = await application.penstock("status")
    assert (code, said.splitlines()[-2:]) == (
        0,
        ["! No worker is running: nothing that is enqueued will run.", "    penstock worker module:app"],
    )
    assert (await application.penstock("doctor"))[0] == 1
    await application.worker()
    assert (await application.penstock("status"))[1].endswith("\nNo problems found.\n")
    assert await application.penstock("doctor") == (0, "No problems found.\n")
    await application.enqueue("rest", queue="slow")
    await application.penstock("pause", "--queue", "slow")
    assert (await application.penstock("status"))[1].endswith("\n1 warning: see `penstock doctor`.\n")
    assert (await application.penstock("doctor"))[0] == 1


async def test_the_commands_list_what_could_not_be_read(application: Application) -> None:
    (application.folder / "torn.pdf").write_bytes(b"%PDF-1.7 torn")
    code, said = await application.penstock("add", "torn.pdf")
    assert code == 1, said
    worker = await application.worker(place="")
    await application.until("select from penstock.workers where gone_at is null and 'prepare_document' = any (kinds)")
    answer = await application.ask("doctor")
    assert (answer["healthy"], answer["unread_count"], answer["findings"]) == (True, 1, [])
    for command in ("status", "doctor"):
        code, said = await application.penstock(command)
        assert (code, said.splitlines()[-1]) == (0, "No problems found."), said
        assert "1 document could not be read. Replace it, or dismiss:" in said
        assert "  default/torn.pdf: " in said
    code, said = await application.penstock("documents", "dismiss", "torn.pdf")
    assert (code, said.endswith("(torn.pdf) is dismissed.\n")) == (0, True), said
    assert (await application.ask("doctor"))["unread"] == []
    assert (await application.ask("status"))["unread_count"] == 0
    worker.process.terminate()
    assert await worker.end() == 0
