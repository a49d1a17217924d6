"""The crawl pipeline.

    a crawl:   robots.txt → first page → sitemaps → rounds of pages, until none waits
    a page:    robots → turn → fetch → links → keep

The bytes of a page become a document of the collection, the outcome of the page is recorded and its links enter the frontier
in the transaction that ends its job: after a crash at most the pages that were under way are fetched again. No connection is
held while a page waits for its turn or for a server. One that cannot be fetched is failed and its job is done: the crawl goes
on, and broken links do not become dead letters.
"""

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import asyncpg

from penstock import telemetry
from penstock.blobs import StoredBlob
from penstock.database import Session
from penstock.documents import Intake, Notifier, Upload
from penstock.documents.ingest import CheckedUpload, ConcurrentChange, IntakeResult, check_upload, count_accepted
from penstock.engine import Context, Gap, Kind, Penstock
from penstock.errors import FetchFailed, FetchRefused, NotFound, Permanent, RateLimited, ResourceLimit, Unreadable
from penstock.extraction import SandboxPool
from penstock.fetch import Fetcher
from penstock.knowledge.crawl import (
    FRESH_FOR,
    CrawledPage,
    CrawlWork,
    NoPage,
    PageResult,
    PageWork,
    Politeness,
    RobotsRules,
    Site,
    Sitemaps,
    canonical,
    close_round,
    end_crawl,
    first_page,
    host_of,
    load_crawl,
    load_page,
    open_round,
    origin_of,
    page_name,
    pages_of_round,
    parted,
    progress_of,
    read_page,
    settle_with,
    settle_without,
)
from penstock.settings import format_duration

CRAWL_QUEUE = "crawl"
WEB_PAGES = ("text/html", "application/xhtml+xml")
VAGUE = ("", "application/octet-stream", "binary/octet-stream", "application/download")  # the name may tell more
READERS_WITHIN = 45.0  # seconds that a page waits for a sandbox
RETRY_AFTER = 15.0  # seconds, when all sandboxes are busy

settled = telemetry.counter(
    "penstock_crawl_pages_total", "Pages of crawls that this process has finished: kept, skipped, failed", ("state",)
)


class Skipped(Exception):
    """A page that is not taken, for a reason that is not an error."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    url: str  # after redirects
    media_type: str
    tags: str  # X-Robots-Tag
    stored: StoredBlob


class ScrapePage:
    def __init__(  # noqa: PLR0917  what it works with
        self,
        app: Penstock,
        fetcher: Fetcher,
        sandboxes: SandboxPool,
        politeness: Politeness,
        intake: Intake,
        notifier: Notifier,
    ) -> None:
        self._app = app
        self._fetcher = fetcher
        self._sandboxes = sandboxes
        self._politeness = politeness
        self._intake = intake
        self._store = intake.store
        self._notifier = notifier
        self._chosen = app.settings.crawl
        self._ends: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def _end_of(self, crawl: int) -> asyncio.Lock:
        """Pages of one crawl are recorded one after the other; those that wait for that in this process hold no connection."""
        return self._ends.setdefault(crawl, asyncio.Lock())

    async def scrape(self, ctx: Context, crawl: int, page: int) -> None:
        """Take one page."""
        pool = self._app.database.pool
        work, wanted = await load_crawl(pool, crawl), await load_page(pool, crawl, page)
        if work is None or wanted is None or work.state != "running" or wanted.state != "waiting":
            return
        if work.gone:
            await self._leave(ctx, work, wanted, "failed", f"Collection {work.collection} was deleted.")
            return
        try:
            fetched, rules = await self._fetch(ctx, work, wanted)
            found = await self._read(ctx, work, wanted, fetched, rules)
        except Skipped as skipped:
            await self._leave(ctx, work, wanted, "skipped", str(skipped))
        except FetchRefused as refused:
            await self._leave(ctx, work, wanted, "failed", str(refused).replace("limits.bytes", "crawl.page_bytes"))
        except FetchFailed as failed:
            if failed.retry_after is not None:
                await self._politeness.hold_off(ctx, origin_of(wanted.url), failed.retry_after)
            if ctx.job.failures < ctx.kind.retries:
                raise
            await self._leave(ctx, work, wanted, "failed", f"{failed} It was tried {ctx.job.failures + 1} times.")
        else:
            await self._keep(ctx, work, wanted, fetched.stored, found)

    async def _leave(self, ctx: Context, work: CrawlWork, page: PageWork, state: str, reason: str) -> None:
        ctx.enter("leave")
        async with self._end_of(work.id), ctx.finish() as tx:
            await settle_without(tx, work, page, state, reason)
        settled.labels(state).inc()
        self._notifier.notify()

    # -- fetching -------------------------------------------------------------------------------------------------------

    async def _fetch(self, ctx: Context, work: CrawlWork, page: PageWork) -> tuple[FetchedPage, RobotsRules]:
        """Fetch the page when it is its turn, if robots.txt allows it."""
        origin = origin_of(page.url)
        ctx.enter("robots")
        rules = await self._politeness.rules(ctx, origin)
        if not rules.allows(page.url):
            raise Skipped("robots.txt does not allow it.")
        ctx.enter("turn")
        await self._politeness.take_turn(ctx, origin, rules)
        ctx.enter("fetch")
        try:
            async with asyncio.timeout(self._chosen.page_timeout.total_seconds()):
                fetched = await self._download(page.url, work.site, origin, rules)
        except TimeoutError:
            within = format_duration(self._chosen.page_timeout)
            raise FetchFailed(f"{page.url} did not arrive within {within} (crawl.page_timeout).") from None
        there = origin_of(fetched.url)
        if there != origin:
            rules = await self._politeness.rules(ctx, there)
            if not rules.allows(fetched.url):
                await self._store.remove(fetched.stored.key)
                raise Skipped("It redirects to what robots.txt does not allow.")
        return fetched, rules

    async def _download(self, url: str, site: Site, origin: str, rules: RobotsRules) -> FetchedPage:
        most = min(self._chosen.page_bytes, self._app.settings.limits.bytes)
        wanted = self._fetcher.open(
            url, most=most, user_agent=self._chosen.user_agent, follow=partial(judge_hop, site, origin, rules)
        )
        async with wanted as response:
            media_type = response.media_type
            if media_type in VAGUE:
                media_type = mimetypes.guess_type(urlsplit(response.url).path)[0] or "application/octet-stream"
            if not self._chosen.takes(media_type):
                raise Skipped(f"It is of the type {media_type}, which is not taken (crawl.media_types).")
            stored = await self._store.write(response.pieces(), most=most)
            return FetchedPage(canonical(response.url), media_type, response.header("X-Robots-Tag"), stored)

    # -- reading --------------------------------------------------------------------------------------------------------

    async def _read(
        self, ctx: Context, work: CrawlWork, page: PageWork, fetched: FetchedPage, rules: RobotsRules
    ) -> PageResult:
        """The metadata and links of the page, read in a sandbox."""
        ctx.enter("links")
        said: Any = {}
        if fetched.media_type in WEB_PAGES:
            said = await self._ask_sandbox(fetched, most=self._chosen.links if page.depth < work.depth else 0)

        def read() -> tuple[CrawledPage, list[str], list[str]]:
            leaf = read_page(said, fetched.url, work.site, fetched.tags, token=self._chosen.token)
            return leaf, *parted(leaf.links, origin_of(fetched.url), rules)

        leaf, links, barred = await asyncio.to_thread(read)
        return PageResult(
            fetched.url, fetched.stored.digest, leaf.title, leaf.canonical, leaf.noindex, links, barred, leaf.note
        )

    async def _ask_sandbox(self, fetched: FetchedPage, *, most: int) -> Any:
        """A page whose links cannot be read is a document all the same; when all sandboxes are busy, it is retried later."""
        arguments = {
            "limits": self._app.settings.limits.model_dump(),
            "most": most,
            "token": self._chosen.token,
        }
        try:
            async with asyncio.timeout(READERS_WITHIN), self._store.open(fetched.stored.key) as file:
                return await self._sandboxes.call("links", file, arguments, name=fetched.url)
        except TimeoutError:
            await self._store.remove(fetched.stored.key)
            raise RateLimited("All reader processes are busy with documents.", retry_after=RETRY_AFTER) from None
        except (Unreadable, ResourceLimit) as error:
            return {"note": f"Its links could not be read: {error}"}

    # -- keeping --------------------------------------------------------------------------------------------------------

    async def _keep(self, ctx: Context, work: CrawlWork, page: PageWork, stored: StoredBlob, found: PageResult) -> None:
        """The document, the page and its links, with the end of the job; again while the document changes concurrently."""
        ctx.enter("keep")
        made: list[IntakeResult] = []

        async def keep(tx: Session, address: str) -> int:
            made.append(await self._intake.write(tx, self._upload(work, address, found.title), stored))
            return made[-1].accepted.id

        while True:
            made.clear()
            try:
                async with self._end_of(work.id), ctx.finish() as tx:
                    state = await settle_with(tx, work, page, found, partial(keep, tx))
            except (ConcurrentChange, asyncpg.DeadlockDetectedError):
                continue
            except NotFound as error:  # the collection
                await self._store.remove(stored.key)
                await self._leave(ctx, work, page, "failed", str(error))
                return
            break
        if not made:
            await self._store.remove(stored.key)
        else:
            count_accepted(made[0].accepted)
            if made[0].key != stored.key:  # the same content was there
                await self._intake.let_go(stored, made[0].key)
        settled.labels("kept" if made else state or "skipped").inc()
        self._notifier.notify()

    def _upload(self, work: CrawlWork, address: str, title: str) -> CheckedUpload:
        upload = Upload(
            collection=work.collection,
            name=page_name(address),
            content=_nothing(),
            uploaded_by=work.begun_by or f"crawl {work.id}",
            metadata={"url": address, "crawl": work.id} | ({"title": title} if title else {}),
            replace=True,
        )
        return check_upload(upload, work.tenant, work.collection_id, served=True)


def judge_hop(site: Site, origin: str, rules: RobotsRules, url: str) -> None:
    """Allow a redirect within the site, and where robots.txt allows it."""
    try:
        address = canonical(url)
    except NoPage as error:
        raise Skipped(f"It redirects to something that is not a page: {error}") from None
    if not site.has(address):
        raise Skipped(
            f"It redirects to another site, {host_of(address)}: start a crawl there, or name it with --hosts."
        )
    if origin_of(address) == origin and not rules.allows(address):
        raise Skipped("It redirects to what robots.txt does not allow.")


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


def declare_crawls(app: Penstock, fetcher: Fetcher, sandboxes: SandboxPool, intake: Intake, notifier: Notifier) -> None:
    politeness = Politeness(app, fetcher)
    crawling = CrawlSite(app, fetcher, sandboxes, politeness, notifier)
    app.job(queue=CRAWL_QUEUE, timeout="30m", retries=5)(crawling.crawl)
    crawling.scrape_call = app.job(queue=CRAWL_QUEUE, timeout="2m", retries=2)(
        ScrapePage(app, fetcher, sandboxes, politeness, intake, notifier).scrape
    )


class CrawlSite:
    scrape_call: Kind

    def __init__(
        self, app: Penstock, fetcher: Fetcher, sandboxes: SandboxPool, politeness: Politeness, notifier: Notifier
    ) -> None:
        self._app = app
        self._politeness = politeness
        self._notifier = notifier
        self._chosen = app.settings.crawl
        self._sitemaps = Sitemaps(self._chosen, fetcher, sandboxes, politeness)

    async def crawl(self, ctx: Context, crawl: int) -> dict[str, int] | None:
        """Take a site, round by round."""
        while True:
            work = await self._load(crawl)
            if work is None:
                return None
            if work.round == 0:
                ctx.enter("robots")  # before anything else of the site is asked for
                await self._politeness.rules(ctx, origin_of(work.url), FRESH_FOR)
            if work.round_open:
                await self._finish_round(ctx, work)
                continue
            ctx.enter("round")
            async with ctx.write() as tx:
                opened = await open_round(tx, work.id)
            if not opened:
                return await self._end(ctx, work)

    async def _load(self, crawl: int) -> CrawlWork | None:
        """None for a crawl that is over; one whose collection was deleted fails."""
        work = await load_crawl(self._app.database.pool, crawl)
        if work is None or work.state != "running":
            return None
        if work.gone:
            raise Permanent(f"Collection {work.collection} was deleted: start a crawl into another one.")
        return work

    async def _finish_round(self, ctx: Context, work: CrawlWork) -> None:
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
        first = await first_page(pool, work.id)
        began = any(page.id == first["id"] for page in pages)
        is_there = first["state"] in ("kept", "skipped")
        listed, barred = await self._listed(ctx, work) if began and is_there else ([], [])
        ctx.enter("close")
        async with ctx.write() as tx:
            await close_round(tx, work, unsettled, listed, barred)
        if began and not is_there:
            reason = unsettled.get(first["id"]) or first["reason"]
            raise Permanent(f"The first page cannot be taken: {reason}")

    async def _listed(self, ctx: Context, work: CrawlWork) -> tuple[list[str], list[str]]:
        """The pages of sitemaps that may be asked for, and those that may not."""
        if not self._chosen.sitemaps or work.depth == 0 or work.max_pages == 1:
            return [], []
        ctx.enter("sitemaps")
        origin = origin_of(work.url)
        rules = await self._politeness.rules(ctx, origin)
        urls = await self._sitemaps.pages(ctx, origin, rules, work.site, 2 * work.max_pages)
        return await asyncio.to_thread(parted, urls, origin, rules)

    async def _end(self, ctx: Context, work: CrawlWork) -> dict[str, int]:
        ctx.enter("end")
        counts = await progress_of(self._app.database.pool, work.id)
        if not counts["kept"]:
            first = await first_page(self._app.database.pool, work.id)
            raise Permanent(f"Nothing of {work.url} was taken: {first['reason']}")
        result = {key: counts[key] for key in ("kept", "skipped", "failed")}
        async with ctx.finish(result) as tx:
            await end_crawl(tx, work.id)
        self._notifier.notify()
        return result
