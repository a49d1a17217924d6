"""A folder that is watched: complete files become documents, once; what cannot be taken says why; what is done moves away."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import list_documents, show_document
from penstock.documents.manifest import DIGEST
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.sources import MessageOutcome, SourceCheck, SourceContext, Sources, Trouble, folder
from penstock.sources import folder as sources_folder
from penstock.sources.files import FileChanged, hash_file, name_filter, pieces, walk
from penstock.sources.folder import FolderSource, open_source
from tests.product_with_source import product_with_source, text_of, until_settled
from tests.product_with_worker import rows


def opened(product: Product) -> FolderSource:
    """The source as a process that has just started has it."""
    return open_source(
        SourceContext("orders", product.settings.sources["orders"], product.settings, product.inbox, product.store)
    )


@asynccontextmanager
async def watching(
    database_url: DatabaseUrl, home: Path, **chosen: Any
) -> AsyncIterator[tuple[Product, FolderSource, Path]]:
    top = home / "in"
    top.mkdir(exist_ok=True)
    settings: dict[str, Any] = {"type": "folder", "folder": top, "settle": "50ms", "poll_every": "10s"} | chosen
    async with product_with_source(database_url, home, **settings) as product:
        yield product, opened(product), top


async def look(source: FolderSource) -> None:
    """Until all that is there was taken, or put off."""
    await source.poll()
    for seen in source._seen.values():
        seen.due = min(seen.due, 0) if not seen.taken else seen.due
    while await source.poll():
        pass


def put(path: Path, text: str = "The sluice gate was repaired.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def names(product: Product) -> list[str]:
    return sorted(each.name for each in await list_documents(product.app))


def outcomes(found: Sequence[Any], status: str = "ready", reason: str = "") -> list[MessageOutcome]:
    return [MessageOutcome(row["message_id"], status, reason) for row in found]


@pytest.mark.parametrize("watched", [True, False])
async def test_files_are_taken_when_they_are_complete(
    database_url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """Heard of by watchfiles, long before the next look; or found by looking."""
    if not watched:
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    every = {
        "poll_every": "1h" if watched else "100ms",
        "settle": "1s",
    }  # a busy machine sleeps longer than it was told to
    async with watching(database_url, tmp_path, pattern="*.txt, *.md", **every) as (product, source, top):
        put(tmp_path / "outside.txt")
        for name in (
            "first.txt",
            "deep/er/second.MD",
            "other.pdf",
            ".hidden.txt",
            ".git/x.txt",
            "done/x.txt",
            "~$first.txt",
        ):
            put(top / name, f"This is {name}.")
        (top / "link.txt").symlink_to(tmp_path / "outside.txt")
        (top / "folder").symlink_to(tmp_path)
        os.mkfifo(top / "pipe.txt")
        running = asyncio.create_task(source.run())
        await _until(product, 2)
        with (top / "slow.txt").open("w") as slow:
            for _ in range(20):
                slow.write("Water flows. ")
                slow.flush()
                await asyncio.sleep(0.02)  # slower than nothing, faster than settle
        await _until(product, 3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await until_settled(product)
        assert await names(product) == ["deep/er/second.MD", "first.txt", "slow.txt"]
        [slow_one] = [each for each in await list_documents(product.app) if each.name == "slow.txt"]
        assert (slow_one.size, slow_one.version) == (20 * 13, 1)
        [row] = await rows(product, "select * from penstock.sources")
        assert (row["received"], row["error"]) == (3, None)


async def _until(product: Product, count: int) -> None:
    async with asyncio.timeout(20):
        while len(await rows(product, "select from penstock.inbox")) < count:  # noqa: ASYNC110  no event for SQL
            await asyncio.sleep(0.02)


async def test_a_changed_file_replaces_its_document_also_with_what_it_was(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with watching(database_url, tmp_path) as (product, source, top):
        path = put(top / "a.txt", "One.")
        for version, (text, time) in enumerate([("One.", 1000), ("Two.", 2000), ("One.", 1000)], 1):
            put(path, text)
            os.utime(path, (time, time))
            await look(source)
            found = await until_settled(product)
            shown = await show_document(product.app, found[0]["document_id"])
            assert (shown.version, shown.live_version) == (version, version), (shown.status, shown.error)
            assert await text_of(product, shown.id) == text
        again = opened(product)  # after a restart nothing is stored, and nothing is received
        await look(again)
        await look(again)
        found = await until_settled(product)
        assert [row["repeats"] for row in found] == [0, 0]
        assert len({row["document_id"] for row in found}) == 1
        os.utime(path, (4000, 4000))  # touched: a message, but no version
        await look(again)
        await until_settled(product)
        assert (await show_document(product.app, found[0]["document_id"])).version == 3
        assert len(await rows(product, "select from penstock.blobs")) == 2


async def test_what_cannot_be_taken_is_a_dead_letter_once(
    database_url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "PATIENCE", 0)
    async with watching(database_url, tmp_path) as (product, source, top):
        monkeypatch.setitem(product.settings.limits.__dict__, "bytes", 100)  # all products of the process share it
        put(top / "large.txt", "x" * 101)
        put(top / "back\\slash.txt")
        put(top / "bell\a.txt")
        Path(os.fsdecode(os.fsencode(top) + b"/caf\xe9.txt")).write_text("Not UTF-8.")
        put(top / ("x" * 200) / ("y" * 200) / ("z" * 200) / ("v" * 200) / ("w" * 230))  # 1,034 bytes
        put(top / "good.txt")
        for _ in range(3):
            await look(source)
        await look(opened(product))
        found = await until_settled(product)
        assert await names(product) == ["good.txt"]
        said = {row["message_id"][:7]: row["error"] for row in found if row["state"] == "failed"}
        assert len(found) == 6
        assert "101 bytes, more than 100" in said["large.t"]
        assert "backslash" in said["back\\sl"]
        assert "U+0007" in said["bell\a.t"]
        assert "not valid text" in said["caf?.tx"]
        assert "more than 1,024" in said["xxxxxxx"]
        assert [row["repeats"] for row in found] == [0] * 6
        await source.tell(outcomes([row for row in found if row["state"] == "failed"], "failed", "no"))


async def test_a_file_that_becomes_readable_is_taken(
    database_url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "PATIENCE", 0)
    async with watching(database_url, tmp_path) as (product, source, top):
        path = put(top / "secret.txt")
        real = os.open

        def refused(name: Any, *arguments: Any, **options: Any) -> int:
            if name == "secret.txt":
                raise PermissionError(13, "Permission denied")
            return real(name, *arguments, **options)

        with monkeypatch.context() as context:
            context.setattr(os, "open", refused)
            await look(source)
            await look(source)
        [refusal] = await until_settled(product)
        assert "cannot be read (Permission denied)" in refusal["error"]
        path.chmod(0o600)
        await look(source)
        await until_settled(product)
        assert await names(product) == ["secret.txt"]


async def test_a_file_that_changes_while_it_is_taken_is_not(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with watching(database_url, tmp_path) as (product, source, top):
        path = put(top / "a.txt")
        put(top / "b.txt", "Stays.")
        await source.poll()
        put(path, "Something else, and longer than before.")
        for seen in source._seen.values():
            seen.due = 0
        await source._take(list(source._seen.values()))
        await until_settled(product)
        assert await names(product) == ["b.txt"]
        await look(source)
        found = await until_settled(product)
        assert len(found) == 2
        assert await names(product) == ["a.txt", "b.txt"]
        assert len(await _keys(product)) == len(await rows(product, "select from penstock.blobs"))


async def _keys(product: Product) -> list[str]:
    return [key async for key, _ in product.store.keys("")]


async def test_reading_finds_what_was_seen_or_nothing(tmp_path: Path) -> None:
    top = tmp_path / "in"
    every = name_filter("*")
    put(top / "sub" / "a.txt", "x" * 3_000_000)
    [seen] = walk(top, wanted=every)
    reading = pieces(top, seen)
    await anext(reading)
    with (top / "sub" / "a.txt").open("a") as file:
        file.write("more")
    with pytest.raises(FileChanged):
        [piece async for piece in reading]
    [seen] = walk(top, wanted=every)
    (top / "sub").rename(tmp_path / "elsewhere")
    with pytest.raises(FileChanged):
        hash_file(top, seen)
    (top / "sub").symlink_to(tmp_path / "elsewhere")  # the same file, by a link that leads out
    with pytest.raises(FileChanged):
        hash_file(top, seen)
    assert list(walk(top, wanted=every)) == []


async def test_many_workers_bring_a_file_once(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with watching(database_url, tmp_path, batch=3) as (product, source, top):
        for number in range(10):
            put(top / f"{number}.txt", f"Page {number}.")
        await asyncio.gather(*(look(each) for each in (source, opened(product), opened(product))))
        found = await until_settled(product)
        assert (len(found), {row["number"] for row in found}) == (10, {1})
        assert await names(product) == [f"{number}.txt" for number in range(10)]
        assert len(await _keys(product)) == 10
        assert (await rows(product, "select received from penstock.sources"))[0]["received"] == 10


async def test_an_older_message_that_comes_late_does_not_replace_a_newer_one(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with watching(database_url, tmp_path) as (product, source, top):
        await product.app.pause(queue="inbox")
        for text in ("Older.", "Newer."):
            put(top / "a.txt", text)
            await look(source)
        older, newer = await rows(product, "select id, job_id from penstock.inbox order by id")
        hold = "update penstock.jobs set state = 'later', run_at = penstock.now() + interval '1 hour' where id = $1"
        await rows(product, hold, older["job_id"])
        await product.app.resume(queue="inbox")
        assert await product.app.result(newer["job_id"], timeout="30s") == {"document": newer["id"]}
        await rows(product, "update penstock.test_clock set shift = shift + interval '2 hours'")
        assert await product.app.result(older["job_id"], timeout="30s") == {"document": newer["id"]}
        found = await until_settled(product)
        assert {row["document_id"] for row in found} == {newer["id"]}
        assert (await show_document(product.app, newer["id"])).version == 1
        assert await text_of(product, newer["id"]) == "Newer."


async def test_a_check_reads_and_changes_nothing(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with watching(database_url, tmp_path, batch=2) as (product, source, top):
        for name in ("a.txt", "b.txt", "c.txt"):
            put(top / name, f"This is {name}.")
        sources = Sources(product, ["orders"])
        found = await sources.check("orders")
        assert (found.new, found.more) == (2, True)
        assert [each.partition("@")[0] for each in found.examples] == ["a.txt", "b.txt"]
        for table in ("inbox", "sources", "jobs", "blobs"):
            assert await rows(product, f"select from penstock.{table}") == [], table
        assert [key async for key, _ in product.store.keys("")] == []
        await look(source)
        assert await sources.check("orders") == SourceCheck(0)
        put(top / "b.txt", "This is new.")
        assert (await sources.check("orders")).new == 1
        assert len(await rows(product, "select from penstock.inbox")) == 3
        top.rename(tmp_path / "away")
        with pytest.raises(Trouble, match="does not exist: create or mount it"):
            await sources.check("orders")
        [row] = await rows(product, "select error from penstock.sources")
        assert row["error"] is None, "the trouble is that of a worker to note"


async def test_files_move_when_they_are_done_with(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with watching(database_url, tmp_path, afterwards="move") as (product, source, top):
        path = put(top / "sub" / "a.txt", "One.")
        put(top / "done" / "sub" / "a.txt", "Somebody's own.")
        put(top / "b.txt", "Bad.")
        await look(source)
        bad, good = await until_settled(product)
        await source.tell([*outcomes([good]), *outcomes([bad], "failed", "It is torn.")])
        await source.tell([*outcomes([good]), *outcomes([bad], "failed", "It is torn.")])  # again is the same
        assert _tree(top) == {
            "done/sub/a.txt": "Somebody's own.",
            "done/sub/a (2).txt": "One.",
            "failed/b.txt": "Bad.",
            "failed/b.txt.reason.txt": "It is torn.\n",
        }
        await source.tell(outcomes([bad], "failed", "It is empty."))
        assert (top / "failed/b.txt.reason.txt").read_text() == "It is empty.\n"
        with pytest.MonkeyPatch.context() as context:
            context.setattr(sources_folder, "item_at", _unreadable)
            await source.tell(outcomes([bad]))
        assert (top / "failed" / "b.txt").exists(), "one that cannot be read is left"
        await source.tell(outcomes([bad]))  # redriven
        assert (top / "done" / "b.txt").exists()
        assert not list((top / "failed").iterdir())

        (top / "done/sub/a (2).txt").rename(path)  # the very same file comes again
        put(top / "b.txt", "Better.")
        await look(source)
        found = await until_settled(product)
        put(top / "b.txt", "Better still.")
        await source.tell(outcomes(found))
        assert _tree(top)["b.txt"] == "Better still.", "it was changed since it was taken"
        assert _tree(top)["done/sub/a (2).txt"] == "One."


def _unreadable(*_: Any, **__: Any) -> None:
    raise PermissionError(13, "Permission denied")


def _tree(top: Path) -> dict[str, str]:
    return {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}


async def test_a_folder_below_becomes_a_packet(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with watching(database_url, tmp_path, makes="packet", afterwards="move") as (product, source, top):
        for name in ("case/b.txt", "case/a.txt", "case/more/c.txt", "case/.lock", "beside.txt"):
            put(top / name, f"This is {name}.")
        put(top / "case" / "twice.txt", "This is case/a.txt.")
        (top / "empty").mkdir()
        await product.app.pause(queue="inbox")
        await look(source)
        await look(opened(product))
        found = await rows(product, "select * from penstock.inbox")
        [asked] = [json.loads(row["payload"]) for row in found]
        assert asked["name"] == "case"
        assert [each["name"] for each in asked["documents"]] == ["a.txt", "b.txt", "more/c.txt", "twice.txt"]
        kept = await rows(
            product,
            "select encode(digest, 'hex') as digest from penstock.inbox_blobs join penstock.blobs on id = blob_id",
        )
        assert {row["digest"] for row in kept} == {each[DIGEST] for each in asked["documents"]}
        assert len(kept) == len(await _keys(product)) == 3
        put(top / "done" / "case" / "x.txt", "Another.")
        await source.tell(outcomes(found))
        assert (top / "done" / "case (2)" / "more" / "c.txt").exists()
        assert not (top / "case").exists()
        assert (top / "beside.txt").exists()


async def test_while_the_inbox_is_full_nothing_is_looked_at(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """And what is heard of meanwhile does not make it ask all the time."""
    async with watching(database_url, tmp_path, batch=1, waiting=2, poll_every="200ms") as (product, source, top):
        await product.app.pause(queue="inbox")
        for number in range(5):
            put(top / f"{number}.txt", f"Page {number}.")
        running = asyncio.create_task(source.run())
        await _until(product, 2)
        asked = 0
        real = SourceContext.has_room

        async def has_room(desk: SourceContext) -> bool:
            nonlocal asked
            asked += 1
            put(top / "5.txt", str(asked))
            return await real(desk)

        with pytest.MonkeyPatch.context() as context:
            context.setattr(SourceContext, "has_room", has_room)
            await asyncio.wait([running], timeout=1.2)
        assert asked < 10
        assert len(await rows(product, "select from penstock.inbox")) == 2
        await product.app.resume(queue="inbox")
        await _until(product, 6)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_folder_that_is_not_there_is_said(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with watching(database_url, tmp_path, folder=tmp_path / "nowhere", afterwards="move") as (_, source, _top):
        with pytest.raises(Trouble, match=r"nowhere of source orders does not exist: create or mount it"):
            await source.run()
        with pytest.raises(Trouble, match="does not exist"):
            await source.tell([MessageOutcome("a@b", "ready", "")])
