"""A small web site on loopback that misbehaves on command, and a product that may crawl it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from penstock.documents import create_collection, find_collection, list_documents
from penstock.knowledge.crawl.crawl import Crawl, CrawlPage, begin_crawl, list_crawl_pages, show_crawl
from penstock.product import Product
from penstock.settings import DatabaseUrl

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def html(body: str = "", *links: str, head: str = "", title: str = "") -> bytes:
    """A page with some text and links."""
    shown = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body><p>{body}</p>{shown}</body></html>".encode()


class Website:
    """Pages by their path with its query; what is not there is 404. `asked` is what was asked for, in that order."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Answer] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.times: list[float] = []
        self.port = 0

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def put(self, path: str, body: str = "", *links: str, **more: Any) -> None:
        self.pages[path] = html(body or f"This is the page {path}.", *links, title=f"Page {path}", **more)

    def count(self, path: str) -> int:
        return Counter(self.asked)[path]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.raw_path)
        self.times.append(time.monotonic())
        self.agents.add(request.headers.get("User-Agent", ""))
        page = self.pages.get(request.raw_path)
        if page is None:
            return web.Response(status=404)
        if isinstance(page, bytes):
            kind = "text/html" if page.startswith(b"<!doctype") else "text/plain"
            return web.Response(body=page, content_type=kind)
        return await page(request)


def says(body: bytes = b"", *, status: int = 200, kind: str = "text/html", **headers: str) -> Answer:
    """Always the same answer; `X_Robots_Tag=` is the header X-Robots-Tag."""

    async def answer(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, status=status, headers={"Content-Type": kind} | named)

    return answer


def moved(to: str) -> Answer:
    return says(status=302, Location=to)


async def endless(request: web.Request) -> web.StreamResponse:
    """Bytes as long as somebody listens."""
    response = web.StreamResponse(headers={"Content-Type": "text/html"})
    await response.prepare(request)
    try:
        while True:
            await response.write(b"<p>and on it goes</p>" * 5_000)
    except (ConnectionError, asyncio.CancelledError):
        return response


@asynccontextmanager
async def open_website(port: int = 0) -> AsyncIterator[Website]:
    site = Website()
    app = web.Application(handler_args={"max_line_size": 65536, "max_field_size": 65536})
    app.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    place = web.TCPSite(runner, "127.0.0.1", port)
    await place.start()
    server: Any = place._server
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        await runner.cleanup()


@asynccontextmanager
async def visiting(
    database_url: DatabaseUrl, home: Path, site: Website, *, work: bool = True, private: str = "127.0.0.1", **crawl: Any
) -> AsyncIterator[Product]:
    """The product, with a collection `web`; a worker runs in it."""
    chosen: dict[str, Any] = {
        "pool": {"size": 4, "hold_limit": "2s"},
        "extraction": {"children": 1},
        "fetch": {"ports": f"80, 443, {site.port}", "private": private},
        "crawl": {"delay": "1ms"} | crawl,
    }
    async with Product(database_url=database_url, home=home, **chosen) as product:
        await create_collection(product.app, "web")
        stop = asyncio.Event()
        working = (
            asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain="1s")) if work else None
        )
        try:
            yield product
        finally:
            stop.set()
            if working is not None:
                await working


async def begin(product: Product, url: str, **options: Any) -> int:
    into = await find_collection(product.app, "web")
    return (await begin_crawl(product.app, url, into, **options)).id


async def over(product: Product, crawl: int, within: float = 30) -> Crawl:
    """The crawl when it is over and its documents are prepared."""
    async with asyncio.timeout(within):
        while True:
            found = await show_crawl(product.app, crawl)
            if found.is_over and not found.unprepared:
                return found
            await asyncio.sleep(0.05)


async def crawled(product: Product, url: str, **options: Any) -> Crawl:
    return await over(product, await begin(product, url, **options))


async def pages_of(product: Product, crawl: int, site: Website) -> dict[str, CrawlPage]:
    """By their path."""
    start = site.url("")
    return {page.url.removeprefix(start): page for page in await list_crawl_pages(product.app, crawl, most=1000)}


async def names_of(product: Product, site: Website) -> dict[str, str]:
    """What the documents are called and how they are."""
    start = f"127.0.0.1_{site.port}/"
    return {each.name.removeprefix(start): each.status for each in await list_documents(product.app)}


async def run(product: Product, query: str, *arguments: Any) -> list[Any]:
    async with product.app.database.pool.session() as session:
        rows: list[Any] = await session.fetch(query, *arguments)
        return rows


async def until(product: Product, query: str, *arguments: Any, within: float = 20, pass_time: bool = False) -> None:
    """Look until the query gives a row; with `pass_time`, jobs that wait for later need not."""
    later = "update penstock.test_clock set shift = shift + interval '5 minutes' where exists "
    later += "(select from penstock.jobs where state = 'later')"
    async with asyncio.timeout(within):
        while not await run(product, query, *arguments):
            if pass_time:
                await run(product, later)
            await asyncio.sleep(0.05)
