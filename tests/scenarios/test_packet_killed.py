"""Workers are killed in every part of a packet's way: others go on, and there is one packet with one set of everything."""

import asyncio
import io
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from PIL import Image

from penstock import product
from penstock.blobs.collector import collect
from penstock.documents import (
    SourceMessage,
    Upload,
    cancel_document,
    create_collection,
    delete_document,
    retry_document,
)
from penstock.documents.ingest.upload import check_upload
from penstock.documents.packets import PacketFile
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.fetch.site import Site, open_site, reply
from tests.pipelines.packets import COVER, PART_A, PART_B, search
from tests.sample_documents import pdf, scan
from tests.scenarios.counting_worker import CountingSandboxPool, pages_read
from tests.scenarios.live_versions import only_live_versions_are_left, worker_in_this_process
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

COUNTED = "tests.scenarios.counting_worker"
SCANNED = 12  # pages: a range of eight and one of four
FILES = {
    "cover.txt": COVER.encode(),
    "a.pdf": pdf(PART_A, PART_A + "More of it."),
    "scan.tif": scan(SCANNED),
    "b.md": PART_B.encode(),
}
RANGE = 8
# What there is of a packet and its documents, by name: rows of all tables that hang on a live version.
SET = """
select replace(document.name, $1, '') as name, version.number, version.pages, version.chunks,
  (select count(*) from penstock.versions as any_version where any_version.document_id = document.id) as versions,
  (select count(*) from penstock.pages where pages.version_id = version.id) as page_rows,
  (select count(*) from penstock.chunks where chunks.version_id = version.id) as chunk_rows,
  (select count(*) from penstock.vectors_static as vector where vector.version_id = version.id)
    + (select count(*) from penstock.folded_vectors_static as vector where vector.version_id = version.id) as vectors,
  (select count(*) from penstock.postings where postings.version_id = version.id) as postings,
  (select sum(batch.chunks) from penstock.indexed_batches as batch where batch.version_id = version.id) as indexed,
  (select count(*) from penstock.packet_documents as sourced where sourced.version_id = version.id) as sourced,
  (select count(*) from penstock.packet_parts as part where part.version_id = version.id) as parts,
  (select count(*) from penstock.events where events.document_id = document.id and event = 'ready') as readied
from penstock.documents as document join penstock.versions as version on version.id = document.live_id
where starts_with(document.name, $1) order by document.name
"""
# Each victim of a chain dies there, in the same packet. A job may lose two workers, one of them as a quarantined job; waiting
# for its children acquits a parent.
TAKING, PREPARING = "step:take_message.orders", "step:prepare_packet"
CHAINS = [
    [
        *("step:parse", "step:fetch 3", "step:convert=3", "step:merge"),
        *("step:page 8", "before-count-down", "step:read=1", "step:parts"),
    ],
    [
        *("step:fetch 1", f"{TAKING} before-finish", "step:store", "step:read"),
        *("step:page 15", "step:embed=2", "step:index"),
    ],
    [
        *(f"{TAKING} before-commit", f"{TAKING} after-commit-before-ack", "mid-map"),
        *(f"{PREPARING} before-finish", f"{PREPARING} before-commit"),
    ],
    [f"{PREPARING} after-commit-before-ack"],
]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        opened.pages = {f"/{name}": reply(content) for name, content in FILES.items()}
        yield opened


@pytest.fixture
async def product_processes(
    database_url: DatabaseUrl, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProductProcesses]:
    """With a source of packets, whose documents are on a site, and with pages that are counted."""
    monkeypatch.setattr(product, "SandboxPool", CountingSandboxPool)
    orders = {"type": "webhook", "secret": "s", "makes": "packet", "collection": "papers"}
    chosen: dict[str, Any] = {
        "sources": {"orders": orders},
        "fetch": {"ports": str(site.port), "private": "127.0.0.1"},
        "extraction": {"children": 2},
        "packet": {"fetch_at_once": 1},
    }
    connection = await asyncpg.connect(database_url.reveal())
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}, **chosen) as opened:
        await create_collection(opened.app, "papers")
        made = ProductProcesses(opened, connection, database_url)
        made._environ |= {f"PENSTOCK_SOURCES__ORDERS__{key.upper()}": value for key, value in orders.items()}
        made._environ |= {"PENSTOCK_FETCH__PORTS": str(site.port), "PENSTOCK_FETCH__PRIVATE": "127.0.0.1"}
        made._environ |= {"PENSTOCK_POOL__SIZE": "4", "PENSTOCK_PACKET__FETCH_AT_ONCE": "1"}
        try:
            yield made
        finally:
            await made.close()
    await connection.close()


async def send(product_processes: ProductProcesses, site: Site, name: str) -> None:
    documents = [{"name": file, "url": site.url(f"/{file}")} for file in FILES]
    received = await product_processes.product.inbox.receive(
        "orders", [SourceMessage(name, {"name": name, "documents": documents})]
    )
    assert received.new == 1


async def accept(product_processes: ProductProcesses, name: str, files: dict[str, bytes], **options: Any) -> int:
    """A packet whose bytes are here."""

    async def pieces(content: bytes) -> AsyncIterator[bytes]:
        yield content

    collection = await product_processes.connection.fetchval(
        "select id from penstock.collections where name = 'papers'"
    )
    upload = Upload("papers", name, pieces(b""), replace=options.pop("replace", False))
    wish = check_upload(upload, "default", collection, served=True)
    store = product_processes.product.store
    sourced = [PacketFile(each, await store.write(pieces(content), most=2**30)) for each, content in files.items()]
    return (await product_processes.product.packets.accept(wish, sourced, **options)).id


async def die(product_processes: ProductProcesses, place: str) -> None:
    """A worker that is killed there; `=N`: when it comes there for the Nth time."""
    point, _, passage = place.partition("=")
    victim = await product_processes.start_worker(
        module=COUNTED, PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage or 1}"
    )
    assert await victim.end(60) == -signal.SIGKILL, (place, victim.logged)


async def settled(product_processes: ProductProcesses) -> None:
    await product_processes.until(
        "select not exists (select from penstock.documents where state = 'queued') "
        "and not exists (select from penstock.inbox where state = 'waiting')",
        within=60,
    )


async def one_set(product_processes: ProductProcesses, name: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await product_processes.connection.fetch(SET, name)]


async def nothing_is_left_over(product_processes: ProductProcesses, contents: int) -> None:
    """Bytes that nobody names are removed when the collector's grace is over; so many contents stay."""
    database, store = product_processes.product.app.database, product_processes.product.store
    await collect(database, store, timedelta(microseconds=1))
    files = {key async for key, _ in store.keys()}  # noqa: SIM118  a store is no dictionary
    kept = {
        row["key"]
        for row in await product_processes.connection.fetch("select key from penstock.blobs where state = 'kept'")
    }
    assert files == kept
    assert len(kept) == contents
    assert await product_processes.violations() == []


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: f"{chain[0]} to {chain[-1]}")
async def test_it_is_ready_though_each_of_its_workers_is_killed(
    product_processes: ProductProcesses, site: Site, chain: list[str]
) -> None:
    await send(product_processes, site, "calm")
    async with worker_in_this_process(product_processes):
        await settled(product_processes)
    await send(product_processes, site, "stormy")
    for place in chain:
        await die(product_processes, place)
    async with worker_in_this_process(product_processes):
        await settled(product_processes)
    states = await product_processes.states()
    assert len(states) == 2 * (1 + len(FILES))
    assert set(states.values()) == {"ready"}
    assert await one_set(product_processes, "stormy") == await one_set(product_processes, "calm")
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await product_processes.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"
    read = pages_read(product_processes.home, "stormy")
    assert set(read) == set(range(4, 4 + SCANNED))
    killed = sum(place.startswith(("step:page", "before-count-down")) for place in chain)
    # A worker with two children may have both ranges under way when it is killed.
    assert len(read) <= SCANNED + SCANNED * killed, "no more than the ranges that were under way are read again"
    assert len(site.requests) == 2 * len(FILES), "what was fetched once is not fetched again"
    await nothing_is_left_over(product_processes, len(FILES) + 2)


# -- a long scan ----------------------------------------------------------------------------------------------------------

LONG = 400
TORN = 380
AHEAD = 2  # ranges that a worker reads at the same time: one for each of its children


def long_scan(pages: int = LONG) -> bytes:
    """So many pages of a few bytes each."""
    first, *others = [Image.new("1", (120, 80), 1) for _ in range(pages)]
    out = io.BytesIO()
    first.save(out, "TIFF", save_all=True, append_images=others, compression="group4")
    return out.getvalue()


async def test_a_worker_that_dies_at_page_380_of_400_costs_the_ranges_that_it_was_reading(
    product_processes: ProductProcesses,
) -> None:
    number = await accept(product_processes, "long", {"scan.tif": long_scan()})
    await die(product_processes, f"step:page {TORN}")
    before = pages_read(product_processes.home, "long")
    begun = Counter((page - 1) // RANGE for page in before)
    assert sum(count < RANGE for count in begun.values()) <= AHEAD, "one range for each of its children"
    done = "select args from penstock.job_history where fanout is not null and outcome = 'done'"
    kept = {page for row in await product_processes.connection.fetch(done) for page in json.loads(row["args"])["pages"]}
    assert len(kept) > LONG / 2
    async with worker_in_this_process(product_processes):
        await settled(product_processes)
    again = pages_read(product_processes.home, "long")[len(before) :]
    assert sorted(again) == sorted(set(range(1, LONG + 1)) - kept), "what was kept is not read again"
    pages = "select pages from penstock.versions where document_id = $1"
    assert await product_processes.connection.fetchval(pages, number) == LONG
    assert await product_processes.violations() == []


async def test_a_packet_that_fails_at_page_380_goes_on_there_when_it_is_redriven(
    product_processes: ProductProcesses,
) -> None:
    torn = product_processes.home / "torn"
    torn.write_text(str(TORN))
    number = await accept(product_processes, "long", {"scan.tif": long_scan()})
    state = "select state = $2 from penstock.documents where id = $1"
    later = "update penstock.test_clock set shift = shift + interval '5 minutes' where exists "
    later += "(select from penstock.jobs where state = 'later')"
    async with worker_in_this_process(product_processes):
        async with asyncio.timeout(60):
            while not await product_processes.connection.fetchval(state, number, "failed"):
                await product_processes.connection.execute(later)
                await asyncio.sleep(0.1)
        error = await product_processes.connection.fetchval(
            "select error ->> 'message' from penstock.documents where id = $1", number
        )
        assert "1 of its 50 ranges of pages could not be read" in error
        assert f"Page {TORN} cannot be read just now" in error
        read = pages_read(product_processes.home, "long")
        assert read.count(TORN) == 4, "as often as it may fail"
        assert {page for page in read if read.count(page) > 1} <= set(range(377, 385))
        torn.unlink()
        await retry_document(product_processes.product.app, number)
        await product_processes.until(state, number, "ready")
    assert sorted(pages_read(product_processes.home, "long")[len(read) :]) == list(range(377, 385)), (
        "only the range that was missing"
    )
    assert await product_processes.violations() == []
    [hit] = await search(product_processes.product, '"page 380"')
    assert (hit.page, hit.packet_page) == (TORN, TORN)


# -- while it is under way ------------------------------------------------------------------------------------------------


async def test_the_old_version_is_found_until_the_new_one_is_ready(product_processes: ProductProcesses) -> None:
    old = {"cover.txt": COVER.encode(), "a.txt": b"PART A\n\nThe weir is of oak.", "gone.txt": b"The ferry is painted."}
    new = {"cover.txt": COVER.encode(), "a.txt": b"PART A\n\nThe weir is of steel.", "scan.tif": scan(5)}

    async def found() -> list[str]:
        return sorted(hit.text.splitlines()[-1] for hit in await search(product_processes.product, "weir"))

    number = await accept(product_processes, "mill", old)
    async with worker_in_this_process(product_processes):
        await settled(product_processes)
    assert await accept(product_processes, "mill", new, replace=True) == number
    for place in ("step:merge", "step:parts", f"{PREPARING} before-commit"):
        await die(product_processes, place)
        assert await found() == ["The weir is of oak."]
        assert len(await search(product_processes.product, "ferry")) == 1
    async with worker_in_this_process(product_processes):
        await settled(product_processes)
    assert await found() == ["The weir is of steel."]
    assert await search(product_processes.product, "ferry") == []
    states = await product_processes.states()
    assert states.pop("mill!/gone.txt") == "deleted"
    assert states == dict.fromkeys(["mill", "mill!/cover.txt", "mill!/a.txt", "mill!/scan.tif"], "ready")
    await only_live_versions_are_left(product_processes)


async def test_it_is_deleted_while_it_is_prepared(product_processes: ProductProcesses) -> None:
    """The whole packet, or one document of another: what is left is ready, and nothing of the rest is ever found."""
    whole = await accept(product_processes, "whole", FILES)
    part = await accept(product_processes, "part", {"a.txt": b"The weir is of oak.", "b.txt": b"The weir is of steel."})
    victim = await product_processes.start_worker(module=COUNTED, PENSTOCK_TEST_FAILPOINTS="step:parts=kill")
    assert await victim.end(60) == -signal.SIGKILL, victim.logged
    await delete_document(product_processes.product.app, whole, now=True)
    member = "select id from penstock.documents where name = 'part!/b.txt'"
    await delete_document(product_processes.product.app, await product_processes.connection.fetchval(member), now=True)
    async with worker_in_this_process(product_processes):
        await settled(product_processes)
        await product_processes.until("select not exists (select from penstock.versions where document_id = $1)", whole)
    states = await product_processes.states()
    assert {name: state for name, state in states.items() if state != "deleted"} == {
        "part": "ready",
        "part!/a.txt": "ready",
    }
    [hit] = await search(product_processes.product, "weir")
    assert (hit.name, hit.packet, hit.packet_page) == ("part!/a.txt", part, 1)
    assert await product_processes.violations() == []


async def test_a_cancelled_packet_is_tried_again(product_processes: ProductProcesses) -> None:
    """It begins behind what was merged."""
    number = await accept(product_processes, "long", {"scan.tif": long_scan(24), "b.md": PART_B.encode()})
    await die(product_processes, "step:page 20")
    merged = "select blob_id from penstock.versions where document_id = $1"
    before = await product_processes.connection.fetchval(merged, number)
    await cancel_document(product_processes.product.app, number)
    async with worker_in_this_process(product_processes):
        await product_processes.until("select state = 'failed' from penstock.documents where id = $1", number)
        await retry_document(product_processes.product.app, number)
        await settled(product_processes)
    assert await product_processes.connection.fetchval(merged, number) == before
    assert set((await product_processes.states()).values()) == {"ready"}
    assert await product_processes.violations() == []


async def test_require_all_holds_though_workers_are_killed(product_processes: ProductProcesses) -> None:
    number = await accept(
        product_processes, "strict", {"a.txt": b"The weir.", "torn.pdf": b"%PDF-1.7 and no more"}, require_all=True
    )
    await die(product_processes, "step:store")
    await die(product_processes, "step:store")
    async with worker_in_this_process(product_processes):
        await settled(product_processes)
    assert set((await product_processes.states()).values()) == {"failed"}
    error = await product_processes.connection.fetchval(
        "select error ->> 'message' from penstock.documents where id = $1", number
    )
    assert "must have all of its documents" in error
    assert "torn.pdf" in error
    assert await search(product_processes.product, "weir") == []
