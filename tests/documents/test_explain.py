"""Why a document is where it is: one sentence for each case, with what to do."""

import pytest

from penstock.documents import cancel_document, delete_document, explain_document, remove_deleted, retry_document
from penstock.engine.outcome import Done
from penstock.errors import NotFound
from tests.documents.conftest import Office


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
