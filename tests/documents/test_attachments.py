"""A mail or an archive is replaced: what stays inside, what changes, what goes, and whose metadata it all has."""

import json
from typing import Any

from penstock.blobs import StoredBlob
from penstock.documents import Attachments, add_members, explain_document, list_documents, load_work, publish
from penstock.engine.job import Job
from tests.documents.conftest import DocumentQueue, pieces


def args_of(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.args)
    return found


async def store(document_queue: DocumentQueue, content: bytes) -> StoredBlob:
    return await document_queue.store.write(pieces(content), most=1000)


async def publish_with(document_queue: DocumentQueue, job: Job, **members: bytes) -> Attachments:
    inside = [(name, await store(document_queue, content)) for name, content in members.items()]
    async with document_queue.job_queue.context(job, await document_queue.worker(), document_queue.kind).finish() as tx:
        work = await load_work(tx, **args_of(job))
        assert work is not None
        assert await publish(tx, work, media_type="application/zip", pages=0, chunks=0, words=0)
        return await add_members(tx, document_queue.app, work, inside)


async def packed(document_queue: DocumentQueue) -> int:
    """An archive with `kept`, `changed`, and `inner` that has `deep` inside, all ready."""
    made = await document_queue.add("a.zip", b"zip", metadata={"year": 2024}, uploaded_by="ada")
    await publish_with(document_queue, await document_queue.claim_one(), inner=b"1", kept=b"2", changed=b"3")
    for job in await document_queue.claim():
        name = (await document_queue.show(args_of(job)["document"])).name
        await (publish_with(document_queue, job, deep=b"4") if name.endswith("inner") else document_queue.publish(job))
    assert await document_queue.publish(await document_queue.claim_one())
    return made.id


async def members(document_queue: DocumentQueue) -> dict[str, tuple[str, int, int | None]]:
    return {
        each.name.removeprefix("a.zip!/"): (each.status, each.version, each.live_version)
        for each in await list_documents(document_queue.app)
        if each.parent is not None
    }


async def test_what_is_not_inside_any_more_goes_with_all_that_was_in_it(document_queue: DocumentQueue) -> None:
    """In one commit: search must not find a part of something that is gone."""
    await packed(document_queue)
    await document_queue.add("a.zip", b"other zip", replace=True)
    assert set(await members(document_queue)) == {"inner", "inner!/deep", "kept", "changed"}, "the old version is live"
    done = await publish_with(document_queue, await document_queue.claim_one(), kept=b"2", changed=b"33", new=b"5")
    assert (done.added, done.replaced, done.deleted) == (1, 1, 2)
    assert await members(document_queue) == {
        "kept": ("ready", 1, 1),
        "changed": ("queued", 2, 1),
        "new": ("queued", 1, None),
    }


async def test_members_have_the_metadata_of_the_newest_upload(document_queue: DocumentQueue) -> None:
    await packed(document_queue)
    await document_queue.add("a.zip", b"other zip", replace=True, metadata={"year": 2025}, uploaded_by="eve")
    await publish_with(document_queue, await document_queue.claim_one(), inner=b"1", kept=b"2", changed=b"33", new=b"5")
    found = await list_documents(document_queue.app)
    assert len(found) == 6
    assert {(each.metadata["year"], each.uploaded_by) for each in found} == {(2025, "eve")}


async def test_a_failed_archive_keeps_the_members_of_the_old_one(document_queue: DocumentQueue) -> None:
    number = await packed(document_queue)
    before = await members(document_queue)
    await document_queue.add("a.zip", b"broken zip", replace=True)
    await document_queue.bury(await document_queue.claim_one())
    assert await members(document_queue) == before
    assert "version 1 is still found" in (await explain_document(document_queue.app, number)).sentence
