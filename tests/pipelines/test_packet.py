"""Packets: many documents become one PDF, and are found each by itself, on the pages of both."""

import asyncio
from pathlib import Path

import pikepdf
import pytest

from penstock.documents import (
    delete_document,
    list_documents,
)
from penstock.documents.packets import show_packets
from penstock.extraction.sandbox.pool import TASKS
from penstock.settings import DatabaseUrl
from tests.pipelines.packets import COVER, PART_A, PART_B, accept, search, until_over
from tests.product_with_worker import product_with_worker, rows
from tests.sample_documents import pdf, scan

ROOT = Path(__file__).parents[2]
FILES = {"cover.txt": COVER.encode(), "a.pdf": pdf(PART_A, PART_A + "More of it."), "b.md": PART_B.encode()}


async def test_a_packet_is_merged_found_and_told_apart(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        accepted = await accept(product, "mill/42", FILES)
        shown = await until_over(product, accepted.id)
        assert (shown.status, shown.pages, shown.chunks, shown.media_type) == ("ready", 4, 0, "application/pdf"), shown
        async with product.app.database.pool.session() as session:
            packet = (await show_packets(session, [accepted.id]))[accepted.id]
        assert [(each.name, each.first_page, each.pages, each.status) for each in packet.documents] == [
            ("cover.txt", 1, 1, "ready"),
            ("a.pdf", 2, 2, "ready"),
            ("b.md", 4, 1, "ready"),
        ]
        assert [(part.label, part.first_page, part.last_page) for part in packet.parts] == [
            ("cover", 1, 1),
            ("A", 2, 3),
            ("B", 4, 4),
        ]
        [hit] = await search(product, "bearing")
        assert (hit.name, hit.page, hit.packet, hit.packet_page) == ("mill/42!/b.md", 1, accepted.id, 4)
        async with product.store.open(shown.key) as file:
            with pikepdf.open(file) as merged, merged.open_outline() as outline:
                assert len(merged.pages) == 4
                assert [entry.title for entry in outline.root] == ["cover.txt", "a.pdf", "b.md"]
        [member] = [
            each for each in await list_documents(product.app, collection="papers") if each.name.endswith("b.md")
        ]
        assert (member.parent, member.status, member.media_type, member.metadata) == (
            accepted.id,
            "ready",
            "text/markdown",
            {"case": 7},
        )


@pytest.mark.parametrize("require_all", [False, True])
async def test_a_document_that_cannot_be_read_is_a_gap_or_the_end(
    database_url: DatabaseUrl, tmp_path: Path, require_all: bool
) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        files = {"a.txt": PART_A.encode(), "broken.pdf": b"%PDF-1.7 and no more", "virus.pdf": b"MZ\x90\0" + bytes(200)}
        accepted = await accept(product, "42", files, require_all=require_all)
        shown = await until_over(product, accepted.id)
        members = {each.name: each for each in await list_documents(product.app, collection="papers") if each.parent}
        if require_all:
            assert shown.status == "failed"
            assert shown.error
            assert "broken.pdf" in shown.error["message"]
            assert {each.status for each in members.values()} == {"failed"}
            return
        assert shown.status == "ready"
        assert [gap["reason"].partition(" is not in it: ")[0] for gap in shown.gaps] == ["broken.pdf", "virus.pdf"]
        assert {name: each.status for name, each in members.items()} == {
            "42!/a.txt": "ready",
            "42!/broken.pdf": "failed",
            "42!/virus.pdf": "failed",
        }
        assert "Windows program" in (members["42!/virus.pdf"].error or {})["message"]


async def test_a_packet_of_nothing_readable_fails_with_its_reasons(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        accepted = await accept(product, "42", {"x.bin": bytes(500)})
        shown = await until_over(product, accepted.id)
        assert shown.status == "failed"
        assert "x.bin" in (shown.error or {})["message"]


async def test_the_same_again_changes_nothing_and_another_list_is_the_next_version(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        first = await accept(product, "42", FILES)
        await until_over(product, first.id)
        again = await accept(product, "42", FILES, replace=True)
        assert (again.id, again.unchanged, again.version) == (first.id, True, 1)
        files = {"cover.txt": FILES["cover.txt"], "c.txt": b"PART A\n\nA new weir was built."}
        other = await accept(product, "42", files, replace=True)
        assert (other.id, other.unchanged, other.version) == (first.id, False, 2)
        shown = await until_over(product, first.id)
        assert (shown.status, shown.live_version, shown.pages) == ("ready", 2, 2)
        names = {each.name: each.status for each in await list_documents(product.app, collection="papers")}
        assert names == {"42": "ready", "42!/cover.txt": "ready", "42!/c.txt": "ready"}
        assert await search(product, "bearing") == []
        [hit] = await search(product, "weir")
        assert (hit.packet, hit.packet_page) == (first.id, 2)


async def test_scanned_pages_are_spread_and_resumed(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        product.sandboxes._tasks = TASKS | {"ocr": "tests.pipelines.tasks:ocr"}
        product.sandboxes._paths = [str(ROOT)]
        accepted = await accept(product, "42", {"scan.tif": scan(20), "a.txt": PART_A.encode()})
        shown = await until_over(product, accepted.id)
        assert (shown.status, shown.pages) == ("ready", 20), "page 3 kills its child, and is a gap"
        assert [gap["page"] for gap in shown.gaps] == [3]
        hits = await search(product, '"This is page 17."')
        assert (hits[0].name, hits[0].page, hits[0].packet_page) == ("42!/scan.tif", 17, 17)
        children = await rows(product, "select from penstock.job_history where fanout is not null")
        assert len(children) == 3


async def test_deleting_a_packet_deletes_its_documents(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        accepted = await accept(product, "42", FILES)
        await until_over(product, accepted.id)
        await delete_document(product.app, accepted.id, now=True)
        assert await search(product, "bearing") == []
        async with asyncio.timeout(60):
            while True:
                if not await rows(product, "select from penstock.versions"):
                    break
                await asyncio.sleep(0.1)
        for table in ("packets", "packet_documents", "packet_parts", "pages", "chunks"):
            assert await rows(product, f"select from penstock.{table}") == []
