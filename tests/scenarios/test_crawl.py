"""Workers are killed in every step of a crawl and of its pages: others go on, and every page is one document."""

import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.documents import create_collection, find_collection
from penstock.knowledge.crawl.crawl import begin_crawl
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.knowledge.site import Website, moved, open_website, says
from tests.scenarios.live_versions import worker_in_this_process
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

COUNTED = "tests.scenarios.counting_worker"  # for its failpoints at the end of one kind of jobs
LEAVES = 12
KEPT = {"/", "/hall", "/listed", "/moved", *(f"/leaf/{number}" for number in range(LEAVES))}
# Each victim of a chain dies there, in the same crawl; `=N`: when it comes there for the Nth time. A job may lose two workers,
# one of them as a quarantined job; waiting for its pages acquits a crawl.
CRAWL, SCRAPE = "step:crawl", "step:scrape"
CHAINS = [
    ["step:robots", "step:round", "step:turn", "step:fetch", "step:sitemaps", "step:close"],
    ["mid-map", "step:links", "step:close", "step:keep=3", "before-count-down", "step:end"],
    [
        *(f"{SCRAPE} before-finish", f"{SCRAPE} before-commit", f"{SCRAPE} after-commit-before-ack", "step:leave"),
        *(f"{SCRAPE} after-commit-before-ack=3", f"{CRAWL} before-commit", f"{CRAWL} after-commit-before-ack"),
    ],
]


@pytest.fixture
async def site() -> AsyncIterator[Website]:
    """A hall with leaves, a page that only the sitemap knows, one that has moved, and one that is gone."""
    async with open_website() as opened:
        opened.put("/", "The first page.", "/hall", "/old", "/gone")
        opened.put("/hall", "The hall of turbines.", *(f"/leaf/{number}" for number in range(LEAVES)))
        for number in range(LEAVES):
            opened.put(f"/leaf/{number}", f"Turbine {number} is in good order.", "/", "/hall", "/leaf/0")
        opened.put("/listed", "The page that only the sitemap knows.")
        opened.pages["/old"] = moved("/moved")
        opened.put("/moved", "The page that has moved.")
        listed = f"<urlset><url><loc>{opened.url('/listed')}</loc></url></urlset>".encode()
        opened.pages["/sitemap.xml"] = says(listed, kind="application/xml")
        yield opened


@pytest.fixture
async def product_processes(
    database_url: DatabaseUrl, tmp_path: Path, site: Website
) -> AsyncIterator[ProductProcesses]:
    chosen: dict[str, Any] = {
        "fetch": {"ports": str(site.port), "private": "127.0.0.1"},
        "crawl": {"delay": "1ms"},
        "extraction": {"children": 2},
    }
    connection = await asyncpg.connect(database_url.reveal())
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}, **chosen) as opened:
        await create_collection(opened.app, "papers")
        made = ProductProcesses(opened, connection, database_url)
        made._environ |= {"PENSTOCK_FETCH__PORTS": str(site.port), "PENSTOCK_FETCH__PRIVATE": "127.0.0.1"}
        made._environ |= {"PENSTOCK_CRAWL__DELAY": "1ms", "PENSTOCK_POOL__SIZE": "4"}
        try:
            yield made
        finally:
            await made.close()
    await connection.close()


async def begin(product_processes: ProductProcesses, site: Website) -> int:
    into = await find_collection(product_processes.product.app, "papers")
    return (await begin_crawl(product_processes.product.app, site.url(), into)).id


async def kept(product_processes: ProductProcesses, site: Website) -> set[str]:
    rows = await product_processes.connection.fetch("select url from penstock.crawl_pages where state = 'kept'")
    return {row["url"].removeprefix(site.url("")) for row in rows}


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: f"{chain[0]} to {chain[-1]}")
async def test_every_page_is_one_document_though_each_worker_is_killed(
    product_processes: ProductProcesses, site: Website, chain: list[str]
) -> None:
    crawl = await begin(product_processes, site)
    over: dict[str, int] = {}  # how often a page had been asked for when it was kept
    for place in chain:
        point, _, passage = place.partition("=")
        victim = await product_processes.start_worker(
            module=COUNTED, PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage or 1}"
        )
        assert await victim.end(60) == -signal.SIGKILL, (place, victim.logged)
        asked = Counter(site.asked)
        over |= {path: asked[path] for path in await kept(product_processes, site) - over.keys()}
    async with worker_in_this_process(product_processes):
        await product_processes.until("select state <> 'running' from penstock.crawls where id = $1", crawl, within=60)
    row = await product_processes.connection.fetchrow("select state, error from penstock.crawls where id = $1", crawl)
    assert dict(row or {}) == {"state": "done", "error": None}
    pages = await product_processes.connection.fetch(
        "select url, state, document_id from penstock.crawl_pages where crawl = $1", crawl
    )
    found = {each["url"].removeprefix(site.url("")): each for each in pages}
    assert {path for path, page in found.items() if page["state"] == "kept"} == KEPT
    assert {path: page["state"] for path, page in found.items() if path not in KEPT} == {
        "/old": "skipped",
        "/gone": "failed",
    }
    documents = {page["document_id"] for path, page in found.items() if path in KEPT}
    assert len(documents) == len(KEPT)
    rows = await product_processes.connection.fetch("select id, state from penstock.documents")
    assert {each["id"]: each["state"] for each in rows} == dict.fromkeys(documents, "ready")
    assert await product_processes.connection.fetchval("select count(*) from penstock.versions") == len(KEPT)
    asked = Counter(site.asked)
    assert {path: asked[path] for path in over} == over, "what was kept is not asked for again"
    assert all(asked[path] <= 1 + len(chain) for path in KEPT)
    assert await product_processes.connection.fetchval("select count(*) from penstock.jobs where state = 'dead'") == 0
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await product_processes.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"
    assert await product_processes.violations() == []
