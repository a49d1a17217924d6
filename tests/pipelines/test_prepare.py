"""A document's way, with a worker in this process: scans in parts, gaps, what is inside of what."""

import json
from pathlib import Path

import pytest

from penstock.documents import find_document, list_documents
from penstock.extraction.sandbox.pool import TASKS
from penstock.pipelines import prepare as pipelines_prepare
from penstock.settings import DatabaseUrl
from tests.product_with_worker import prepare, product_with_worker, rows, until_over
from tests.sample_documents import archive, scan, story

ROOT = Path(__file__).parents[2]


async def test_a_long_scan_is_spread_over_children(
    database_url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that kills its child twice is a gap; the pages beside it are read, and stand in their order."""
    monkeypatch.setattr(pipelines_prepare, "RANGE", 2)
    async with product_with_worker(database_url, tmp_path) as product:
        tasks = TASKS | {"ocr": "tests.pipelines.tasks:ocr"}
        product.sandboxes._tasks = tasks
        product.sandboxes._paths = [str(ROOT)]
        shown = await prepare(product, "scan.tif", scan(7))
        assert shown.status == "ready"
        assert [gap["page"] for gap in shown.gaps] == [3]
        assert "crashed" in shown.gaps[0]["reason"]
        pages = await rows(product, "select number, text, ocr from penstock.pages order by number")
        assert [(row["number"], row["text"]) for row in pages] == [
            (n, f"This is page {n}.") for n in (1, 2, 4, 5, 6, 7)
        ]
        children = await rows(
            product,
            "select args from penstock.job_history join penstock.lanes as lane on lane.id = lane where kind = 'ocr_pages'",
        )
        ranges = sorted(json.loads(row["args"])["pages"] for row in children)
        assert ranges == [[1, 2], [3, 4], [5, 6], [7]]


async def test_a_few_pages_are_read_where_the_document_is(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        shown = await prepare(product, "scan.tif", scan(2))
        assert (shown.status, shown.chunks) == ("ready", 0)
        jobs = await rows(product, "select count(*) as count from penstock.job_history where fanout is not null")
        assert jobs[0]["count"] == 0
        assert shown.gaps, "a document without text says why"


async def test_without_ocr_no_process_is_asked_for_it(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path, extraction={"ocr": "off"}) as product:
        product.sandboxes._tasks = TASKS | {"ocr": "tests.pipelines.tasks:ocr"}
        shown = await prepare(product, "scan.tif", scan(7))
        assert (shown.status, shown.chunks) == ("ready", 0)
        assert [gap["reason"] for gap in shown.gaps] == ["this is an image, and the OCR is off"]
        assert await rows(product, "select from penstock.checkpoints") == []
        assert await rows(product, "select from penstock.job_history where fanout is not null") == []


async def test_archives_in_archives_end_at_the_depth(database_url: DatabaseUrl, tmp_path: Path) -> None:
    inner = archive(deepest_txt=story(50))
    for level in range(3):
        inner = archive(**{f"level{level}_zip": inner})
    async with product_with_worker(database_url, tmp_path, limits={"depth": 2}) as product:
        await prepare(product, "outer.zip", inner)

        found = {each.name: each for each in await until_over(product, 3)}
        assert list(found) == ["outer.zip", "outer.zip!/level2.zip", "outer.zip!/level2.zip!/level1.zip"]
        deepest = found["outer.zip!/level2.zip!/level1.zip"]
        assert deepest.status == "ready"
        assert "limits.depth (2)" in deepest.gaps[-1]["reason"]


async def test_one_upload_becomes_only_so_many_documents(database_url: DatabaseUrl, tmp_path: Path) -> None:
    packed = archive(**{f"part{number}_zip": archive(a_txt=b"one", b_txt=b"two") for number in range(4)})
    async with product_with_worker(database_url, tmp_path, limits={"documents": 5}) as product:
        await prepare(product, "outer.zip", packed)

        found = await until_over(product, 5)
        assert len(found) == 5, "the archives inside were not unpacked: their family was large enough"
        assert all("limits.documents (5)" in each.gaps[-1]["reason"] for each in found[1:])


async def test_a_replaced_archive_loses_its_members(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        await prepare(product, "files.zip", archive(one_txt=story(30), two_txt=story(30, 1)))
        await prepare(product, "files.zip", b"This is no archive any more.", replace=True)
        names = {each.name: each.status for each in await list_documents(product.app, collection="papers")}
        assert {name: status for name, status in names.items() if status != "deleted"} == {"files.zip": "ready"}
        found = await find_document(product.app, "papers/files.zip")
        assert (found.version, found.live_version) == (2, 2)


async def test_what_has_no_text_says_so(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        blank = await prepare(product, "blank.txt", b" \n \n")
        assert (blank.status, blank.chunks) == ("ready", 0)
        assert blank.gaps
        empty = await prepare(product, "empty.txt", b"")
        assert empty.status == "failed"
        assert empty.error is not None
        assert empty.error["type"] == "NothingInside"
