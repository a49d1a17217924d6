"""Workers are killed in every part of a packet's way: others go on, and there is one packet with one set of everything."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.blobs.collector import collect
from penstock.documents import (
    Message,
    Upload,
    cancel_document,
    create_collection,
    delete_document,
    retry_document,
)
from penstock.documents.packet import Sourced
from penstock.documents.wish import make_wish
from penstock.pipelines import Product, product
from penstock.settings import DatabaseUrl
from tests.fetch.site import Site, open_site, reply
from tests.pipelines.test_document import scan
from tests.pipelines.test_packet import COVER, PART_A, PART_B, pdf, search
from tests.scenarios.counted import CountingBoxes, pages_read
from tests.scenarios.library import Library
from tests.scenarios.test_replacing import one_set_is_left, working

COUNTED = "tests.scenarios.counted"
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
# Each victim of a chain dies there, in the same packet. A job may lose two workers, one of them as a suspect; waiting for its
# children acquits a parent.
CHAINS = [
    [
        *("step:parse", "step:fetch 3", "step:convert=3", "step:merge"),
        *("step:page 8", "before-count-down", "step:read=1", "step:parts"),
    ],
    ["step:fetch 1", "before-finish", "step:store", "step:read", "step:page 15", "step:embed=2", "step:index"],
    ["before-commit", "after-commit-before-ack", "mid-map", "before-finish", "before-commit"],
    ["after-commit-before-ack=2"],
]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        opened.pages = {f"/{name}": reply(content) for name, content in FILES.items()}
        yield opened


@pytest.fixture
async def library(
    database_url: DatabaseUrl, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Library]:
    """With a source of packets, whose documents are on a site, and with pages that are counted."""
    monkeypatch.setattr(product, "Boxes", CountingBoxes)
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
        made = Library(opened, connection, database_url)
        made._environ |= {f"PENSTOCK_SOURCES__ORDERS__{key.upper()}": value for key, value in orders.items()}
        made._environ |= {"PENSTOCK_FETCH__PORTS": str(site.port), "PENSTOCK_FETCH__PRIVATE": "127.0.0.1"}
        made._environ |= {"PENSTOCK_POOL__SIZE": "4", "PENSTOCK_PACKET__FETCH_AT_ONCE": "1"}
        try:
            yield made
        finally:
            await made.close()
    await connection.close()


async def send(library: Library, site: Site, name: str) -> None:
    documents = [{"name": file, "url": site.url(f"/{file}")} for file in FILES]
    received = await library.product.inbox.receive("orders", [Message(name, {"name": name, "documents": documents})])
    assert received.new == 1


async def accept(library: Library, name: str, files: dict[str, bytes], **options: Any) -> int:
    """A packet whose bytes are here."""

    async def pieces(content: bytes) -> AsyncIterator[bytes]:
        yield content

    collection = await library.connection.fetchval("select id from penstock.collections where name = 'papers'")
    upload = Upload("papers", name, pieces(b""), replace=options.pop("replace", False))
    wish = make_wish(upload, "default", collection, served=True)
    store = library.product.store
    sourced = [Sourced(each, await store.write(pieces(content), most=2**30)) for each, content in files.items()]
    return (await library.product.packets.accept(wish, sourced, **options)).id


async def die(library: Library, place: str) -> None:
    """A worker that is killed there; `=N`: when it comes there for the Nth time."""
    point, _, passage = place.partition("=")
    victim = await library.hire(module=COUNTED, PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage or 1}")
    assert await victim.end(60) == -signal.SIGKILL, (place, victim.logged)


async def settled(library: Library) -> None:
    await library.until(
        "select not exists (select from penstock.documents where state = 'queued') "
        "and not exists (select from penstock.inbox where state = 'waiting')",
        within=60,
    )


async def one_set(library: Library, name: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await library.connection.fetch(SET, name)]


async def nothing_is_left_over(library: Library, contents: int) -> None:
    """Bytes that nobody names are removed when the collector's grace is over; so many contents stay."""
    database, store = library.product.app.database, library.product.store
    await collect(database, store, timedelta(microseconds=1))
    files = {key async for key, _ in store.keys()}
    kept = {row["key"] for row in await library.connection.fetch("select key from penstock.blobs where state = 'kept'")}
    assert files == kept
    assert len(kept) == contents
    assert await library.violations() == []


def twice(pages: list[int]) -> set[int]:
    return {page for page in pages if pages.count(page) > 1}


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: f"{chain[0]} to {chain[-1]}")
async def test_it_is_ready_though_each_of_its_workers_is_killed(
    library: Library, site: Site, chain: list[str]
) -> None:
    await send(library, site, "calm")
    async with working(library):
        await settled(library)
    await send(library, site, "stormy")
    for place in chain:
        await die(library, place)
    async with working(library):
        await settled(library)
    states = await library.states()
    assert len(states) == 2 * (1 + len(FILES))
    assert set(states.values()) == {"ready"}
    assert await one_set(library, "stormy") == await one_set(library, "calm")
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await library.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"
    read = pages_read(library.home, "stormy")
    assert set(read) == set(range(4, 4 + SCANNED))
    killed = sum(place.startswith(("step:page", "before-count-down")) for place in chain)
    assert len(read) <= SCANNED + RANGE * killed, "no more than the range that was under way is read again"
    assert len(site.requests) == 2 * len(FILES), "what was fetched once is not fetched again"
    await nothing_is_left_over(library, len(FILES) + 2)
