"""Documents are replaced while somebody searches all the time: at every moment exactly one version is seen."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.documents import clear_old_versions
from penstock.documents.removal import remove_deleted
from penstock.pipelines import document
from penstock.search import Index
from tests.scenarios.library import Library
from tests.scenarios.made import archive, picture
from tests.scenarios.reader import Reader, edition

BROKEN = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
SMALL = "tests.scenarios.small_batches"
PLACES = [
    "after-claim",
    "step:read",
    "step:chunk",
    "step:embed@3",
    "step:index@2",
    "before-finish",
    "before-commit",
    "after-commit-before-ack",
]
# What is in the tables of search and belongs to no live version.
LEFT = """
with live as (select live_id from penstock.documents where live_id is not null),
  found as (
    select 'chunks' as place, version_id from penstock.chunks union all
    select 'pages', version_id from penstock.pages union all
    select 'vectors', version_id from penstock.vectors_static union all
    select 'folded vectors', version_id from penstock.folded_vectors_static union all
    select 'postings', version_id from penstock.postings union all
    select 'batches', version_id from penstock.indexed_batches union all
    select 'hidden', version_id from penstock.hidden_versions
  )
select distinct place from found where version_id not in (select live_id from live)
"""


async def replace(library: Library, name: str, content: bytes) -> dict[str, Any]:
    status, answer = await library.put(f"{name}?replace=true", content)
    assert status == 202, answer
    return answer


async def post(library: Library, path: str) -> None:
    async with library.http.post(f"{library.address}{path}") as answer:
        assert answer.status == 202, await answer.text()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of this process writes as few chunks at a time as the others."""
    monkeypatch.setattr(document, "BATCH", 4)


@asynccontextmanager
async def working(library: Library) -> AsyncIterator[None]:
    """A worker that nobody kills, in this process: it need not be started anew for each of those who die."""
    stop = asyncio.Event()
    product = library.product
    work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain="5s"))
    try:
        yield
        await library.until_over()
    finally:
        stop.set()
        await work


async def replace_and_kill(library: Library, name: str, content: bytes, place: str) -> None:
    """The worker dies at this place; another one goes on."""
    point, _, passage = place.partition("@")
    armed = f"{point}=kill@{passage or 1}"
    victim = await library.hire(module=SMALL, PENSTOCK_POOL__SIZE="4", PENSTOCK_TEST_FAILPOINTS=armed)
    await replace(library, name, content)
    assert await victim.end(60) == -signal.SIGKILL, (place, victim.logged)
    async with working(library):
        await library.until_over()


async def one_set_is_left(library: Library) -> None:
    """After what upkeep does with old versions, and with members that were deleted."""
    database = library.product.app.database
    await clear_old_versions(database, Index().clear)
    await remove_deleted(database, library.product.store)
    assert [row["place"] for row in await library.connection.fetch(LEFT)] == []
    assert await library.violations() == []


async def begin(library: Library, **files: bytes) -> dict[str, int]:
    """An API process, and these files ready."""
    await library.serve()
    numbers = await library.add({name.replace("_", "."): content for name, content in files.items()})
    async with working(library):
        await library.until_over()
    return numbers


async def test_one_version_is_seen_while_workers_are_killed(library: Library) -> None:
    """In every step of the new version's way, one after the other."""
    await begin(library, report_txt=edition(1))
    async with Reader(library) as reader:
        reader.watch("report.txt")
        await reader.until("report.txt", 1)
        for number, place in enumerate(PLACES, 2):
            await replace_and_kill(library, "report.txt", edition(number), place)
            await reader.until("report.txt", number)
        await reader.more()
    assert reader.editions == {"report.txt": list(range(1, len(PLACES) + 2))}
    assert reader.answers > 10 * len(PLACES), "it did not search all the time"
    await reader.counted_right()
    versions = await library.connection.fetch("select number, dead_at from penstock.versions order by number")
    assert [row["dead_at"] is None for row in versions] == [False] * len(PLACES) + [True]
    await one_set_is_left(library)
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await library.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"


async def test_a_scan_and_an_archive_are_replaced_while_workers_are_killed(library: Library) -> None:
    """Their own steps. What is unchanged inside stays, what is gone is not found any more."""
    old = archive(kept_txt=edition(1, 20), changed_txt=edition(1, 30), gone_txt=edition(1, 10))
    new = archive(kept_txt=edition(1, 20), changed_txt=edition(2, 30), new_txt=edition(2, 10))
    newest = archive(kept_txt=edition(1, 20), changed_txt=edition(3, 30), new_txt=edition(2, 10))
    await begin(library, scan_png=picture("Turbine. Edition 1"), packed_zip=old)
    async with Reader(library) as reader:
        reader.watch("scan.png", "packed.zip!/kept.txt", "packed.zip!/changed.txt")
        await reader.until("packed.zip!/gone.txt", 1)
        await replace_and_kill(library, "scan.png", picture("Turbine. Edition 2"), "step:ocr")
        await reader.until("scan.png", 2)
        await replace_and_kill(library, "packed.zip", new, "step:unpack")
        await reader.until("packed.zip!/changed.txt", 2)
        await replace_and_kill(library, "packed.zip", newest, "before-commit")
        await reader.until("packed.zip!/changed.txt", 3)
        await reader.more()
    assert reader.editions == {
        "scan.png": [1, 2],
        "packed.zip!/kept.txt": [1],
        "packed.zip!/changed.txt": [1, 2, 3],
        "packed.zip!/gone.txt": [1],
        "packed.zip!/new.txt": [2],
    }
    states = await library.states()
    assert states.pop("packed.zip!/gone.txt") == "deleted"
    assert set(states.values()) == {"ready"}
    await reader.counted_right()
    await one_set_is_left(library)


async def test_ten_clients_replace_one_document(library: Library) -> None:
    """Each gets a version; the newest wins, and nobody sees a mixture or an older one after a newer one."""
    await begin(library, report_txt=edition(1))
    other = await library.hire(module=SMALL, PENSTOCK_POOL__SIZE="4")
    async with working(library), Reader(library) as reader:
        reader.watch("report.txt")
        await reader.until("report.txt", 1)
        for rounds in range(2):
            numbers = range(2 + 10 * rounds, 12 + 10 * rounds)
            answers = await asyncio.gather(*(replace(library, "report.txt", edition(number)) for number in numbers))
            by_version = {answer["version"]: number for answer, number in zip(answers, numbers, strict=True)}
            assert sorted(by_version) == list(numbers)
            await reader.until("report.txt", by_version[max(by_version)])
        await library.until_over()
        await reader.more()
    await library.until(
        "select not exists (select from penstock.jobs as job join penstock.versions on job_id = job.id)"
    )
    other.kill()
    await reader.counted_right()
    await one_set_is_left(library)
    assert await library.connection.fetchval("select count(*) from penstock.versions where dead_at is null") == 1


async def test_a_broken_or_cancelled_version_leaves_the_old_one(library: Library) -> None:
    numbers = await begin(library, report_txt=edition(1))
    address = f"/api/documents/{numbers['report.txt']}"

    async def failed() -> dict[str, Any]:
        await library.until_over()
        shown = await library.get(address)
        assert shown["status"] == "failed", shown
        return shown | {"why": (await library.get(f"{address}/why"))["sentence"]}

    async with Reader(library) as reader:
        reader.watch("report.txt")
        await reader.until("report.txt", 1)
        async with working(library):
            assert "version 1 is found until it is ready" in (await replace(library, "report.txt", BROKEN))["message"]
            shown = await failed()
            assert (shown["version"], shown["live_version"]) == (2, 1)
            assert ": version 2 failed" in shown["why"]
            assert "; version 1 is still found. " in shown["why"]
            await reader.more()
            await post(library, f"{address}/retry")
            assert (await failed())["why"] == shown["why"]

            await replace(library, "report.txt", edition(3))
            await reader.until("report.txt", 3)

        await replace(library, "report.txt", edition(4))
        await post(library, f"{address}/cancel")
        shown = await failed()
        assert (shown["version"], shown["live_version"]) == (4, 3)
        assert "version 4 failed (Cancelled)" in shown["why"]
        assert "version 3 is still found" in shown["why"]
        await reader.more()
        await post(library, f"{address}/retry")
        async with working(library):
            await reader.until("report.txt", 4)
    assert reader.editions == {"report.txt": [1, 3, 4]}
    await one_set_is_left(library)


# To be appended to tests/scenarios/test_replacing.py. It fails today: see the report.
async def test_a_version_is_cancelled_after_its_first_batches_and_retried(library: Library) -> None:
    """What the ended job had staged is in nobody's way."""
    numbers = await begin(library, report_txt=edition(1))
    address = f"/api/documents/{numbers['report.txt']}"
    victim = await library.hire(module=SMALL, PENSTOCK_POOL__SIZE="4", PENSTOCK_TEST_FAILPOINTS="step:index=kill@3")
    await replace(library, "report.txt", edition(2))
    assert await victim.end(60) == -signal.SIGKILL
    await post(library, f"{address}/cancel")
    async with working(library):
        await library.until_over()
        assert (await library.get(address))["error"]["class"] == "Cancelled"
        await post(library, f"{address}/retry")
        await library.until_over()
    assert (await library.get(address))["live_version"] == 2
    failures = "select error ->> 'message' from penstock.job_history where failures > 0"
    assert [row[0] for row in await library.connection.fetch(failures)] == []
