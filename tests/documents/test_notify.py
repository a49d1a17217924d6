"""Whoever waits for changes is woken, and a thousand changes are a few notifications."""

import asyncio

import pytest

from penstock.documents import Notifier, cancel_document, delete_document, notify, watch_changes
from tests.documents.conftest import DocumentQueue


async def test_what_people_and_the_engine_do_is_announced(document_queue: DocumentQueue) -> None:
    async with watch_changes(document_queue.app.database) as watch:
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while not await document_queue.run(  # noqa: ASYNC110  LISTEN is sent by another task
                "select from pg_stat_activity where query like 'LISTEN%penstock_changed%' and datname = current_database()"
            ):
                await asyncio.sleep(0.01)
        made = await document_queue.add()
        assert await watch.wait(5)
        await cancel_document(document_queue.app, made.id)
        assert await watch.wait(5)
        await delete_document(document_queue.app, made.id)
        assert await watch.wait(5)
        assert not await watch.wait(0.05)
        Notifier(document_queue.app).notify()
        assert await watch.wait(5)


async def test_where_no_notification_arrives_a_new_event_is_seen(
    document_queue: DocumentQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "POLL_EVERY", 0.02)
    monkeypatch.setattr(notify, "CHANNEL", "nobody_sends_here")
    async with watch_changes(document_queue.app.database) as watch:
        document_queue.app.database.notifications.arriving = False
        assert not await watch.wait(0.1)
        waiting = asyncio.create_task(watch.wait(5))
        await document_queue.add()
        assert await waiting


async def test_a_thousand_changes_are_a_few_notifications(
    document_queue: DocumentQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "NOTIFY_EVERY", 0.1)
    notifier = Notifier(document_queue.app)
    told = 0
    watching = asyncio.Event()

    async def count() -> None:
        nonlocal told
        async with watch_changes(document_queue.app.database) as watch:
            while not await watch.wait(0.2):  # the session listens to this channel a moment later
                await document_queue.run("notify penstock_changed")
            watching.set()
            while await watch.wait(1.0):
                told += 1

    counting = asyncio.create_task(count())
    await watching.wait()
    for _ in range(1000):
        notifier.notify()
        await asyncio.sleep(0)
    await notifier.close()
    await counting
    assert 1 <= told <= 5
