"""`read_status`: what `penstock status` and `/api/status` say, and that they say first what is wrong."""

from datetime import timedelta

import pytest

from penstock.documents import create_collection, find_document
from penstock.errors import NotFound
from penstock.operations.status import read_status
from tests.documents.conftest import DocumentQueue, app, document_queue

__all__ = ["app", "document_queue"]  # fixtures


async def advance(document_queue: DocumentQueue, by: timedelta) -> None:
    await document_queue.run("update penstock.test_clock set shift = shift + $1", by)


async def test_an_empty_database_only_lacks_a_worker(document_queue: DocumentQueue) -> None:
    status = await read_status(document_queue.app)
    assert status["documents"] == dict.fromkeys(("queued", "processing", "ready", "failed", "deleted"), 0)
    assert set(status["jobs"]) == {"ready", "later", "running", "waiting", "dead"}
    assert status["workers"] == []
    assert status["problems"] == [
        "No worker is running. Start one with `penstock worker`, or everything with `penstock up`."
    ]


async def test_documents_that_nobody_works_on_are_told(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt")
    status = await read_status(document_queue.app)
    assert status["documents"]["queued"] == 1
    assert status["jobs"]["ready"] == {"count": 1, "leased": 0, "attempted": 0}
    [problem] = status["problems"]
    assert problem.startswith("No worker is running. 1 document waits.")


async def test_leased_means_that_a_live_worker_has_it(document_queue: DocumentQueue) -> None:
    await document_queue.add("a.txt")
    await document_queue.claim_one()
    status = await read_status(document_queue.app)
    assert status["jobs"]["running"] == {"count": 1, "leased": 1, "attempted": 1}
    assert status["documents"]["processing"] == 1
    assert status["problems"] == []
    [worker] = status["workers"]
    assert (worker["status"], worker["running"], worker["serves_documents"]) == ("alive", 1, True)

    await advance(document_queue, timedelta(minutes=1))  # without a heartbeat
    status = await read_status(document_queue.app)
    assert status["jobs"]["running"] == {"count": 1, "leased": 0, "attempted": 1}
    assert status["workers"][0]["status"] == "silent"
    first, second = status["problems"]
    assert first.startswith("No worker is running. 1 document waits.")
    assert "has been silent for" in second


async def test_a_long_wait_is_told(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add("a.txt")
    await document_queue.worker()
    await advance(document_queue, timedelta(minutes=7))
    await document_queue.run("update penstock.workers set heartbeat_at = penstock.now()")
    [problem] = (await read_status(document_queue.app))["problems"]
    assert problem == f"Document {accepted.id} (a.txt) has waited for 7 min: `penstock why {accepted.id}`."


async def test_failures_are_grouped_by_cause(document_queue: DocumentQueue) -> None:
    causes = {"a.pdf": ("Encrypted", "a password is needed"), "b.pdf": ("Corrupt", "it is damaged")}
    for name in ("a.pdf", "b.pdf", "c.pdf"):
        await document_queue.add(name, name.encode())
        await document_queue.bury(await document_queue.claim_one(), *causes.get(name, causes["a.pdf"]))
    status = await read_status(document_queue.app)
    last = await find_document(document_queue.app, "c.pdf")
    assert status["documents"]["failed"] == 3
    assert status["jobs"]["dead"] == {"count": 3, "leased": 0, "attempted": 3}
    first, second = status["problems"]
    assert first == (
        f"2 documents failed (Encrypted), such as {last.id} (c.pdf): a password is needed. "
        f"`penstock why {last.id}` says more."
    )
    assert second.startswith("1 document failed (Corrupt), such as ")


async def test_a_collection_by_itself(document_queue: DocumentQueue) -> None:
    await create_collection(document_queue.app, "other")
    await document_queue.add("a.txt")
    await document_queue.bury(await document_queue.claim_one())
    await document_queue.add("a.txt", collection="other")
    everything, files, other = [
        await read_status(document_queue.app, collection=collection) for collection in (None, "files", "other")
    ]
    counts = [(each["documents"]["queued"], each["documents"]["failed"]) for each in (everything, files, other)]
    assert counts == [(1, 1), (0, 1), (1, 0)]
    counts = [(each["jobs"]["ready"]["count"], each["jobs"]["dead"]["count"]) for each in (everything, files, other)]
    assert counts == [(1, 1), (0, 1), (1, 0)]
    assert [len(each["problems"]) for each in (everything, files, other)] == [1, 1, 0]
    with pytest.raises(NotFound):
        await read_status(document_queue.app, collection="none")
