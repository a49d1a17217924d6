import asyncio
import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from penstock.errors import FetchFailed, FetchRefused, Permanent, Transient
from penstock.fetch import Fetcher
from penstock.fetch.response import retry_after
from tests.fetch.site import Names, Site, moved, open_site, read, reply, settings_for
from tests.fetch.special_addresses import SPECIAL


@pytest.fixture
async def other(site: Site) -> AsyncIterator[Site]:
    """At the same port of another loopback address, which is not allowed."""
    async with open_site("127.0.0.2", site.port) as opened:
        yield opened


async def test_open(site: Site, fetcher: Fetcher) -> None:
    site.pages["/a.pdf?v=1"] = reply(b"hello", "Content-Type: Application/PDF; x=y")

    async with fetcher.open(site.url("/a.pdf?v=1#part"), most=5) as response:
        body = b"".join([piece async for piece in response.pieces()])

    assert body == b"hello"
    assert (response.url, response.name) == (site.url("/a.pdf?v=1"), "a.pdf")
    assert (response.media_type, response.size) == ("application/pdf", 5)


async def test_what_is_not_declared(site: Site, fetcher: Fetcher) -> None:
    site.pages["/"] = b"HTTP/1.1 200 OK\r\nContent-Type: nonsense\r\n\r\nto the end"
    async with fetcher.open(site.url("/"), most=100) as response:
        assert b"".join([piece async for piece in response.pieces()]) == b"to the end"
    assert (response.media_type, response.size, response.name) == ("", None, "127.0.0.1")


async def test_a_hostile_name(site: Site, fetcher: Fetcher) -> None:
    site.pages["/"] = reply(b"", 'Content-Disposition: attachment; filename="../../\u202efdp.exe"')
    async with fetcher.open(site.url("/"), most=100) as response:
        assert response.name == "fdp.exe"


async def test_the_request_tells_little(site: Site, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    site.pages["/"] = reply(b"", "Set-Cookie: a=b", "Location: /next", status="302 Found")
    site.pages["/next"] = reply(b"x")

    assert await read(fetcher, site.url("/")) == b"x"

    for request in site.requests:
        names = {line.partition(":")[0].lower() for line in request.splitlines()[1:] if line}
        assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert "Accept-Encoding: identity" in request
        assert "User-Agent: Penstock" in request


@pytest.mark.parametrize(("address", "kind"), SPECIAL)
async def test_a_name_with_a_special_address_is_refused(site: Site, address: str, kind: str) -> None:
    names = Names(a_example=[["93.184.216.34", address]])  # one good address does not excuse the other
    with pytest.raises(FetchRefused, match=kind) as caught:
        await read(Fetcher(settings_for(site, private=""), resolve=names), site.url("/", "a.example"))
    assert f" {address} " not in str(caught.value)
    assert site.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "①②⑦.0.0.1", "localhost"])
async def test_loopback_in_any_spelling_is_refused(site: Site, host: str) -> None:
    with pytest.raises(FetchRefused, match=r"loopback|translated"):
        await read(Fetcher(settings_for(site, private="")), site.url("/", host))
    assert site.requests == []


async def test_a_private_host_by_name(site: Site) -> None:
    site.pages["/"] = reply(b"inside")
    names = Names(intranet_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    fetcher = Fetcher(settings_for(site, private="intranet.example"), resolve=names)

    assert await read(fetcher, site.url("/", "Intranet.Example.")) == b"inside"
    assert f"Host: intranet.example:{site.port}" in site.requests[0]
    with pytest.raises(FetchRefused, match="loopback"):
        await read(fetcher, site.url("/", "other.example"))


async def test_a_name_that_changes_its_address_after_the_check(site: Site, other: Site) -> None:
    site.pages["/"] = reply(b"the checked one")
    names = Names(a_example=[["127.0.0.1"], ["127.0.0.2"]])

    assert await read(Fetcher(settings_for(site), resolve=names), site.url("/", "a.example")) == b"the checked one"
    assert names.asked == ["a.example"]
    assert other.requests == []


async def test_a_name_that_changes_its_address_at_a_redirect(site: Site, other: Site) -> None:
    site.pages["/"] = moved("/again")
    names = Names(a_example=[["127.0.0.1"], ["127.0.0.2"]])

    with pytest.raises(FetchRefused, match="loopback"):
        await read(Fetcher(settings_for(site), resolve=names), site.url("/", "a.example"))
    assert (len(site.requests), other.requests) == (1, [])


async def test_a_second_address_is_tried(site: Site) -> None:
    site.pages["/"] = reply(b"x")
    names = Names(a_example=[["127.0.0.9", "127.0.0.1"]])
    fetcher = Fetcher(settings_for(site, private="127.0.0.0/8"), resolve=names)
    assert await read(fetcher, site.url("/", "a.example")) == b"x"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_redirects_are_followed(site: Site, fetcher: Fetcher, status: str) -> None:
    site.pages["/a/b"] = moved("../c.txt?d", status)
    site.pages["/c.txt?d"] = reply(b"x")
    async with fetcher.open(site.url("/a/b"), most=10) as response:
        assert (response.url, response.name) == (site.url("/c.txt?d"), "c.txt")


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("http://127.0.0.2:{port}/", "loopback"),
        ("http://[::1]:{port}/", "loopback"),
        ("//127.0.0.2:{port}/", "loopback"),
        ("http://169.254.169.254:{port}/latest/meta-data/", "link-local"),
        ("http://2130706433:{port}/", "malformed"),
        ("http://127.0.0.1:1/", "Port 1 "),
        ("http://a:b@127.0.0.1:{port}/", "password"),
        ("file:///etc/passwd", "http"),
        ("ftp://127.0.0.1/", "http"),
        ("http://[", "not a URL"),
        ("", "names no target"),
    ],
)
async def test_a_redirect_to_where_it_must_not_lead(
    site: Site, other: Site, fetcher: Fetcher, location: str, why: str
) -> None:
    site.pages["/"] = moved(location.format(port=site.port))
    with pytest.raises(FetchRefused, match=why):
        await read(fetcher, site.url("/"))
    assert (len(site.requests), other.requests) == (1, [])


async def test_redirects_in_a_circle(site: Site, fetcher: Fetcher) -> None:
    site.pages |= {"/a": moved("/b"), "/b": moved("/a")}
    with pytest.raises(FetchRefused, match="circle"):
        await read(fetcher, site.url("/a"))
    assert len(site.requests) == 2


async def test_too_many_redirects(site: Site) -> None:
    site.pages |= {f"/{n}": moved(f"/{n + 1}") for n in range(9)} | {"/9": reply(b"x")}
    fetcher = Fetcher(settings_for(site, redirects=3))
    assert await read(fetcher, site.url("/6")) == b"x"
    site.requests.clear()

    with pytest.raises(FetchRefused, match="More than 3 redirects"):
        await read(fetcher, site.url("/0"))
    assert len(site.requests) == 4


async def test_a_declared_size_is_refused_before_reading(site: Site, fetcher: Fetcher) -> None:
    site.pages["/"] = reply(b"", length=1001)
    with pytest.raises(FetchRefused, match=r"more than 1000B"):
        async with fetcher.open(site.url("/"), most=1000):
            pytest.fail("it was opened")


async def test_an_endless_body(site: Site, fetcher: Fetcher) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()

    site.pages["/"] = endless
    taken = 0
    with pytest.raises(FetchRefused, match="more than 64kB"):
        async with fetcher.open(site.url("/"), most=2**16) as response:
            async for piece in response.pieces():
                taken += len(piece)
    assert taken <= 2**16
    async with asyncio.timeout(10):
        await site.gone.wait()  # the connection does not stay


async def test_less_than_was_declared(site: Site, fetcher: Fetcher) -> None:
    site.pages["/"] = reply(b"short", length=100)
    with pytest.raises(FetchFailed, match="ended too early"):
        await read(fetcher, site.url("/"))


async def test_more_than_was_declared(site: Site, fetcher: Fetcher) -> None:
    site.pages["/"] = reply(b"hello and more", length=5)
    with pytest.raises(FetchFailed, match="speak HTTP"):
        await read(fetcher, site.url("/"), most=5)


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "unheard-of"])
async def test_a_compressed_body(site: Site, fetcher: Fetcher, encoding: str) -> None:
    site.pages["/"] = reply(gzip.compress(bytes(10**6)), f"Content-Encoding: {encoding}")
    with pytest.raises(FetchRefused, match="compressed"):
        await read(fetcher, site.url("/"), most=10**4)


async def test_a_file_that_is_compressed_itself(site: Site, fetcher: Fetcher) -> None:
    packed = gzip.compress(b"x")
    site.pages["/"] = reply(packed, "Content-Type: application/gzip", "Content-Encoding: identity")
    assert await read(fetcher, site.url("/")) == packed


async def test_a_server_that_falls_silent(site: Site) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"begin", length=100))
        await asyncio.Event().wait()

    site.pages["/"] = silent
    fetcher = Fetcher(settings_for(site, idle_timeout=timedelta(milliseconds=200)))
    with pytest.raises(FetchFailed, match="too long"):
        await read(fetcher, site.url("/"))


async def test_a_server_that_never_answers(site: Site) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    site.pages["/"] = silent
    fetcher = Fetcher(settings_for(site, timeout=timedelta(milliseconds=200)))
    with pytest.raises(FetchFailed, match="too long"):
        await read(fetcher, site.url("/"))


async def test_a_body_that_drips(site: Site) -> None:
    """Never silent for long, and never done."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(reply(length=10**6))
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    site.pages["/"] = drip
    fetcher = Fetcher(settings_for(site, timeout=timedelta(milliseconds=400), idle_timeout=timedelta(seconds=5)))
    async with asyncio.timeout(5):
        with pytest.raises(FetchFailed, match="too long"):
            await read(fetcher, site.url("/"), most=10**6)


async def test_a_name_server_that_never_answers(site: Site) -> None:
    async def silent(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    fetcher = Fetcher(settings_for(site, connect_timeout=timedelta(milliseconds=100)), resolve=silent)
    with pytest.raises(FetchFailed, match="in time"):
        await read(fetcher, site.url("/", "a.example"))


@pytest.mark.parametrize(
    "status", ["204 No Content", "206 Partial Content", "304 Not Modified", "403 No", "404 No", "410 No"]
)
async def test_an_answer_that_stays_so(site: Site, fetcher: Fetcher, status: str) -> None:
    site.pages["/x?token=hunter2"] = reply(status=status)
    with pytest.raises(FetchRefused, match=f"answered {status[:3]}") as caught:
        await read(fetcher, site.url("/x?token=hunter2"))
    assert isinstance(caught.value, Permanent)
    assert (caught.value.status, "hunter2" in str(caught.value)) == (422, False)


@pytest.mark.parametrize("status", ["408 Late", "425 Early", "429 Slow", "500 Oh", "503 Away", "599 Odd"])
async def test_an_answer_that_may_pass(site: Site, fetcher: Fetcher, status: str) -> None:
    site.pages["/"] = reply(b"", "Retry-After: 7", status=status)
    with pytest.raises(FetchFailed, match=f"answered {status[:3]}") as caught:
        await read(fetcher, site.url("/"))
    assert isinstance(caught.value, Transient)
    assert (caught.value.status, caught.value.retry_after) == (502, timedelta(seconds=7))


async def test_what_is_no_http(site: Site, fetcher: Fetcher) -> None:
    site.pages["/"] = b"220 mail.example.org ESMTP\r\n\r\n"
    with pytest.raises(FetchFailed, match="speak HTTP"):
        await read(fetcher, site.url("/"))


async def test_nobody_listens(site: Site, fetcher: Fetcher) -> None:
    async with open_site() as gone:
        url = gone.url("/x")
    with pytest.raises(FetchFailed, match="cannot be reached") as caught:
        await read(Fetcher(settings_for(gone)), url)
    assert isinstance(caught.value, Transient)


async def test_no_such_host(site: Site) -> None:
    with pytest.raises(FetchRefused, match="no address"):
        await read(Fetcher(settings_for(site), resolve=Names(a_example=[[]])), site.url("/", "a.example"))


async def test_an_error_of_the_caller_is_its_own(site: Site, fetcher: Fetcher) -> None:
    site.pages["/"] = reply(b"x")
    with pytest.raises(TimeoutError, match="mine"):
        async with fetcher.open(site.url("/"), most=10):
            raise TimeoutError("mine")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", None),
        ("soon", None),
        ("-5", None),
        ("0", 0),
        ("120", 120),
        ("9" * 400, 3600),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ],
)
def test_retry_after(header: str, seconds: int | None) -> None:
    assert retry_after(header) == (None if seconds is None else timedelta(seconds=seconds))


def test_retry_after_a_date() -> None:
    wait = retry_after(format_datetime(datetime.now(UTC) + timedelta(minutes=5), usegmt=True))
    assert wait is not None
    assert timedelta(minutes=4) < wait <= timedelta(minutes=5)


async def test_who_asks_can_say_its_name_and_look_at_each_hop(site: Site, fetcher: Fetcher) -> None:
    site.pages["/a"] = moved("/b")
    site.pages["/b"] = reply(b"x", "X-Robots-Tag: noindex", "X-Robots-Tag: otherbot: none")
    hops: list[str] = []
    async with fetcher.open(site.url("/a"), most=10, user_agent="Somebody/1.0", follow=hops.append) as response:
        assert response.header("x-robots-tag") == "noindex, otherbot: none"
        assert response.header("X-Nothing") == ""
    assert hops == [site.url("/b")]
    assert all("User-Agent: Somebody/1.0\r\n" in request for request in site.requests)


async def test_a_hop_that_is_not_wanted_is_not_asked_for(site: Site, fetcher: Fetcher) -> None:
    site.pages["/a"] = moved("/b")

    def refuse(url: str) -> None:
        raise LookupError(url)

    with pytest.raises(LookupError):
        async with fetcher.open(site.url("/a"), most=10, follow=refuse):
            pass
    assert len(site.requests) == 1


async def test_the_status_of_a_refusal_is_known(site: Site, fetcher: Fetcher) -> None:
    site.pages["/loop"] = moved("/loop")
    for path, answered in (("/gone", 404), ("/loop", None)):
        with pytest.raises(FetchRefused) as refused:
            await read(fetcher, site.url(path))
        assert refused.value.answered == answered
