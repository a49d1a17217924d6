"""Documents that failed because of their content: their list, and their dismissal."""

from typing import Any

import pytest

from penstock.documents import UNREADABLE, UnreadDocument, dismiss_document, list_unread, retry_document
from penstock.errors import NotFound, WrongState
from tests.documents.conftest import DocumentQueue


async def unread(document_queue: DocumentQueue, **where: Any) -> list[UnreadDocument]:
    async with document_queue.app.database.pool.session() as session:
        return (await list_unread(session, most=10, **where))[0]


async def fail(document_queue: DocumentQueue, name: str, cause: str = "Encrypted", **where: str) -> int:
    accepted = await document_queue.add(name, name.encode(), **where)
    await document_queue.bury(await document_queue.claim_one(), cause, "a password is needed")
    return accepted.id


def test_the_classes_of_content_failures() -> None:
    assert UNREADABLE == [
        "Corrupt",
        "Encrypted",
        "NothingInside",
        "Suspicious",
        "TooMuch",
        "Unreadable",
        "Unsupported",
    ]


async def test_only_failures_of_content_are_unread(document_queue: DocumentQueue) -> None:
    first = await fail(document_queue, "a.pdf")
    await fail(document_queue, "b.pdf", "OSError")
    second = await fail(document_queue, "c.pdf", "Corrupt")
    newest, oldest = await unread(document_queue)
    assert (newest.id, newest.name, newest.cause) == (second, "c.pdf", "Corrupt")
    assert (oldest.id, oldest.collection, oldest.reason) == (first, "files", "a password is needed")
    async with document_queue.app.database.pool.session() as session:
        listed, count = await list_unread(session, most=1)
    assert ([each.id for each in listed], count) == ([second], 2)
    assert await unread(document_queue, collection="other") == []
    assert await unread(document_queue, tenant="other") == []
    assert await unread(document_queue, among=[]) == []
    assert len(await unread(document_queue, tenant="default", collection="files")) == 2


async def test_a_member_of_a_packet_that_could_not_be_read(document_queue: DocumentQueue) -> None:
    """It has a class and no type (packets.sql, fail_members)."""
    document = await fail(document_queue, "a.pdf")
    await document_queue.run(
        """update penstock.documents set error = '{"class": "Unreadable", "message": "too small"}' where id = $1""",
        document,
    )
    [found] = await unread(document_queue)
    assert (found.cause, found.reason) == ("Unreadable", "too small")


async def test_a_dismissed_document_stays_failed_and_is_not_unread(document_queue: DocumentQueue) -> None:
    document = await fail(document_queue, "a.pdf")
    assert (await document_queue.show(document)).dismissed_at is None
    dismissed = await dismiss_document(document_queue.app, document, by="ann")
    assert (dismissed.status, dismissed.dismissed_at is not None) == ("failed", True)
    assert await unread(document_queue) == []
    await dismiss_document(document_queue.app, document)
    assert (await document_queue.events(document)).count("dismissed") == 1, "again changes nothing"


async def test_a_dismissed_document_that_fails_again_is_unread(document_queue: DocumentQueue) -> None:
    document = await fail(document_queue, "a.pdf")
    await dismiss_document(document_queue.app, document)
    retried = await retry_document(document_queue.app, document)
    assert (retried.error, retried.dismissed_at) == (None, None)
    await document_queue.bury(await document_queue.claim_one(), "Corrupt", "it is damaged")
    [found] = await unread(document_queue)
    assert (found.id, found.reason) == (document, "it is damaged")


async def test_what_cannot_be_dismissed(document_queue: DocumentQueue) -> None:
    ready = await document_queue.ready("a.txt")
    with pytest.raises(WrongState, match=r"\(a\.txt\) is ready: only a failed document can be dismissed\."):
        await dismiss_document(document_queue.app, ready.id)
    broken = await fail(document_queue, "b.pdf", "OSError")
    with pytest.raises(WrongState, match=f"did not fail because of its content: .*documents retry {broken}"):
        await dismiss_document(document_queue.app, broken)
    with pytest.raises(NotFound):
        await dismiss_document(document_queue.app, broken, tenant="other")
