"""Whoever waits for changes is woken, and a thousand changes are a few notifications."""

import asyncio

import pytest

from penstock.documents import Announcer, cancel_document, changes, delete_document, watch_changes
from tests.documents.conftest import Office


async def test_what_people_and_the_engine_do_is_announced(office: Office) -> None:
    async with watch_changes(office.app.database) as watch:
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while not await office.run(  # noqa: ASYNC110  LISTEN is sent by another task
                "select from pg_stat_activity where query like 'LISTEN%penstock_changed%' and datname = current_database()"
            ):
                await asyncio.sleep(0.01)
        made = await office.add()
        assert await watch.wait(5)
        await cancel_document(office.app, made.id)
        assert await watch.wait(5)
        await delete_document(office.app, made.id)
        assert await watch.wait(5)
        assert not await watch.wait(0.05)
        Announcer(office.app).tell()
        assert await watch.wait(5)


async def test_where_no_notification_arrives_a_new_event_is_seen(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(changes, "CHANNEL", "nobody_sends_here")
    async with watch_changes(office.app.database) as watch:
        office.app.database.notifications.arriving = False
        assert not await watch.wait(0.1)
        waiting = asyncio.create_task(watch.wait(5))
        await office.add()
        assert await waiting


async def test_a_thousand_changes_are_a_few_notifications(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "TELL_EVERY", 0.1)
    announcer = Announcer(office.app)
    told = 0

    async def count() -> None:
        nonlocal told
        async with watch_changes(office.app.database) as watch:
            while await watch.wait(1.0):
                told += 1

    counting = asyncio.create_task(count())
    for _ in range(1000):
        announcer.tell()
        await asyncio.sleep(0)
    await announcer.close()
    await counting
    assert 1 <= told <= 5
