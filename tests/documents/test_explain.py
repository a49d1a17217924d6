"""Why a document is where it is: one sentence for each case, with what to do."""

import json

import pytest

from penstock.documents import (
    cancel_document,
    create_collection,
    delete_document,
    explain_document,
    remove_deleted,
    retry_document,
)
from penstock.documents.explain import explain_anything
from penstock.documents.inbox import explain_message
from penstock.documents.queries import show_timeline
from penstock.engine import Kind
from penstock.engine.job import Done
from penstock.errors import BadRequest, NotFound
from tests.documents.conftest import DocumentQueue, prepare_document


async def why(document_queue: DocumentQueue, document: int) -> tuple[str, str]:
    explanation = await explain_document(document_queue.app, document)
    assert explanation.sentence.startswith((f"Document {document} (a.txt) ", f"Document {document} (a.txt): version "))
    assert explanation.state == await document_queue.status(document)
    return explanation.because, explanation.sentence


async def test_it_waits_for_a_worker(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    because, sentence = await why(document_queue, made.id)
    assert because == "no worker"
    assert "waits for a worker: none is running." in sentence
    assert "Start one with `penstock worker` or `penstock up`." in sentence
    explanation = await explain_document(document_queue.app, made.id)
    assert explanation.evidence["job"]["sentence"].startswith(f"Job {made.job} waits for a worker")
    assert explanation.evidence["job"]["sentence"].endswith("Start one with `penstock worker module:app`.")
    assert [line.partition(" ")[0] for line in explanation.evidence_lines[:3]] == ["document", "accepted", "job"]
    await document_queue.worker()
    assert (await why(document_queue, made.id))[0] == "open"
    await document_queue.app.pause(kind="prepare_document", reason="maintenance")
    because, sentence = await why(document_queue, made.id)
    assert because == "paused"
    assert "maintenance" in sentence


async def test_it_is_processed(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    await document_queue.claim_one()
    because, sentence = await why(document_queue, made.id)
    assert because == "running"
    assert "in attempt 1" in sentence


async def test_it_is_ready_with_or_without_gaps(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready()
    assert (await why(document_queue, made.id))[1].endswith("is ready: 1 page, 2 chunks, and search finds it.")
    await document_queue.add(content=b"two", replace=True)
    gaps = [{"page": number, "reason": "too dark."} for number in range(2, 7)] + [{"page": None, "reason": "x"}]
    await document_queue.publish(await document_queue.claim_one(), gaps=gaps)
    sentence = (await why(document_queue, made.id))[1]
    assert (
        "but it is only partly readable: page 2: too dark; page 3: too dark; page 4: too dark; and 3 more." in sentence
    )


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("Encrypted", "Remove the password"),
        ("Corrupt", "intact copy"),
        ("Unsupported", "Convert it"),
        ("OSError", "penstock documents retry"),
    ],
)
async def test_it_has_failed(document_queue: DocumentQueue, kind: str, advice: str) -> None:
    made = await document_queue.add()
    await document_queue.bury(await document_queue.claim_one(), kind, "that is the reason.")
    because, sentence = await why(document_queue, made.id)
    assert because == "failed"
    assert f"has failed in the step read ({kind}): that is the reason. " in sentence
    assert advice in sentence


async def test_a_new_version_has_failed_and_the_old_one_is_still_found(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready(content=b"one")
    await document_queue.add(content=b"two", replace=True)
    waiting = (await why(document_queue, made.id))[1]
    assert "is the next of its lane" in waiting
    assert waiting.endswith(" This is about version 2; version 1 is found until it is ready.")
    await document_queue.bury(await document_queue.claim_one())
    because, sentence = await why(document_queue, made.id)
    assert because == "failed"
    assert (
        ": version 2 failed in the step read (Encrypted): a password is needed; version 1 is still found. " in sentence
    )
    assert sentence.endswith("Remove the password, and add it again with `--replace`.")


async def test_it_was_cancelled_or_deleted_or_abandoned(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    await cancel_document(document_queue.app, made.id)
    assert (
        "(Cancelled): cancelled by hand. To prepare it after all: `penstock documents retry"
        in (await why(document_queue, made.id))[1]
    )
    await retry_document(document_queue.app, made.id)
    await document_queue.job_queue.settle(await document_queue.worker(), (await document_queue.claim_one(), Done()))
    because, sentence = await why(document_queue, made.id)
    assert because == "abandoned"
    assert "has no job any more: job" in sentence
    assert "This is about version" not in sentence
    await delete_document(document_queue.app, made.id)
    because, sentence = await why(document_queue, made.id)
    assert because == "deleted"
    assert "was deleted at 20" in sentence
    assert f" UTC. To bring it back: `penstock restore {made.id}`." in sentence
    await delete_document(document_queue.app, made.id, now=True)
    assert (await why(document_queue, made.id))[1].endswith(
        "is being removed. This cannot be undone: add it again to have it back."
    )
    await remove_deleted(document_queue.app.database, document_queue.store)
    because, sentence = await why(document_queue, made.id)
    assert because == "deleted"
    assert f"removed and verified (`penstock documents receipt {made.id}`)" in sentence
    with pytest.raises(NotFound, match="Document 999 does not exist"):
        await explain_document(document_queue.app, 999)


# -- messages, sources, packets, and what was measured ------------------------------------------------------------


async def receive(document_queue: DocumentQueue, number: str = "4711") -> int:
    """A message of the source `orders` with its job, as a row."""
    [job] = await document_queue.job_queue.enqueue(
        Kind("take_message.orders", prepare_document, "inbox")(document=1, version=1)
    )
    [row] = await document_queue.run(
        "insert into penstock.inbox (source, message_id, digest, payload, job_id) "
        "values ('orders', $1, sha256('m'), '{}', $2) returning id",
        number,
        job,
    )
    return int(row["id"])


async def test_a_message_waits_fails_and_is_taken(document_queue: DocumentQueue) -> None:
    number = await receive(document_queue)
    told = await explain_anything(document_queue.app, str(number))
    assert (told.because, told.state) == ("no worker", "waiting")
    assert told.sentence.startswith(
        f"Message {number} (4711 of the source orders) waits for a worker: none is running."
    )
    assert told.evidence_lines[0].startswith(f"message {number}: 4711 of the source orders, waiting, received 20")
    assert (await explain_anything(document_queue.app, "orders/4711")).sentence == told.sentence
    error = {"class": "Permanent", "type": "BadMessage", "message": "It names no document."}
    await document_queue.run("update penstock.inbox set state = 'failed', error = $1", json.dumps(error))
    told = await explain_anything(document_queue.app, str(number))
    assert (
        "has failed (BadMessage): It names no document. When the cause is fixed: `penstock inbox retry" in told.sentence
    )
    made = await document_queue.add()
    await document_queue.run("update penstock.inbox set state = 'taken', error = null, document_id = $1", made.id)
    told = await explain_anything(document_queue.app, "orders/4711")
    assert f"was taken: it is document {made.id}" in told.sentence
    assert await explain_message(document_queue.app, number, tenant="other") is None


async def test_newer_content_of_a_document_waits(document_queue: DocumentQueue) -> None:
    made = await document_queue.ready("a.txt")
    message = await receive(document_queue)
    await document_queue.run("update penstock.inbox set id = $1 where id = $2", made.id, message)
    told = await explain_anything(document_queue.app, str(made.id))
    assert (told.state, told.because) == ("ready", "unserved")
    assert told.sentence.startswith(f"Document {made.id} (a.txt) is ready: ")
    newer = f"finds it. Newer content of it waits: Message {made.id} (4711 of the source orders) waits: no live worker"
    assert newer in told.sentence
    assert (
        "Start a worker that has [sources.orders] in its settings: `penstock worker` or `penstock up`." in told.sentence
    )
    assert told.sentence.endswith("Then it becomes a document.")
    assert list(told.evidence) == ["document", "message", "job"]
    assert [line.partition(" ")[0] for line in told.evidence_lines[:4]] == ["document", "accepted", "message", "job"]


async def test_a_source(document_queue: DocumentQueue) -> None:
    with pytest.raises(NotFound, match="Document orders does not exist"):
        await explain_anything(document_queue.app, "orders")
    await document_queue.run(
        "insert into penstock.sources (name, error, error_since) values ('orders', 'no route', penstock.now() - interval '1 h')"
    )
    told = await explain_anything(document_queue.app, "orders")
    assert told.because == "trouble"
    assert "Source orders does not answer since" in told.sentence
    assert "no route. Workers keep trying; check its address" in told.sentence
    assert told.evidence_lines[0] == "source orders: 0 received, 0 waiting, 0 failed"
    await document_queue.run("update penstock.sources set error = null, error_since = null")
    assert (await explain_anything(document_queue.app, "orders")).because == "unknown", (
        "it is in nobody's settings here"
    )


async def test_by_number_and_by_name(document_queue: DocumentQueue) -> None:
    made = await document_queue.add("a/b.txt")
    for reference in (str(made.id), "a/b.txt", "files/a/b.txt"):
        assert (await explain_anything(document_queue.app, reference)).sentence.startswith(
            f"Document {made.id} (a/b.txt) waits"
        )
    assert (await explain_anything(document_queue.app, str(made.job))).sentence.startswith(f"Job {made.job} waits")
    assert (await explain_anything(document_queue.app, "404")).state == "not found"
    await create_collection(document_queue.app, "others")
    await document_queue.add("a/b.txt", b"2", collection="others")
    with pytest.raises(BadRequest, match=r"is ambiguous: use one of files/a/b\.txt, others/a/b\.txt"):
        await explain_anything(document_queue.app, "a/b.txt")
    with pytest.raises(NotFound):
        await explain_anything(document_queue.app, "half\ud800 a name\0")


async def test_a_document_should_end_when_those_of_its_size_did(document_queue: DocumentQueue) -> None:
    for number in range(6):
        large = number % 2 == 1
        await document_queue.add(f"{number}.txt", b"x" * (500_000 + number if large else 100 + number))
        job = await document_queue.claim_one()
        await document_queue.job_queue.advance(60 if large else 6)
        await document_queue.job_queue.heartbeat(await document_queue.worker())
        await document_queue.publish(job)
    made = await document_queue.add("a.txt", b"y" * 520_000)
    await document_queue.claim_one()
    told = await explain_document(document_queue.app, made.id)
    assert "documents of its size" in told.sentence
    assert told.evidence["job"]["evidence"]["pace"]["like"] == "documents of its size"
    assert told.evidence_lines[0].startswith(f"document {made.id}: files/a.txt, version 1, 520,000 bytes")


async def test_its_life_with_the_time_between(document_queue: DocumentQueue) -> None:
    made = await document_queue.add()
    await document_queue.job_queue.advance(90)
    job = await document_queue.claim_one()
    await document_queue.job_queue.advance(30)
    await document_queue.job_queue.heartbeat(await document_queue.worker())
    await document_queue.publish(job)
    life = await show_timeline(document_queue.app, made.id)
    assert [each.event for each in life] == ["accepted", "attempt", "ready"]
    assert life[0].after is None
    assert [round(each.after.total_seconds()) for each in life[1:] if each.after is not None] == [90, 30]
    assert (life[1].details["job"], life[1].details["outcome"]) == (made.job, "done")
