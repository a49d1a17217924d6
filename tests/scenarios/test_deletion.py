"""A document is deleted while it is processed, and workers are killed in every step of its removal: nothing is left of it."""

import signal

import pytest

from penstock.documents import delete_document, list_receipts
from penstock.search import compact
from tests.remaining_rows import count_remaining_rows
from tests.sample_documents import archive, story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

FILES = {"long.txt": story(4_000), "packed.zip": archive(first_txt=story(300, 1))}
# Two at a time: a job whose worker is lost more often is a dead letter, and waits for the next minute.
PLACES = [
    ("count", "vectors@2"),
    ("postings", "compacted"),
    ("chunks", "pages"),
    ("last", "commit"),
    ("files", "rows"),
    ("verify", ""),
]
VERIFIED = "select count(*) = $1 and bool_and(verified_at is not null) from penstock.receipts"


def armed(place: str) -> str:
    point, _, passage = place.partition("@")
    return f"step:remove-{point}=kill@{passage or 1}"


async def numbers(product_processes: ProductProcesses) -> tuple[list[int], list[int], list[int]]:
    rows = await product_processes.connection.fetch("select id, document_id, job_id from penstock.versions")
    columns = [[row[name] for row in rows] for name in ("document_id", "id", "job_id")]
    return columns[0], columns[1], columns[2]


async def check_nothing_left(
    product_processes: ProductProcesses, documents: list[int], versions: list[int], jobs: list[int]
) -> None:
    assert await count_remaining_rows(product_processes.connection, documents, versions, jobs) == {}
    assert [path for path in (product_processes.home / "blobs").rglob("*") if path.is_file()] == []
    receipts = await list_receipts(product_processes.product.app)
    assert [each.document for each in receipts] == sorted(set(documents)), "one for each"
    for receipt in receipts:
        assert receipt.verified is not None
        assert set(receipt.verified["counted"].values()) == {0}
        assert "again" not in receipt.removed
    assert await product_processes.violations() == []
    assert set((await product_processes.states()).values()) == {"deleted"}


@pytest.mark.parametrize("places", PLACES, ids="+".join)
async def test_workers_are_killed_while_they_remove(
    product_processes: ProductProcesses, places: tuple[str, str]
) -> None:
    first, second = places
    victim = await product_processes.start_worker(PENSTOCK_TEST_FAILPOINTS=armed(first))
    added = await product_processes.add(FILES)
    await product_processes.until("select count(*) = 3 and bool_and(state = 'ready') from penstock.documents")
    collection = await product_processes.connection.fetchval("select id from penstock.collections")
    await compact(product_processes.product.app.database, collection, "static")
    documents, versions, jobs = await numbers(product_processes)
    before = await count_remaining_rows(product_processes.connection, documents, versions, jobs)
    assert before["folded_postings"] > 0
    for document in added.values():
        await delete_document(product_processes.product.app, document, now=True)
    assert await victim.end(60) == -signal.SIGKILL, victim.logged
    if second:
        victim = await product_processes.start_worker(PENSTOCK_TEST_FAILPOINTS=armed(second))
        assert await victim.end(60) == -signal.SIGKILL, victim.logged
    await product_processes.start_worker()
    await product_processes.until(VERIFIED, 3, within=60)
    await check_nothing_left(product_processes, documents, versions, jobs)


@pytest.mark.parametrize("place", ["step:embed@2", "step:index@2"])
async def test_it_is_deleted_while_it_is_processed_and_its_worker_is_killed(
    product_processes: ProductProcesses, place: str
) -> None:
    """What the worker has staged is found by who removes; the job that comes back has nothing to do."""
    point, _, passage = place.partition("@")
    victim = await product_processes.start_worker(PENSTOCK_TEST_FAILPOINTS=f"{point}=stop@{passage}")
    added = await product_processes.add({"long.txt": story(60_000)})
    await product_processes.until("select count(*) > 0 from penstock.chunks")
    documents, versions, jobs = await numbers(product_processes)
    await delete_document(product_processes.product.app, added["long.txt"], now=True)
    victim.kill()
    await victim.end()
    await product_processes.start_worker()
    await product_processes.until(VERIFIED, 1, within=60)
    await check_nothing_left(product_processes, documents, versions, jobs)
