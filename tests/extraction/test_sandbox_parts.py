"""Parts: files that were inside of the document, sent while the task runs, with limits on both sides."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, BinaryIO

import pytest

from penstock.errors import Corrupt, StorageFull, TooMuch
from tests.extraction.sandboxes import document, make_sandboxes


@pytest.fixture
def file() -> Iterator[BinaryIO]:
    with document() as opened:
        yield opened


class Kept:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.parts: list[tuple[dict[str, Any], int, str]] = []

    async def __call__(self, header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        async for piece in pieces:
            size += len(piece)
            digest.update(piece)
            await asyncio.sleep(0)
        self.parts.append((header, size, digest.hexdigest()))


async def test_parts_come_whole_and_in_order(file: BinaryIO) -> None:
    kept = Kept()
    async with make_sandboxes() as sandboxes:
        answer = await sandboxes.call("parts", file, {"count": 3, "size": 10_000_000}, sink=kept)
    assert answer == {"members": 3}
    assert kept.parts == [
        (
            {"name": f"member {number}", "number": number},
            10_000_000,
            hashlib.sha256(bytes([number]) * 10_000_000).hexdigest(),
        )
        for number in range(3)
    ]


async def test_an_empty_part_is_one(file: BinaryIO) -> None:
    kept = Kept()
    async with make_sandboxes() as sandboxes:
        await sandboxes.call("parts", file, {"count": 1, "size": 0}, sink=kept)
    assert [size for _, size, _ in kept.parts] == [0]


async def test_a_sink_may_leave_a_part_unread(file: BinaryIO) -> None:
    names = []

    async def sink(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
        names.append(header["name"])
        if len(names) == 2:
            await anext(pieces)

    async with make_sandboxes() as sandboxes:
        await sandboxes.call("parts", file, {"count": 3, "size": 1_000_000}, sink=sink)
        assert await sandboxes.call("pid", file, {})
    assert names == ["member 0", "member 1", "member 2"]


async def test_the_error_of_a_sink_ends_the_call_and_the_child(file: BinaryIO) -> None:
    async def sink(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
        raise StorageFull("no room")

    async with make_sandboxes() as sandboxes:
        before = await sandboxes.call("pid", file, {})
        with pytest.raises(StorageFull):
            await sandboxes.call("parts", file, {"count": 3, "size": 1_000_000}, sink=sink)
        assert await sandboxes.call("pid", file, {}) != before


async def test_a_part_that_breaks_is_dropped_and_the_task_goes_on(file: BinaryIO) -> None:
    kept = Kept()
    async with make_sandboxes() as sandboxes:
        assert await sandboxes.call("broken_part", file, {}, sink=kept) == "went on"
    assert [(header["name"], size) for header, size, _ in kept.parts] == [("second", 4)]


async def test_limits_hold_on_this_side_too(file: BinaryIO) -> None:
    async with make_sandboxes() as sandboxes:
        with pytest.raises(TooMuch, match=r"^The file has more than 2 files inside \(limits\.members\)\.$"):
            await sandboxes.call("parts", file, {"count": 3, "size": 1, "limits": {"members": 2}}, sink=Kept())
        with pytest.raises(TooMuch, match=r"^A file inside is larger than 1MB \(limits\.bytes\)\.$"):
            await sandboxes.call(
                "parts", file, {"count": 1, "size": 2**20 + 1, "limits": {"bytes": 2**20}}, sink=Kept()
            )


async def test_all_parts_together_are_bounded_by_the_size_of_the_document(
    file: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.extraction.sandbox.exchange.LEAST_PARTS", 2**20)
    async with make_sandboxes() as sandboxes:
        with pytest.raises(TooMuch, match=r"limits\.expansion"):
            await sandboxes.call(
                "parts", file, {"count": 2, "size": 600_000, "limits": {"expansion": 200}}, sink=Kept()
            )
    with document(b"x" * 10_000) as larger:
        async with make_sandboxes() as sandboxes:
            await sandboxes.call(
                "parts", larger, {"count": 2, "size": 600_000, "limits": {"expansion": 200}}, sink=Kept()
            )


async def test_after_parts_a_crash_is_not_tried_again(file: BinaryIO) -> None:
    kept = Kept()
    async with make_sandboxes() as sandboxes:
        with pytest.raises(
            Corrupt, match=r"^The reader crashed on this file \(SIGABRT\) after 2 of the files inside\.$"
        ):
            await sandboxes.call("parts", file, {"count": 2, "size": 10, "crash": True}, sink=kept)
    assert len(kept.parts) == 2
