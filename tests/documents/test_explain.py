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
from penstock.documents.explain_inbox import explain_message
from penstock.documents.life import tell_life
from penstock.engine import Kind
from penstock.engine.outcome import Done
from penstock.errors import BadRequest, NotFound
from tests.documents.conftest import Office, prepare_document


async def why(office: Office, document: int) -> tuple[str, str]:
    explanation = await explain_document(office.app, document)
    assert explanation.sentence.startswith((f"Document {document} (a.txt) ", f"Document {document} (a.txt): version "))
    assert explanation.state == await office.status(document)
    return explanation.because, explanation.sentence


async def test_it_waits_for_a_worker(office: Office) -> None:
    made = await office.add()
    because, sentence = await why(office, made.id)
    assert because == "no worker"
    assert "waits for a worker: none is running." in sentence
    assert "Start one with `penstock worker` or `penstock up`." in sentence
    explanation = await explain_document(office.app, made.id)
    assert explanation.evidence["job"]["sentence"].startswith(f"Job {made.job} waits for a worker")
    await office.worker()
    assert (await why(office, made.id))[0] == "open"
    await office.app.pause(kind="prepare_document", reason="maintenance")
    because, sentence = await why(office, made.id)
    assert because == "paused"
    assert "maintenance" in sentence


async def test_it_is_processed(office: Office) -> None:
    made = await office.add()
    await office.claim_one()
    because, sentence = await why(office, made.id)
    assert because == "running"
    assert "in attempt 1" in sentence


async def test_it_is_ready_with_or_without_gaps(office: Office) -> None:
    made = await office.ready()
    assert (await why(office, made.id))[1].endswith("is ready: 1 page, 2 chunks, and search finds it.")
    await office.add(content=b"two", replace=True)
    gaps = [{"page": number, "reason": "too dark."} for number in range(2, 7)] + [{"page": None, "reason": "x"}]
    await office.publish(await office.claim_one(), gaps=gaps)
    sentence = (await why(office, made.id))[1]
    assert "with 6 gaps: page 2: too dark; page 3: too dark; page 4: too dark; and 3 more." in sentence


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("Encrypted", "Remove the password"),
        ("Corrupt", "intact copy"),
        ("Unsupported", "Convert it"),
        ("OSError", "penstock documents retry"),
    ],
)
async def test_it_has_failed(office: Office, kind: str, advice: str) -> None:
    made = await office.add()
    await office.bury(await office.claim_one(), kind, "that is the reason.")
    because, sentence = await why(office, made.id)
    assert because == "failed"
    assert f"has failed in the step read ({kind}): that is the reason. " in sentence
    assert advice in sentence


async def test_a_new_version_has_failed_and_the_old_one_is_still_found(office: Office) -> None:
    made = await office.ready(content=b"one")
    await office.add(content=b"two", replace=True)
    waiting = (await why(office, made.id))[1]
    assert "is the next of its lane" in waiting
    assert waiting.endswith(" This is about version 2; version 1 is found until it is ready.")
    await office.bury(await office.claim_one())
    because, sentence = await why(office, made.id)
    assert because == "failed"
    assert (
        ": version 2 failed in the step read (Encrypted): a password is needed; version 1 is still found. " in sentence
    )
    assert sentence.endswith("Remove the password, and add it again with `--replace`.")


async def test_it_was_cancelled_or_deleted_or_abandoned(office: Office) -> None:
    made = await office.add()
    await cancel_document(office.app, made.id)
    assert (
        "(Cancelled): cancelled by hand. To prepare it after all: `penstock documents retry"
        in (await why(office, made.id))[1]
    )
    await retry_document(office.app, made.id)
    await office.shop.settle(await office.worker(), (await office.claim_one(), Done()))
    because, sentence = await why(office, made.id)
    assert because == "abandoned"
    assert "its job" in sentence
    assert "This is about version" not in sentence
    await delete_document(office.app, made.id)
    because, sentence = await why(office, made.id)
    assert because == "deleted"
    assert "was deleted at 20" in sentence
    assert f"not removed yet. `penstock restore {made.id}`" in sentence
    await remove_deleted(office.app.database, office.store)
    because, sentence = await why(office, made.id)
    assert because == "deleted"
    assert f"removed; nothing was left of it when looking again (`penstock receipt {made.id}`)" in sentence
    with pytest.raises(NotFound, match="no document 999"):
        await explain_document(office.app, 999)


# -- messages, sources, packets, and what was measured ------------------------------------------------------------


async def receive(office: Office, number: str = "4711") -> int:
    """A message of the source `orders` with its job, as a row."""
    [job] = await office.shop.enqueue(Kind("take_message", prepare_document, "inbox")(document=1, version=1))
    [row] = await office.run(
        "insert into penstock.inbox (source, message_id, digest, payload, job_id) "
        "values ('orders', $1, sha256('m'), '{}', $2) returning id",
        number,
        job,
    )
    return int(row["id"])


async def test_a_message_waits_fails_and_is_taken(office: Office) -> None:
    number = await receive(office)
    told = await explain_anything(office.app, str(number))
    assert (told.because, told.state) == ("no worker", "waiting")
    assert told.sentence.startswith(
        f"Message {number} (4711 of the source orders) waits for a worker: none is running."
    )
    assert told.evidence_lines[0].startswith(f"message {number}: 4711 of the source orders, waiting, received 20")
    assert (await explain_anything(office.app, "orders/4711")).sentence == told.sentence
    error = {"class": "Permanent", "type": "BadMessage", "message": "It names no document."}
    await office.run("update penstock.inbox set state = 'failed', error = $1", json.dumps(error))
    told = await explain_anything(office.app, str(number))
    assert (
        "has failed (BadMessage): It names no document. When the cause is mended: `penstock inbox retry"
        in told.sentence
    )
    made = await office.add()
    await office.run("update penstock.inbox set state = 'taken', error = null, document_id = $1", made.id)
    told = await explain_anything(office.app, "orders/4711")
    assert f"was taken: it is document {made.id}" in told.sentence
    assert await explain_message(office.app, number, tenant="other") is None


async def test_a_source(office: Office) -> None:
    with pytest.raises(NotFound, match="There is no document orders"):
        await explain_anything(office.app, "orders")
    await office.run(
        "insert into penstock.sources (name, error, error_since) values ('orders', 'no route', penstock.now() - interval '1 h')"
    )
    told = await explain_anything(office.app, "orders")
    assert told.because == "trouble"
    assert "Source orders does not answer since" in told.sentence
    assert "no route. It is tried again all the time; check its address" in told.sentence
    assert told.evidence_lines[0] == "source orders: 0 received, 0 waiting, 0 failed"
    await office.run("update penstock.sources set error = null, error_since = null")
    assert (await explain_anything(office.app, "orders")).because == "unknown", "it is in nobody's settings here"


async def test_by_number_and_by_name(office: Office) -> None:
    made = await office.add("a/b.txt")
    for reference in (str(made.id), "a/b.txt", "files/a/b.txt"):
        assert (await explain_anything(office.app, reference)).sentence.startswith(
            f"Document {made.id} (a/b.txt) waits"
        )
    assert (await explain_anything(office.app, str(made.job))).sentence.startswith(f"Job {made.job} waits")
    assert (await explain_anything(office.app, "404")).state == "not found"
    await create_collection(office.app, "others")
    await office.add("a/b.txt", b"2", collection="others")
    with pytest.raises(BadRequest, match=r"could be several documents: say which of files/a/b\.txt, others/a/b\.txt"):
        await explain_anything(office.app, "a/b.txt")
    with pytest.raises(NotFound):
        await explain_anything(office.app, "half\ud800 a name\0")


async def test_a_document_should_end_when_those_of_its_size_did(office: Office) -> None:
    for number in range(6):
        large = number % 2 == 1
        await office.add(f"{number}.txt", b"x" * (500_000 + number if large else 100 + number))
        job = await office.claim_one()
        await office.shop.advance(60 if large else 6)
        await office.shop.beat(await office.worker())
        await office.publish(job)
    made = await office.add("a.txt", b"y" * 520_000)
    await office.claim_one()
    told = await explain_document(office.app, made.id)
    assert "documents of its size" in told.sentence
    assert told.evidence["job"]["evidence"]["pace"]["like"] == "documents of its size"
    assert told.evidence_lines[0].startswith(f"document {made.id}: files/a.txt, version 1, 520,000 bytes")


async def test_its_life_with_the_time_between(office: Office) -> None:
    made = await office.add()
    await office.shop.advance(90)
    job = await office.claim_one()
    await office.shop.advance(30)
    await office.shop.beat(await office.worker())
    await office.publish(job)
    life = await tell_life(office.app, made.id)
    assert [each.event for each in life] == ["accepted", "attempt", "ready"]
    assert life[0].after is None
    assert [round(each.after.total_seconds()) for each in life[1:] if each.after is not None] == [90, 30]
    assert (life[1].details["job"], life[1].details["outcome"]) == (made.job, "done")
