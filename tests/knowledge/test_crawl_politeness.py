"""robots.txt, as RFC 9309 reads it."""

import time
from datetime import timedelta

import pytest

from penstock.knowledge.crawl.politeness import MOST_BYTES, read_robots

SITE = "https://example.org"


def allows(text: str, path: str, token: str = "penstock") -> bool:
    return read_robots(text, token, SITE).allows(f"{SITE}{path}")


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("user-AGENT : *  # all\n disallow:/a # b", "/ab", False),
        # The longest rule wins, wherever it stands; of two alike the kinder one.
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/c", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        # Our group, in whatever letters, instead of that for all.
        ("User-agent: *\nDisallow: /\n\nUser-agent: PenStock/1.0\nDisallow: /x", "/a", True),
        ("User-agent: penstockbot\nDisallow: /", "/a", True),
        ("User-agent: pen\nDisallow: /", "/a", True),
        ("User-agent: other\nUser-agent: penstock\nDisallow: /a\n\nUser-agent: penstock\nDisallow: /b", "/b", False),
        ("User-agent: other\nUser-agent: penstock\nDisallow: /a", "/a", False),
        # Stars and ends.
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf?x", True),
        ("User-agent: *\nDisallow: /a*b*c", "/a1b2c3", False),
        ("User-agent: *\nDisallow: /a*b*c", "/a1c2b3", True),
        ("User-agent: *\nDisallow: *?print=", "/x?print=1", False),
        ("User-agent: *\nDisallow: /a$", "/a", False),
        ("User-agent: *\nDisallow: /a$", "/ab", True),
        ("User-agent: *\nDisallow: /a*a$", "/a", True),
        # One spelling.
        ("User-agent: *\nDisallow: /%7Euser/ü", "/~user/%C3%BC", False),
        # Lines that nobody knows, and rules before any group.
        ("Disallow: /\nHost: x\nUser-agent: *\nNoindex: /a\nDisallow: /b", "/a", True),
        ("User-agent: *\nCrawl-delay: 3\nDisallow: /b", "/b", False),
        # A path without its slash.
        ("User-agent: *\nDisallow: a/", "/a/b", False),
    ],
)
def test_rules(text: str, path: str, allowed: bool) -> None:
    assert allows(text, path) is allowed


def test_delay_and_sitemaps() -> None:
    text = (
        "Sitemap: /map.xml\nUser-agent: *\nCrawl-delay: 2.5\nSitemap: https://example.org/map.xml\nSitemap: mailto:x\n"
    )
    rules = read_robots(text, "penstock", SITE)
    assert (rules.delay, rules.sitemaps) == (2.5, (f"{SITE}/map.xml",))
    assert read_robots("User-agent: *\nCrawl-delay: soon", "penstock", SITE).delay == 0
    assert timedelta(seconds=read_robots("User-agent: *\nCrawl-delay: 1e300", "penstock", SITE).delay)


def test_a_hostile_file_is_read_in_bounded_time() -> None:
    stars = "User-agent: *\n" + "Disallow: /" + "*a" * 5_000 + "*b\n"
    many = "User-agent: *\n" + "Disallow: /x*y*z\n" * 200_000
    agents = "".join(f"{spelled} a{number}\n" for spelled in ("User-agent:", "useragent") for number in range(7_000))
    agents += "User-agent: *\n" + "Disallow: /x\n" * 20_000
    began = time.process_time()
    assert allows(stars, "/" + "a" * 1_900)
    assert allows(many, "/" + "xyx" * 600)
    assert allows(agents, "/a")
    assert not allows(agents, "/x")
    assert allows("\0\ufffd" * MOST_BYTES, "/a")
    assert time.process_time() - began < 5
