"""A site becomes documents: each page once, within its bounds, at its pace, and as it asks for."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from penstock.documents import delete_collection, delete_document, list_documents, remove_deleted
from penstock.errors import BadValue, WrongState
from penstock.knowledge.crawl.crawl import (
    explain_crawl,
    list_crawl_pages,
    list_crawls,
    show_crawl,
    stop_crawl,
    sweep_crawls,
)
from penstock.settings import DatabaseUrl
from tests.knowledge.site import (
    Website,
    begin,
    crawled,
    moved,
    names_of,
    open_website,
    over,
    pages_of,
    run,
    says,
    until,
    visiting,
)

PDF_LIKE = b"Plain words about the turbine."


@pytest.fixture
async def site() -> AsyncIterator[Website]:
    async with open_website() as opened:
        yield opened


def furnish(site: Website) -> None:
    """A site with one of everything."""
    pages = {
        "/": [
            "a",
            "/b/",
            "a?utm_source=x",
            "a#part",
            "/old",
            "/print",
            "/hidden",
            "/private/x",
            "/broken",
            "/p.png",
            "/notes.txt",
            "/index.html",
        ],
        "/a": ["/b/", "/deep/1"],
        "/b/": ["/", "c"],
        "/b/c": [],
        "/deep/1": ["/deep/2"],
        "/deep/2": ["/deep/3"],
        "/deep/3": [],
        "/listed": [],
    }
    for path, links in pages.items():
        site.put(path, f"The page {path} tells of the turbine.", *links)
    site.pages["/robots.txt"] = f"User-agent: *\nDisallow: /private\nSitemap: {site.url('/map.xml')}\n".encode()
    site.pages["/map.xml"] = says(
        f"<urlset><url><loc>{site.url('/listed')}</loc></url><url><loc>{site.url('/private/y')}</loc></url></urlset>".encode(),
        kind="application/xml",
    )
    site.pages["/old"] = moved("/moved-to?utm_source=q")
    site.put("/moved-to?utm_source=q", "The page that has moved.")
    site.pages["/print"] = site.pages["/a"].replace(b"</head>", b'<link rel=canonical href="/a"></head>')  # type: ignore[union-attr]
    site.put("/hidden", "Not for search.", "/behind", head='<meta name="robots" content="noindex">')
    site.put("/behind", "The page behind the hidden one.")
    site.pages["/index.html"] = site.pages["/"]
    site.pages["/p.png"] = says(b"\x89PNG", kind="image/png")
    site.pages["/notes.txt"] = PDF_LIKE


async def test_a_site_becomes_documents(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    furnish(site)
    async with visiting(database_url, tmp_path, site) as product:
        found = await crawled(product, site.url("/#top"), depth=3)
        assert (found.state, found.error, found.waiting) == ("done", None, 0)
        pages = await pages_of(product, found.id, site)
        states = {path: page.state for path, page in pages.items()}
        taken = {"/", "/a", "/b/", "/b/c", "/deep/1", "/deep/2", "/listed", "/moved-to", "/behind", "/notes.txt"}
        assert {path for path, state in states.items() if state == "kept"} == taken
        assert {path: page.reason for path, page in pages.items() if page.state in {"skipped", "failed"}} == {
            "/old": f"It redirects to {site.url('/moved-to')}.",
            "/print": f"Its canonical address is {site.url('/a')}, which is taken instead.",
            "/index.html": f"It has the same content as {site.url('/')}.",
            "/hidden": "It asks not to be indexed (noindex).",
            "/private/x": "robots.txt does not allow it.",
            "/private/y": "robots.txt does not allow it.",
            "/p.png": "It is of the type image/png, which is not taken (crawl.media_types).",
            "/broken": f"{site.url('/broken')} answered 404 (Not Found). Correct the URL, or ask the operator of that server.",
        }
        assert states["/broken"] == "failed"
        assert "/deep/3" not in states, "that is a fourth link"
        assert (found.kept, found.skipped, found.failed) == (10, 7, 1)
        assert max(map(site.count, site.asked)) == 1, "each is asked for once"
        assert not {path for path in site.asked if "private" in path}
        assert site.agents == {"Penstock"}
        documents = {each.name: each for each in await list_documents(product.app)}
        assert {each.status for each in documents.values()} == {"ready"}
        assert set(await names_of(product, site)) == {
            *("index.html", "a", "b/index.html", "b/c", "deep/1", "deep/2", "listed", "moved-to", "behind", "notes.txt")
        }
        page = documents[f"127.0.0.1_{site.port}/a"]
        assert page.metadata == {"url": site.url("/a"), "crawl": found.id, "title": "Page /a"}
        assert page.uploaded_by == f"crawl {found.id}"
        assert pages["/a"].document == page.id
        told = await explain_crawl(product.app, found.id)
        assert told.sentence == f"Crawl {found.id} ({site.url('/')}) is done: 10 pages kept, 7 skipped, 1 failed."
        assert "/broken" in told.evidence["failed"][0]


async def test_again_leaves_what_is_unchanged(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    site.put("/", "The first page.", "/a", "/b")
    site.put("/a", "The gate is of oak.")
    site.put("/b", "The weir is of oak.")
    async with visiting(database_url, tmp_path, site) as product:
        first = await crawled(product, site.url())
        before = {each.name: each for each in await list_documents(product.app)}
        site.put("/b", "The weir is of steel.")
        again = await crawled(product, site.url())
        assert again.id != first.id
        after = {each.name: each for each in await list_documents(product.app)}
        assert after.keys() == before.keys()
        changed = {name for name in after if after[name].version != before[name].version}
        assert changed == {f"127.0.0.1_{site.port}/b"}
        assert [page.document for page in await list_crawl_pages(product.app, again.id)] == [
            page.document for page in await list_crawl_pages(product.app, first.id)
        ]
        assert len(await run(product, "select from penstock.blobs where state = 'kept'")) == 4


async def test_an_endless_site_is_bounded(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    """A calendar: each page leads to the next day, and to seven others."""

    async def calendar(request: web.Request) -> web.StreamResponse:
        day = int(request.path.rpartition("/")[2] or 0)
        links = "".join(f'<a href="/day/{day * 10 + number}">next</a>' for number in range(1, 9))
        return web.Response(text=f"<!doctype html><p>Day {day}.</p>{links}", content_type="text/html")

    site.put("/", "", "/day/1", "/day/2")
    for number in range(1, 100_000):
        site.pages[f"/day/{number}"] = calendar
    async with visiting(database_url, tmp_path, site) as product:
        found = await crawled(product, site.url(), depth=50, max_pages=25)
        assert (found.state, found.kept, found.known) == ("done", 25, 25)
        assert found.left_out > 0
        assert "were beyond 25 pages" in (await explain_crawl(product.app, found.id)).sentence
        shallow = await crawled(product, site.url(), depth=1, max_pages=1000)
        assert (shallow.kept, shallow.left_out) == (3, 0)
        alone = await crawled(product, site.url(), depth=0)
        assert (alone.kept, alone.known) == (1, 1)


async def test_a_host_is_asked_at_its_pace(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    """By all of the fleet: here two workers, each with many slots. A Crawl-delay counts up to a limit."""
    site.put("/", "", *(f"/{number}" for number in range(5)))
    for number in range(5):
        site.put(f"/{number}")
    site.pages["/robots.txt"] = b"User-agent: *\nCrawl-delay: 3600\n"
    paces: dict[str, Any] = {"delay": "1ms", "longest_delay": "150ms", "sitemaps": False}
    async with visiting(database_url, tmp_path, site, **paces) as product:
        stop = asyncio.Event()
        beside = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain="1s"))
        found = await crawled(product, site.url())
        stop.set()
        await beside
        assert found.kept == 6
        times = sorted(site.times)[1:]  # robots.txt itself is asked for before its delay is known
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert sum(gaps) > 0.1 * len(gaps), gaps  # one that arrives late makes the next gap short


async def test_a_long_wait_for_a_turn_is_spent_without_a_slot(
    database_url: DatabaseUrl, tmp_path: Path, site: Website
) -> None:
    site.put("/", "The only page.")
    async with visiting(database_url, tmp_path, site, work=True) as product:
        await run(
            product,
            "insert into penstock.hosts (origin, robots, robots_at, next_at) "
            "values ($1, '', penstock.now(), penstock.now() + interval '10 minutes')",
            site.url(""),
        )
        number = await begin(product, site.url(), depth=0)
        await until(product, "select from penstock.jobs where state = 'later' and failures = 0")
        assert site.asked == []
        told = await explain_crawl(product.app, number)
        assert f"{site.url('')} may be requested again in 10 min" in told.sentence
        await run(product, "update penstock.test_clock set shift = shift + interval '11 minutes'")
        assert (await over(product, number)).kept == 1
        assert await run(product, "select from penstock.job_history where failures > 0") == []


async def test_a_server_that_asks_for_patience_gets_it(
    database_url: DatabaseUrl, tmp_path: Path, site: Website
) -> None:
    site.pages["/"] = says(status=429, Retry_After="300")
    async with visiting(database_url, tmp_path, site, sitemaps=False) as product:
        number = await begin(product, site.url())
        await until(product, "select from penstock.hosts where next_at > penstock.now() + interval '4 minutes'")
        site.put("/", "The first page.")
        await until(product, "select from penstock.crawls where state = 'done'", pass_time=True)
        assert (await over(product, number)).kept == 1
        assert site.count("/") == 2


async def test_robots_txt_in_trouble_allows_nothing(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    site.pages["/robots.txt"] = says(status=503)
    site.put("/", "The first page.")
    async with visiting(database_url, tmp_path, site) as product:
        number = await begin(product, site.url())
        await until(product, "select from penstock.crawls where state = 'failed'", pass_time=True)
        failed = await show_crawl(product.app, number)
        assert "as long as robots.txt cannot be read, no page of" in failed.reason
        assert set(site.asked) == {"/robots.txt"}
        assert "penstock dead redrive" in (await explain_crawl(product.app, number)).sentence
        site.pages["/robots.txt"] = says(status=404)
        await product.app.redrive(failed.job_id, force=True)
        assert (await over(product, number)).state == "done"


async def test_without_its_first_page_a_crawl_fails(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    """And takes it when it is there, with another chance."""
    async with visiting(database_url, tmp_path, site) as product:
        failed = await crawled(product, site.url("/start"))
        assert failed.state == "failed"
        assert failed.reason.startswith(f"The first page cannot be taken: {site.url('/start')} answered 404")
        assert site.count("/sitemap.xml") == 0
        site.put("/start", "It is there now.", "/a")
        site.put("/a")
        await product.app.redrive(failed.job_id, force=True)
        found = await over(product, failed.id)
        assert (found.state, found.kept, found.error) == ("done", 2, None)
        elsewhere = site.url("/elsewhere")
        site.pages["/elsewhere"] = moved("https://example.org/")
        lost = await crawled(product, elsewhere)
        assert lost.reason.startswith(f"Nothing of {elsewhere} was taken: It redirects to another site, example.org")


async def test_a_page_in_trouble_is_tried_again(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    tries = iter([500, 502])

    async def shaky(_: web.Request) -> web.StreamResponse:
        status = next(tries, 200)
        return web.Response(status=status, text="<!doctype html>It stands.", content_type="text/html")

    site.put("/", "", "/shaky", "/down")
    site.pages["/shaky"] = shaky
    site.pages["/down"] = says(status=500)
    async with visiting(database_url, tmp_path, site) as product:
        number = await begin(product, site.url())
        await until(product, "select from penstock.crawls where state = 'done'", pass_time=True)
        pages = await pages_of(product, number, site)
        assert pages["/shaky"].state == "kept"
        assert (pages["/down"].state, site.count("/down")) == ("failed", 3)
        assert pages["/down"].reason.endswith("answered 500 (Internal Server Error). It was tried 3 times.")
        assert await run(product, "select from penstock.jobs where state = 'dead'") == [], (
            "no dead letter for a broken link"
        )


async def test_it_is_stopped(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        asked.set()
        await never.wait()
        return web.Response()

    site.put("/", "The first page.", "/slow")
    site.pages["/slow"] = slow
    async with visiting(database_url, tmp_path, site) as product:
        number = await begin(product, site.url())
        assert await begin(product, site.url()) == number, "the same one again is that one"
        await asyncio.wait_for(asked.wait(), 20)
        with pytest.raises(WrongState):
            await stop_crawl(product.app, (await crawled(product, site.url("/nothing"))).id)
        await stop_crawl(product.app, number)
        stopped = await over(product, number)
        assert (stopped.state, stopped.kept, stopped.waiting) == ("stopped", 1, 1)
        assert stopped.reason == "stopped by hand"
        await until(
            product, "select where not exists (select from penstock.jobs where state <> 'dead' and fanout is not null)"
        )
        assert [each.state for each in await list_crawls(product.app)] == ["stopped", "failed"]
        with pytest.raises(WrongState, match="is stopped: only a running crawl can be stopped"):
            await stop_crawl(product.app, number)
        never.set()


async def test_its_collection_is_deleted_meanwhile(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    asked, deleted = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        asked.set()
        await deleted.wait()
        return web.Response(text="<!doctype html>Late.", content_type="text/html")

    site.put("/", "The first page.", "/slow", "/other")
    site.pages["/slow"] = slow
    async with visiting(database_url, tmp_path, site) as product:
        number = await begin(product, site.url())
        await asyncio.wait_for(asked.wait(), 20)
        await delete_collection(product.app, "web")
        deleted.set()
        failed = await over(product, number)
        assert (failed.state, failed.reason) == (
            "failed",
            "Collection web was deleted: start a crawl into another one.",
        )
        assert {each.status for each in await list_documents(product.app)} <= {"deleted"}
        pages = await pages_of(product, number, site)
        assert "deleted" in pages["/slow"].reason


async def test_what_is_left_of_documents_and_crawls(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    """A deleted document leaves its address; an old crawl leaves nothing, and its documents stay."""
    site.put("/", "The first page.", "/a")
    site.put("/a")
    async with visiting(database_url, tmp_path, site) as product:
        found = await crawled(product, site.url())
        pages = await pages_of(product, found.id, site)
        document = pages["/a"].document
        assert document is not None
        await delete_document(product.app, document, now=True)
        await until(product, "select from penstock.receipts where document_id = $1", document)
        await remove_deleted(product.app.database, product.store)
        assert (await show_crawl(product.app, found.id)).kept == 2
        assert await sweep_crawls(product.app.database) == 0
        await run(product, "update penstock.test_clock set shift = shift + interval '31 days'")
        assert await sweep_crawls(product.app.database) == 1
        assert await run(product, "select from penstock.crawl_pages") == []
        assert await run(product, "select from penstock.hosts") == []
        assert [each.status for each in await list_documents(product.app)] == ["ready"]
        again = await crawled(product, site.url())
        assert again.kept == 2


async def test_what_cannot_be_begun(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    async with visiting(database_url, tmp_path, site, work=False) as product:
        for url, options, words in (
            ("ftp://example.org/", {}, "must begin with http"),
            ("https://example.org/", {"depth": -1}, "depth -1"),
            ("https://example.org/", {"max_pages": 0}, "0 pages"),
            ("https://example.org/", {"max_pages": 10**6}, "crawl.most_pages"),
            ("https://example.org/", {"hosts": ["no host!"]}, "no usable host"),
        ):
            with pytest.raises(BadValue, match=words):
                await begin(product, url, **options)
        number = await begin(product, "https://example.org/", hosts=["docs.example.org"])
        assert (await show_crawl(product.app, number)).hosts == [
            *("example.org", "www.example.org", "docs.example.org", "www.docs.example.org")
        ]
        assert await run(product, "select from penstock.jobs where args ->> 'crawl' = $1", str(number))


async def test_other_hosts_belong_to_it_if_they_are_named(
    database_url: DatabaseUrl, tmp_path: Path, site: Website
) -> None:
    other = f"http://localhost:{site.port}"
    site.put("/", "The first page.", f"{other}/b")
    site.put("/b", "The page of another host.", "/c")
    site.put("/c", "Another page of that host.")
    async with visiting(database_url, tmp_path, site, private="127.0.0.1, localhost") as product:
        alone = await crawled(product, site.url())
        assert (alone.kept, alone.known) == (1, 1)
        both = await crawled(product, site.url(), hosts=[f"localhost:{site.port}"])
        assert [page.url for page in await list_crawl_pages(product.app, both.id, state="kept")] == [
            *(site.url(), f"{other}/b", f"{other}/c")
        ]
        assert len(await run(product, "select from penstock.hosts where robots is not null")) == 2


async def test_robots_txt_of_yesterday_counts_while_the_server_is_away(
    database_url: DatabaseUrl, tmp_path: Path, site: Website
) -> None:
    site.pages["/robots.txt"] = b"User-agent: *\nDisallow: /private\n"
    site.put("/", "The first page.", "/private/a")
    async with visiting(database_url, tmp_path, site) as product:
        await crawled(product, site.url())
        site.pages["/robots.txt"] = says(status=500)
        await run(product, "update penstock.test_clock set shift = shift + interval '20 hours'")
        again = await crawled(product, site.url())
        assert (again.state, again.kept, again.skipped) == ("done", 1, 1)
        assert site.count("/robots.txt") == 2
        assert site.count("/private/a") == 0
