"""A page's way in a crawl: robots → turn → fetch → links → keep.

Its bytes become a document of the collection, the page is settled and its links enter the frontier in one transaction with the
end of its job: after kill -9 at most the pages that were under way are asked for again. Nothing holds a connection while it
waits for its turn or for a server. A page that cannot be had is failed and its job is done: the crawl goes on, and there is no
dead letter for each broken link.
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
from penstock.blobs import Stored
from penstock.database import Session
from penstock.documents import Announcer, Intake, Upload
from penstock.documents.intake import Done
from penstock.documents.upload import count_accepted
from penstock.documents.wish import Moved, make_wish
from penstock.engine import Context, Penstock
from penstock.errors import FetchFailed, FetchRefused, NotFound, RateLimited, ResourceLimit, Unreadable
from penstock.extraction import Boxes
from penstock.fetch import Fetcher
from penstock.knowledge.canonical import NoPage, canonical, host_of, origin_of
from penstock.knowledge.frontier import Found, PageWork, Work, load_crawl, load_page, settle_with, settle_without
from penstock.knowledge.hosts import Hosts
from penstock.knowledge.links import Leaf, Site, read_leaf
from penstock.knowledge.pagename import page_name
from penstock.knowledge.robots import Rules, parted
from penstock.settings.values import format_duration

WEB_PAGES = ("text/html", "application/xhtml+xml")
VAGUE = ("", "application/octet-stream", "binary/octet-stream", "application/download")  # the name may know better

READERS_WITHIN = 45.0  # seconds that a page waits for a reader process
COME_AGAIN = 15.0  # seconds

settled = telemetry.counter(
    "penstock_crawl_pages_total", "Pages of crawls that this process has settled: kept, skipped, failed", ("state",)
)


class Skipped(Exception):
    """A page that is not taken, for a reason that is nobody's fault."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page whose bytes are in the store."""

    url: str  # after redirects
    media_type: str
    tags: str  # X-Robots-Tag
    stored: Stored


class Scraping:
    """The handler of pages, with what it needs."""

    def __init__(  # noqa: PLR0917  what it works with
        self, app: Penstock, fetcher: Fetcher, boxes: Boxes, hosts: Hosts, intake: Intake, announcer: Announcer
    ) -> None:
        self._app = app
        self._fetcher = fetcher
        self._boxes = boxes
        self._hosts = hosts
        self._intake = intake
        self._store = intake.store
        self._announcer = announcer
        self._chosen = app.settings.crawl
        self._ends: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def _end_of(self, crawl: int) -> asyncio.Lock:
        """Pages of one crawl are settled one after the other: who waits for that in here needs no connection for it."""
        return self._ends.setdefault(crawl, asyncio.Lock())

    async def scrape(self, ctx: Context, crawl: int, page: int) -> None:
        """Take one page."""
        pool = self._app.database.pool
        work, wanted = await load_crawl(pool, crawl), await load_page(pool, crawl, page)
        if work is None or wanted is None or work.state != "running" or wanted.state != "waiting":
            return
        if work.gone:
            await self._leave(ctx, work, wanted, "failed", f"The collection {work.collection} was deleted.")
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
                await self._hosts.hold_off(ctx, origin_of(wanted.url), failed.retry_after)
            if ctx.job.failures < ctx.kind.retries:
                raise
            await self._leave(ctx, work, wanted, "failed", f"{failed} It was tried {ctx.job.failures + 1} times.")
        else:
            await self._keep(ctx, work, wanted, fetched.stored, found)

    async def _leave(self, ctx: Context, work: Work, page: PageWork, state: str, reason: str) -> None:
        ctx.enter("leave")
        async with self._end_of(work.id), ctx.finish() as tx:
            await settle_without(tx, work, page, state, reason)
        settled.labels(state).inc()
        self._announcer.tell()

    # -- asking ---------------------------------------------------------------------------------------------------------

    async def _fetch(self, ctx: Context, work: Work, page: PageWork) -> tuple[Fetched, Rules]:
        """Ask for the page when it is its turn, if it may be asked for."""
        origin = origin_of(page.url)
        ctx.enter("robots")
        rules = await self._hosts.rules(ctx, origin)
        if not rules.allows(page.url):
            raise Skipped("robots.txt does not allow it.")
        ctx.enter("turn")
        await self._hosts.take_turn(ctx, origin, rules)
        ctx.enter("fetch")
        try:
            async with asyncio.timeout(self._chosen.page_timeout.total_seconds()):
                fetched = await self._download(page.url, work.site, origin, rules)
        except TimeoutError:
            within = format_duration(self._chosen.page_timeout)
            raise FetchFailed(f"{page.url} was not there after {within} (crawl.page_timeout).") from None
        there = origin_of(fetched.url)
        if there != origin:
            rules = await self._hosts.rules(ctx, there)
            if not rules.allows(fetched.url):
                await self._store.remove(fetched.stored.key)
                raise Skipped("It redirects to what robots.txt does not allow.")
        return fetched, rules

    async def _download(self, url: str, site: Site, origin: str, rules: Rules) -> Fetched:
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
            return Fetched(canonical(response.url), media_type, response.header("X-Robots-Tag"), stored)

    # -- reading --------------------------------------------------------------------------------------------------------

    async def _read(self, ctx: Context, work: Work, page: PageWork, fetched: Fetched, rules: Rules) -> Found:
        """What the page says of itself and where it leads, read in a box."""
        ctx.enter("links")
        said: Any = {}
        if fetched.media_type in WEB_PAGES:
            said = await self._ask_box(fetched, most=self._chosen.links if page.depth < work.depth else 0)

        def read() -> tuple[Leaf, list[str], list[str]]:
            leaf = read_leaf(said, fetched.url, work.site, fetched.tags, token=self._chosen.token)
            return leaf, *parted(leaf.links, origin_of(fetched.url), rules)

        leaf, links, barred = await asyncio.to_thread(read)
        return Found(
            fetched.url, fetched.stored.digest, leaf.title, leaf.canonical, leaf.noindex, links, barred, leaf.note
        )

    async def _ask_box(self, fetched: Fetched, *, most: int) -> Any:
        """A page whose links nobody can read is a document all the same; when the readers are busy, it comes again later."""
        arguments = {
            "limits": self._app.settings.limits.model_dump(),
            "most": most,
            "token": self._chosen.token,
        }
        try:
            async with asyncio.timeout(READERS_WITHIN), self._store.open(fetched.stored.key) as file:
                return await self._boxes.call("links", file, arguments, name=fetched.url)
        except TimeoutError:
            await self._store.remove(fetched.stored.key)
            raise RateLimited("All reader processes are busy with documents.", retry_after=COME_AGAIN) from None
        except (Unreadable, ResourceLimit) as error:
            return {"note": f"Its links could not be read: {error}"}

    # -- keeping --------------------------------------------------------------------------------------------------------

    async def _keep(self, ctx: Context, work: Work, page: PageWork, stored: Stored, found: Found) -> None:
        """The document, the page and its links, with the end of the job; again while the document changes under our hands."""
        ctx.enter("keep")
        made: list[Done] = []

        async def keep(tx: Session, address: str) -> int:
            made.append(await self._intake.write(tx, self._wish(work, address, found.title), stored))
            return made[-1].accepted.id

        while True:
            made.clear()
            try:
                async with self._end_of(work.id), ctx.finish() as tx:
                    state = await settle_with(tx, work, page, found, partial(keep, tx))
            except (Moved, asyncpg.DeadlockDetectedError):
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
        self._announcer.tell()

    def _wish(self, work: Work, address: str, title: str) -> Any:
        upload = Upload(
            collection=work.collection,
            name=page_name(address),
            content=_nothing(),
            uploaded_by=work.begun_by or f"crawl {work.id}",
            metadata={"url": address, "crawl": work.id} | ({"title": title} if title else {}),
            replace=True,
        )
        return make_wish(upload, work.tenant, work.collection_id, served=True)


def judge_hop(site: Site, origin: str, rules: Rules, url: str) -> None:
    """Where a redirect may lead: within the site, and where robots.txt lets us."""
    try:
        address = canonical(url)
    except NoPage as error:
        raise Skipped(f"It redirects to what is no page: {error}") from None
    if not site.has(address):
        raise Skipped(
            f"It redirects to another site, {host_of(address)}: begin a crawl there, or name it with --hosts."
        )
    if origin_of(address) == origin and not rules.allows(address):
        raise Skipped("It redirects to what robots.txt does not allow.")


async def _nothing() -> AsyncIterator[bytes]:
    yield b""
