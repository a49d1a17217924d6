"""A mail or an archive is replaced: what stays inside, what changes, what goes, and whose metadata it all has."""

import json
from typing import Any

from penstock.blobs import Stored
from penstock.documents import Members, add_members, explain_document, list_documents, load_work, publish
from penstock.engine.job import Job
from tests.documents.conftest import Office, pieces


def args_of(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(job.args)
    return found


async def store(office: Office, content: bytes) -> Stored:
    return await office.store.write(pieces(content), most=1000)


async def publish_with(office: Office, job: Job, **members: bytes) -> Members:
    inside = [(name, await store(office, content)) for name, content in members.items()]
    async with office.shop.context(job, await office.worker(), office.kind).finish() as tx:
        work = await load_work(tx, **args_of(job))
        assert work is not None
        assert await publish(tx, work, media_type="application/zip", pages=0, chunks=0, words=0)
        return await add_members(tx, office.app, work, inside)


async def packed(office: Office) -> int:
    """An archive with `kept`, `changed`, and `inner` that has `deep` inside, all ready."""
    made = await office.add("a.zip", b"zip", metadata={"year": 2024}, uploaded_by="ada")
    await publish_with(office, await office.claim_one(), inner=b"1", kept=b"2", changed=b"3")
    for job in await office.claim():
        name = (await office.show(args_of(job)["document"])).name
        await (publish_with(office, job, deep=b"4") if name.endswith("inner") else office.publish(job))
    assert await office.publish(await office.claim_one())
    return made.id


async def members(office: Office) -> dict[str, tuple[str, int, int | None]]:
    return {
        each.name.removeprefix("a.zip!/"): (each.status, each.version, each.live_version)
        for each in await list_documents(office.app)
        if each.parent is not None
    }


async def test_what_is_not_inside_any_more_goes_with_all_that_was_in_it(office: Office) -> None:
    """In one commit: search must not find a part of something that is gone."""
    await packed(office)
    await office.add("a.zip", b"other zip", replace=True)
    assert set(await members(office)) == {"inner", "inner!/deep", "kept", "changed"}, "the old version is live"
    done = await publish_with(office, await office.claim_one(), kept=b"2", changed=b"33", new=b"5")
    assert (done.added, done.replaced, done.deleted) == (1, 1, 2)
    assert await members(office) == {"kept": ("ready", 1, 1), "changed": ("queued", 2, 1), "new": ("queued", 1, None)}


async def test_members_have_the_metadata_of_the_newest_upload(office: Office) -> None:
    await packed(office)
    await office.add("a.zip", b"other zip", replace=True, metadata={"year": 2025}, uploaded_by="eve")
    await publish_with(office, await office.claim_one(), inner=b"1", kept=b"2", changed=b"33", new=b"5")
    found = await list_documents(office.app)
    assert len(found) == 6
    assert {(each.metadata["year"], each.uploaded_by) for each in found} == {(2025, "eve")}


async def test_a_failed_archive_keeps_the_members_of_the_old_one(office: Office) -> None:
    number = await packed(office)
    before = await members(office)
    await office.add("a.zip", b"broken zip", replace=True)
    await office.bury(await office.claim_one())
    assert await members(office) == before
    assert "version 1 is still found" in (await explain_document(office.app, number)).sentence
