"""A document follows its job, whatever happens to that: by triggers, in the same transaction."""

import json
import os
from datetime import timedelta

import asyncpg
import pytest

from penstock.database.database import DatabaseAddress
from penstock.database.migrations import grant_use
from penstock.documents import cancel_document, retry_document
from penstock.engine.job import Cancelled, Failure, Requeue, Retry
from penstock.engine.maintenance import DEATHS_ALLOWED
from penstock.errors import WrongState
from penstock.settings import Settings
from tests.documents.conftest import NEVER, DocumentQueue

FAILURE = Failure("Transient", "OSError", "the disk hums", "Traceback …", NEVER)


async def test_the_five_states(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    assert await document_queue.status(accepted.id) == "queued"
    job = await document_queue.claim_one()
    assert await document_queue.status(accepted.id) == "processing"
    assert await document_queue.publish(job)
    assert await document_queue.status(accepted.id) == "ready"


async def test_a_released_job_and_one_that_waits_for_its_next_try_are_processing(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    job = await document_queue.claim_one()
    await document_queue.job_queue.settle(await document_queue.worker(), (job, Requeue()))
    assert await document_queue.status(accepted.id) == "processing"
    [job] = await document_queue.claim()
    await document_queue.job_queue.settle(await document_queue.worker(), (job, Retry(FAILURE, timedelta(minutes=1))))
    shown = await document_queue.show(accepted.id)
    assert (shown.status, shown.error) == ("processing", None)


async def test_a_dead_job_fails_its_document_with_the_reason(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    await document_queue.bury(await document_queue.claim_one())
    shown = await document_queue.show(accepted.id)
    assert shown.status == "failed"
    assert shown.error is not None
    assert {key: shown.error[key] for key in ("class", "type", "message", "step")} == {
        "class": "Permanent",
        "type": "Encrypted",
        "message": "a password is needed",
        "step": "read",
    }
    assert "traceback" not in shown.error
    assert await document_queue.events(accepted.id) == ["accepted", "failed"]


@pytest.mark.parametrize(
    ("message", "shown"),
    [("a\0b", "a?b"), ("a\udc80b", "a?b"), ("\0\0\\\0", "??\\?"), ("\\u0000 🦫 ü", "\\u0000 🦫 ü"), ("", "")],
    ids=ascii,
)
async def test_a_reason_that_jsonb_refuses_does_not_keep_a_job_from_dying(
    document_queue: DocumentQueue, message: str, shown: str
) -> None:
    """As it comes from the names of hostile files: json keeps it, and jsonb does not."""
    accepted = await document_queue.add()
    await document_queue.run(
        "update penstock.jobs set state = 'dead', fingerprint = 'f', error = $2 where id = $1",
        accepted.job,
        json.dumps({"class": "Permanent", "type": "Corrupt", "message": message, "traceback": message}),
    )
    document = await document_queue.show(accepted.id)
    assert document.status == "failed"
    assert document.error is not None
    assert document.error["message"] == shown
    await document_queue.app.cancel(int(accepted.job or 0))
    assert await document_queue.status(accepted.id) == "failed"


async def test_a_redriven_job_takes_its_document_along(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    await document_queue.bury(await document_queue.claim_one())
    await retry_document(document_queue.app, accepted.id)
    assert (await document_queue.show(accepted.id)).error is None
    assert await document_queue.publish(await document_queue.claim_one())
    assert await document_queue.status(accepted.id) == "ready"
    assert await document_queue.events(accepted.id) == ["accepted", "failed", "retried", "ready"]


async def test_a_discarded_job_leaves_its_document_failed_with_that_reason(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    await document_queue.bury(await document_queue.claim_one())
    await document_queue.app.discard(int(accepted.job or 0), reason="nobody needs it")
    shown = await document_queue.show(accepted.id)
    assert shown.status == "failed"
    assert shown.error is not None
    assert shown.error["discarded"] == "nobody needs it"
    again = await retry_document(document_queue.app, accepted.id)  # with a new job: the old one is history
    assert again.job != accepted.job
    assert await document_queue.publish(await document_queue.claim_one())


async def test_a_cancelled_document_is_failed_and_can_be_retried(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    assert (await cancel_document(document_queue.app, accepted.id)).status == "failed"
    shown = await document_queue.show(accepted.id)
    assert shown.error is not None
    assert (shown.error["class"], shown.error["message"]) == ("Cancelled", "cancelled by hand")
    assert (await retry_document(document_queue.app, accepted.id)).status == "queued"
    assert await document_queue.publish(await document_queue.claim_one())
    assert await document_queue.events(accepted.id) == ["accepted", "cancelled", "retried", "ready"]


async def test_a_running_job_is_cancelled_by_its_worker(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    job = await document_queue.claim_one()
    assert (await cancel_document(document_queue.app, accepted.id)).status == "processing"
    await document_queue.job_queue.settle(await document_queue.worker(), (job, Cancelled()))
    shown = await document_queue.show(accepted.id)
    assert (shown.status, dict(shown.error or {})["class"]) == ("failed", "Cancelled")


async def test_a_job_that_is_cancelled_after_a_failed_try_is_cancelled_all_the_same(
    document_queue: DocumentQueue,
) -> None:
    accepted = await document_queue.add()
    await document_queue.job_queue.settle(
        await document_queue.worker(), (await document_queue.claim_one(), Retry(FAILURE, timedelta(minutes=1)))
    )
    await cancel_document(document_queue.app, accepted.id)
    error = (await document_queue.show(accepted.id)).error
    assert error is not None
    assert (error["class"], error["before"]["message"]) == ("Cancelled", "the disk hums")


async def test_a_poison_job_fails_its_document(document_queue: DocumentQueue) -> None:
    """It takes its worker with it until it is dead, and the document says so."""
    accepted = await document_queue.add()
    worker = await document_queue.job_queue.worker(document_queue.kind)
    assert await document_queue.job_queue.claim(worker, queue="documents")
    await document_queue.job_queue.lose(worker)
    for _ in range(DEATHS_ALLOWED):
        assert await document_queue.status(accepted.id) == "processing"
        worker = await document_queue.job_queue.worker(document_queue.kind)
        assert await document_queue.job_queue.claimers[worker].claim_quarantined(["documents"])
        await document_queue.job_queue.lose(worker)
    shown = await document_queue.show(accepted.id)
    assert (shown.status, dict(shown.error or {})["class"]) == ("failed", "Poison")


async def test_the_job_of_an_older_version_changes_nothing(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add(content=b"one")
    stale = await document_queue.claim_one()
    await document_queue.add(content=b"two", replace=True)
    await document_queue.bury(stale)
    assert await document_queue.status(accepted.id) == "queued"
    assert await document_queue.publish(await document_queue.claim_one())


async def test_what_cannot_be_done_is_said(document_queue: DocumentQueue) -> None:
    accepted = await document_queue.add()
    with pytest.raises(WrongState, match="is queued already"):
        await retry_document(document_queue.app, accepted.id)
    await document_queue.publish(await document_queue.claim_one())
    with pytest.raises(WrongState, match="is ready: upload it again"):
        await retry_document(document_queue.app, accepted.id)
    with pytest.raises(WrongState, match="nothing to cancel"):
        await cancel_document(document_queue.app, accepted.id)


async def test_an_application_role_can_do_all_of_it(document_queue: DocumentQueue, settings: Settings) -> None:
    """The owner's triggers run with the rights of who settles the job: those must suffice."""
    accepted = await document_queue.add()
    job = await document_queue.claim_one()
    role = f"application_{os.getpid()}"  # roles belong to the server, which other tests use at the same time
    address = DatabaseAddress(settings, None, document_queue.app.database.url)
    owner = await address.open_session("test")
    try:
        await owner.execute(f"create role {role}")
        await grant_use(owner, role=role)
        async with owner.transaction():
            await owner.execute(f"set local role {role}")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with owner.transaction():
                    await owner.execute("drop table penstock.documents")
            await owner.execute(
                "update penstock.jobs set state = 'dead', worker_id = null, claimed_at = null, fingerprint = 'f', "
                """error = '{"class": "Permanent", "message": "no"}' where id = $1""",
                job.id,
            )
            await owner.execute("insert into penstock.blobs (key, digest, size) values ('k', sha256('x'), 1)")
        assert await document_queue.status(accepted.id) == "failed"
    finally:
        await owner.execute(f"drop owned by {role}; drop role {role}")
        owner.terminate()
