"""Pages that lie, loop, never end or lead where nobody may go: each has its reason, and the crawl is done."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.settings import DatabaseUrl
from tests.knowledge.site import (
    Website,
    crawled,
    endless,
    html,
    moved,
    names_of,
    open_website,
    pages_of,
    says,
    visiting,
)

METADATA = "http://169.254.169.254/latest/meta-data/"
SECRET = b"AKIA-SECRET"


@pytest.fixture
async def site() -> AsyncIterator[Website]:
    async with open_website() as opened:
        yield opened


async def test_each_ends_with_a_reason(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    bad = {
        "/metadata": (moved(METADATA), "skipped", "another site, 169.254.169.254"),
        "/loop": (moved("/loop2"), "failed", "redirects in a circle"),
        "/loop2": (moved("/loop"), "failed", "redirects in a circle"),
        "/chain": (moved("/chain?1"), "failed", "More than 5 redirects"),
        "/endless": (endless, "failed", "more than 256kB, the most that is taken (crawl.page_bytes)"),
        "/declared": (says(b"x", Content_Length="99999999"), "failed", ""),
        "/packed": (says(gzip.compress(b"<p>" * 10**6), Content_Encoding="gzip"), "failed", "compressed"),
        "/nowhere": (moved("file:///etc/passwd"), "failed", "redirects to where it is not followed"),
        "/barred": (moved("/private/x"), "skipped", "robots.txt does not allow"),
        "/film": (says(b"x" * 1000, kind="video/mp4"), "skipped", "video/mp4"),
        "/feed": (says(b"<rss/>", kind="application/rss+xml"), "skipped", "application/rss+xml"),
        "/untyped": (says(b"\x00\x01", kind="application/octet-stream"), "skipped", "application/octet-stream"),
        "/gone": (says(status=410), "failed", "410 (Gone)"),
        "/teapot": (says(status=418), "failed", "418"),
    }
    for number in range(1, 9):
        site.pages[f"/chain?{number}"] = moved(f"/chain?{number + 1}")
    good = {
        "/deep": b"<!doctype html>" + b"<div>" * 50_000 + b"The bottom.",
        "/charset": b'<!doctype html><meta charset="hex"><p>Kept \xff\xfe.</p>',
        "/nul": b"<!doctype html><title>a\x00b</title><p>Words \x00.</p>",
        "/many": html("", *(f"/gone?{number}" for number in range(3_000))),
    }
    links = [
        *bad,
        *good,
        "mailto:x@example.org",
        "javascript:1",
        "/" + "x" * 10_000,
        "http://[::1",
        "//",
        "https://a b/",
    ]
    site.put("/", "", *links)
    for path, (answer, _, _) in bad.items():
        site.pages[path] = answer
    site.pages |= good
    site.pages["/robots.txt"] = (
        b"\xef\xbb\xbfUser-agent: *\nDisallow: /private\nSitemap: /bomb.xml.gz\n\x00\xff" + b"x" * 10**6
    )
    site.pages["/bomb.xml.gz"] = says(gzip.compress(b"<urlset>" + b" " * 10**8), kind="application/gzip")
    async with visiting(database_url, tmp_path, site, page_bytes="256kB", page_timeout="5s") as product:
        found = await crawled(product, site.url(), depth=1, max_pages=60)
        assert found.state == "done", found.reason
        pages = await pages_of(product, found.id, site)
        assert pages.keys() == {"/", *bad, *good}
        for path, (_, state, reason) in bad.items():
            assert pages[path].state == state, pages[path]
            assert reason in pages[path].reason, path
        assert {path for path, page in pages.items() if page.state == "kept"} == {"/", *good}
        assert "nested too deep" in pages["/deep"].reason
        assert set(await names_of(product, site)) == {"index.html", *(path[1:] for path in good)}
        assert not [path for path in site.asked if path.startswith("/private")]


@pytest.mark.slow
async def test_the_links_of_one_page_are_bounded(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    site.pages["/"] = html("", *(f"/{number}" for number in range(100_000)))
    async with visiting(database_url, tmp_path, site, links=40) as product:
        found = await crawled(product, site.url(), max_pages=11)
        assert (found.state, found.known, found.kept, found.failed, found.left_out) == ("done", 11, 1, 10, 30)


async def test_a_site_that_may_not_be_asked(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    """Loopback is private unless the settings name it; so is where a name of --hosts leads."""
    site.put("/", SECRET.decode())
    async with visiting(database_url, tmp_path, site, private="10.9.9.9") as product:
        found = await crawled(product, site.url())
        assert found.state == "failed"
        assert "leads to a loopback address, which is not fetched from" in found.reason
        cloud = await crawled(product, METADATA)
        assert "leads to a link-local address" in cloud.reason
        assert site.asked == []


async def test_a_redirect_into_the_network_inside(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    """Also when the crawl names that host as its own: the fetcher has the last word."""
    site.put("/", "The first page.", "/metadata", METADATA)
    site.pages["/metadata"] = moved(METADATA)
    async with visiting(database_url, tmp_path, site) as product:
        found = await crawled(product, site.url(), hosts=["169.254.169.254"])
        assert (found.state, found.kept, found.failed) == ("done", 1, 2)
        reasons = [page.reason for page in (await pages_of(product, found.id, site)).values() if page.state == "failed"]
        assert all("leads to a link-local address" in reason for reason in reasons)
