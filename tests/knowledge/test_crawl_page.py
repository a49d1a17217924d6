"""What a page and a sitemap say: as a sandbox reads them, and what is made of that."""

import gzip
import io
import time
from typing import Any

import pytest

from penstock.errors import Corrupt
from penstock.extraction.text_formats.web import links, sitemap
from penstock.knowledge.crawl.page import CrawledPage, Site, read_page
from tests.knowledge.site import html

PAGE = "https://example.org/a/page"
SITE = Site(frozenset({"example.org", "www.example.org"}))


def read(raw: bytes, *, most: int = 2_000, tags: str = "", url: str = PAGE) -> CrawledPage:
    said = links(io.BytesIO(raw), {"most": most, "token": "penstock"}, None)
    return read_page(said, url, SITE, tags, token="penstock")


def test_links_are_canonical_and_of_the_site() -> None:
    found = read(
        html(
            "x",
            "b#part",
            "b",
            "../c?utm_source=x",
            "//www.example.org/d",
            "http://example.org/e",
            "https://other.example/f",
            "mailto:a@example.org",
            "javascript:void(0)",
            "#top",
            "",
            "page",
            "http://[::1",
            "https://example.org/" + "x" * 10_000,
            title=" The  page ",
        )
    )
    assert found.links == (
        "https://example.org/a/b",
        "https://example.org/c",
        "https://www.example.org/d",
        "https://example.org/e",
    )
    assert (found.title, found.canonical, found.noindex) == ("The page", "", False)


def test_base_canonical_and_nofollow() -> None:
    head = '<base href="/deep/"><link rel="alternate canonical" href="../one?utm_medium=x">'
    found = read(html("x", "b", head=head) + b'<a rel="noopener nofollow" href="c">no</a><area href="d">')
    assert found.links == ("https://example.org/deep/b", "https://example.org/deep/d")
    assert found.canonical == "https://example.org/one"
    assert read(html("x", head='<link rel=canonical href="https://other.example/">')).canonical == ""
    assert read(html("x", head='<link rel=canonical href="#here">')).canonical == ""


@pytest.mark.parametrize(
    ("head", "tags", "noindex", "follows"),
    [
        ('<meta name="ROBOTS" content="NoIndex, follow">', "", True, True),
        ('<meta name="robots" content="nofollow">', "", False, False),
        ('<meta name="robots" content="none">', "", True, False),
        ('<meta name="penstock" content="noindex">', "", True, True),
        ('<meta name="otherbot" content="noindex">', "", False, True),
        ("", "noindex", True, True),
        ("", "otherbot: noindex, nofollow", False, True),
        ("", "penstock: nofollow", False, False),
        ("", "unavailable_after: 25 Jun 2010 15:00:00 PST", False, True),
        ("", "otherbot: noindex, penstock: none", True, False),
    ],
)
def test_what_a_page_asks_of_robots(head: str, tags: str, noindex: bool, follows: bool) -> None:
    found = read(html("x", "b", head=head), tags=tags)
    assert (found.noindex, bool(found.links)) == (noindex, follows)


def test_a_hostile_page_is_read_in_bounded_time() -> None:
    many = html("x", *(f"/{number}" for number in range(100_000)))
    deep = b"<!doctype html>" + b"<div>" * 300_000 + b'<a href="b">'
    began = time.process_time()
    assert len(read(many).links) == 2_000
    assert "nested too deep" in read(deep).note
    assert read(b'<meta charset="zlib"><a href="b">\xff\xfe</a>').links == ("https://example.org/a/b",)
    assert read(b'<meta charset="utf-7"><a href="+ADw-script">x</a>').links
    assert read(b"\xff\xfe\x00").links == ()
    assert time.process_time() - began < 10


@pytest.mark.parametrize("said", [{"links": "x"}, {"links": [1]}, {"title": 7}, {"robots": {}}])
def test_a_sandbox_is_not_trusted(said: Any) -> None:
    with pytest.raises(Corrupt):
        read_page(said, PAGE, SITE, "", token="penstock")


def test_what_a_box_says_can_be_kept() -> None:
    leaf = read_page({"title": "a\0\ud800", "links": ["b\0\ud800"]}, PAGE, SITE, "", token="penstock")
    assert leaf.title.encode()
    assert leaf.links[0].isascii()


# -- sitemaps -------------------------------------------------------------------------------------------------------------

URLSET = b"""<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
<url><loc> https://example.org/a?b=1&amp;c=2 </loc><lastmod>2024-01-01</lastmod></url>
<url><loc>https://example.org/b</loc><image:image xmlns:image="x"><image:loc>https://example.org/p.png</image:loc></image:image></url>
</urlset>"""
INDEX = b"<sitemapindex><sitemap><loc>https://example.org/s1.xml.gz</loc></sitemap></sitemapindex>"


def listed(raw: bytes, most: int = 100, unpacked: int = 10**6) -> dict[str, Any]:
    return sitemap(io.BytesIO(raw), {"most": most, "unpacked": unpacked}, None)


def test_sitemaps_of_all_forms() -> None:
    pages = ["https://example.org/a?b=1&c=2", "https://example.org/b"]
    assert listed(URLSET) == {"pages": pages, "sitemaps": []}
    assert listed(gzip.compress(URLSET)) == {"pages": pages, "sitemaps": []}
    assert listed(INDEX) == {"pages": [], "sitemaps": ["https://example.org/s1.xml.gz"]}
    assert listed(b"\xef\xbb\xbfhttps://example.org/a\r\n\r\nhttps://example.org/b\n")["pages"] == [
        "https://example.org/a",
        "https://example.org/b",
    ]
    assert listed(URLSET, most=1)["pages"] == pages[:1]


def test_hostile_sitemaps() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'
    assert listed(bomb) == {"pages": [], "sitemaps": []}
    assert listed(URLSET[:-60])["pages"], "what was there before it broke"
    assert listed(b"<html><body>404") == {"pages": [], "sitemaps": []}
    assert listed(gzip.compress(b"<urlset>" + b" " * 10**8)) == {"pages": [], "sitemaps": []}
    assert listed(b"\x1f\x8bnonsense") == {"pages": [], "sitemaps": []}
    assert listed(b"") == {"pages": [], "sitemaps": []}
    assert listed(b"<urlset>" + b"<url>" * 100_000) == {"pages": [], "sitemaps": []}
    assert listed(b"<url><loc>" + b"x" * 10_000 + b"</loc></url>")["pages"] == []
