"""A crawl's way: robots.txt → the first page → sitemaps → rounds of pages, until none waits.

A crawl has no slot while its pages are fetched: each round is a fan-out (scrape.py has a page's way), and which pages it has is
written before it begins. So after a crash it goes on in the round in which it was, and asks for nothing that was settled.
"""

import asyncio
from functools import partial

from penstock.documents import Announcer, Intake
from penstock.engine import Context, Gap, Kind, Penstock
from penstock.errors import Permanent
from penstock.extraction import Boxes
from penstock.fetch import Fetcher
from penstock.knowledge.canonical import origin_of
from penstock.knowledge.frontier import Work, close_round, load_crawl, open_round, pages_of_round, progress_of, sql
from penstock.knowledge.hosts import FRESH_FOR, Hosts
from penstock.knowledge.robots import parted
from penstock.knowledge.sitemap import Sitemaps
from penstock.pipelines.scrape import Scraping

QUEUE = "crawl"


def declare_crawls(app: Penstock, fetcher: Fetcher, boxes: Boxes, intake: Intake, announcer: Announcer) -> None:
    """The kinds of jobs that take web sites."""
    hosts = Hosts(app, fetcher)
    crawling = Crawling(app, fetcher, boxes, hosts, announcer)
    app.job(queue=QUEUE, timeout="30m", retries=5)(crawling.crawl)
    crawling.scrape_call = app.job(queue=QUEUE, timeout="2m", retries=2)(
        Scraping(app, fetcher, boxes, hosts, intake, announcer).scrape
    )


class Crawling:
    """The handler of crawls, with what it needs."""

    scrape_call: Kind

    def __init__(self, app: Penstock, fetcher: Fetcher, boxes: Boxes, hosts: Hosts, announcer: Announcer) -> None:
        self._app = app
        self._hosts = hosts
        self._announcer = announcer
        self._chosen = app.settings.crawl
        self._sitemaps = Sitemaps(self._chosen, fetcher, boxes, hosts)

    async def crawl(self, ctx: Context, crawl: int) -> dict[str, int] | None:
        """Take a site, round by round."""
        while True:
            work = await self._load(crawl)
            if work is None:
                return None
            if work.round == 0:
                ctx.enter("robots")  # before anything else of the site is asked for
                await self._hosts.rules(ctx, origin_of(work.url), FRESH_FOR)
            if work.round_open:
                await self._finish_round(ctx, work)
                continue
            ctx.enter("round")
            async with ctx.write() as tx:
                opened = await open_round(tx, work.id)
            if not opened:
                return await self._end(ctx, work)

    async def _load(self, crawl: int) -> Work | None:
        """None for a crawl that is over; one whose collection was deleted fails."""
        work = await load_crawl(self._app.database.pool, crawl)
        if work is None or work.state != "running":
            return None
        if work.gone:
            raise Permanent(f"The collection {work.collection} was deleted. Begin a crawl into another one.")
        return work

    async def _finish_round(self, ctx: Context, work: Work) -> None:
        """Wait for the pages of the open round, then make room for the next."""
        pool = self._app.database.pool
        pages = await pages_of_round(pool, work)
        so_far = await progress_of(pool, work.id)
        await ctx.progress(so_far["done"], so_far["known"], "pages")
        calls = [self.scrape_call(crawl=work.id, page=page.id) for page in pages]
        results = await ctx.map(f"round {work.round}", calls, gaps="allow")
        unsettled = {
            page.id: f"It was not taken: {result.reason}"
            for page, result in zip(pages, results, strict=True)
            if isinstance(result, Gap)
        }
        [first] = await pool.repeat(partial(sql.first_page, crawl=work.id))
        began = any(page.id == first["id"] for page in pages)
        is_there = first["state"] in ("kept", "skipped")
        listed, barred = await self._listed(ctx, work) if began and is_there else ([], [])
        ctx.enter("close")
        async with ctx.write() as tx:
            await close_round(tx, work, unsettled, listed, barred)
        if began and not is_there:
            reason = unsettled.get(first["id"]) or first["reason"]
            raise Permanent(f"The first page cannot be taken: {reason}")

    async def _listed(self, ctx: Context, work: Work) -> tuple[list[str], list[str]]:
        """The pages of sitemaps that may be asked for, and those that may not."""
        if not self._chosen.sitemaps or work.depth == 0 or work.max_pages == 1:
            return [], []
        ctx.enter("sitemaps")
        origin = origin_of(work.url)
        rules = await self._hosts.rules(ctx, origin)
        urls = await self._sitemaps.pages(ctx, origin, rules, work.site, 2 * work.max_pages)
        return await asyncio.to_thread(parted, urls, origin, rules)

    async def _end(self, ctx: Context, work: Work) -> dict[str, int]:
        ctx.enter("end")
        counts = await progress_of(self._app.database.pool, work.id)
        if not counts["kept"]:
            [first] = await self._app.database.pool.repeat(partial(sql.first_page, crawl=work.id))
            raise Permanent(f"Nothing of {work.url} was taken: {first['reason']}")
        result = {key: counts[key] for key in ("kept", "skipped", "failed")}
        async with ctx.finish(result) as tx:
            await sql.end_crawl.value(tx, crawl=work.id)
        self._announcer.tell()
        return result
