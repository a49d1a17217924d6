"""Crawls: a site that is taken into a collection, from a first page on, by links and sitemaps. Begin, list, show, stop.

A crawl and its job are born together. It follows its job when that dies, is cancelled or gets another chance
(schema/0010_knowledge.sql). How pages are taken is in frontier.py and pipelines/crawl.py; the SQL is in crawl.sql.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any

from asyncpg import Record

from penstock.database import Database, statements
from penstock.documents import Collection
from penstock.documents.naming import share_of
from penstock.engine import Penstock
from penstock.errors import BadValue, NotFound, WrongState
from penstock.knowledge.canonical import canonical, host_of, relatives_of
from penstock.knowledge.hosts import sql as hosts_sql

sql = statements(__file__)

CRAWL, SCRAPE = "crawl", "scrape"  # the kinds of jobs
STATES = ("running", "done", "failed", "stopped")
PAGE_STATES = ("waiting", "kept", "skipped", "failed")
DEEPEST = 100
MOST_HOSTS = 50
SWEPT = 2  # crawls of one bite


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl, and how far it is."""

    id: int
    tenant: str
    collection_id: int
    collection: str
    url: str
    hosts: list[str]
    depth: int
    max_pages: int
    job_id: int
    begun_by: str
    state: str
    error: dict[str, Any] | None
    created_at: datetime
    ended_at: datetime | None
    waiting: int = 0
    kept: int = 0
    skipped: int = 0
    failed: int = 0
    left_out: int = 0  # links for which there was no room in max_pages
    unprepared: int = 0  # documents of it that are not searchable yet

    @property
    def is_over(self) -> bool:
        return self.state != "running"

    @property
    def known(self) -> int:
        return self.waiting + self.kept + self.skipped + self.failed

    @property
    def reason(self) -> str:
        return str((self.error or {}).get("message", ""))

    def answer(self) -> dict[str, Any]:
        ended = self.ended_at.isoformat() if self.ended_at else None
        return asdict(self) | {"created_at": self.created_at.isoformat(), "ended_at": ended}


@dataclass(frozen=True, slots=True)
class CrawlPage:
    """A page of a crawl, and what became of it."""

    id: int
    url: str
    depth: int
    state: str
    reason: str
    document: int | None
    left_out: int
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Begun:
    """A crawl that was begun, or that was under way already."""

    id: int
    created: bool


async def begin_crawl(
    app: Penstock,
    url: str,
    collection: Collection,
    *,
    depth: int | None = None,
    max_pages: int | None = None,
    hosts: Sequence[str] = (),
    by: str = "",
) -> Begun:
    """Begin a crawl. The same one again, while it runs, is that one."""
    chosen = app.settings.crawl
    depth = chosen.depth if depth is None else depth
    max_pages = min(chosen.pages, chosen.most_pages) if max_pages is None else max_pages
    _check_bounds(depth, max_pages, chosen.most_pages)
    first = canonical(url)
    wanted = {"tenant": collection.tenant, "collection": collection.id, "url": first}
    async with app.transaction() as tx:
        await sql.lock_start.run(tx, key=f"{collection.tenant} {collection.id} {first}")
        running = await sql.find_running.value(tx, **wanted)
        if running is not None:
            return Begun(running, created=False)
        number = await sql.reserve_number.value(tx)
        share = share_of(collection.tenant, collection.name)
        job = await app.enqueue(app.kinds[CRAWL](crawl=number), share=share, tx=tx)
        await sql.insert_crawl.run(
            tx,
            **wanted,
            crawl=number,
            hosts=_site(first, hosts),
            depth=depth,
            max_pages=max_pages,
            job=job,
            begun_by=by.replace("\0", "")[:200],
        )
    return Begun(number, created=True)


def _check_bounds(depth: int, max_pages: int, most: int) -> None:
    if not 0 <= depth <= DEEPEST:
        raise BadValue(f"A depth of {depth} is out of range: use 0 (only the first page) to {DEEPEST}.")
    if not 1 <= max_pages <= most:
        raise BadValue(f"{max_pages:,} pages are out of range: use 1 to {most:,} (crawl.most_pages).")


def _site(first: str, hosts: Sequence[str]) -> list[str]:
    """The hosts of a crawl, each with and without www."""
    if len(hosts) > MOST_HOSTS:
        raise BadValue(f"A crawl has at most {MOST_HOSTS} hosts: begin several.")
    named = [host_of(canonical(host if "://" in host else f"https://{host}/")) for host in hosts]
    return list(dict.fromkeys(each for host in (host_of(first), *named) for each in relatives_of(host)))


async def show_crawl(app: Penstock, crawl: int, *, tenant: str = "default") -> Crawl:
    row = await app.database.pool.repeat(partial(sql.show_crawl.first, crawl=crawl, tenant=tenant))
    if row is None:
        raise NotFound(f"There is no crawl {crawl}.")
    return _read(row)


async def list_crawls(
    app: Penstock,
    *,
    collection: int | None = None,
    state: str | None = None,
    seen: Sequence[int] | None = None,
    after: int = 0,
    most: int = 100,
    tenant: str = "default",
) -> list[Crawl]:
    """By number; `seen` are the collections that whoever asks may see, if not all."""
    rows = await app.database.pool.repeat(
        partial(
            sql.list_crawls,
            collection=collection,
            state=state,
            seen=None if seen is None else list(seen),
            after=after,
            most=most,
            tenant=tenant,
        )
    )
    return [_read(row) for row in rows]


async def list_crawl_pages(
    app: Penstock, crawl: int, *, state: str | None = None, after: int = 0, most: int = 100, tenant: str = "default"
) -> list[CrawlPage]:
    """By number, which is the order in which they were found."""
    rows = await app.database.pool.repeat(
        partial(sql.list_pages, crawl=crawl, state=state, after=after, most=most, tenant=tenant)
    )
    return [CrawlPage(**row) for row in rows]


async def stop_crawl(app: Penstock, crawl: int, *, tenant: str = "default") -> Crawl:
    """End a crawl; what it has taken stays. Pages that are being fetched end with the next beat of their workers."""
    found = await show_crawl(app, crawl, tenant=tenant)
    if found.state != "running" or not await app.cancel(found.job_id, reason="stopped by hand"):
        raise WrongState(f"Crawl {crawl} is {found.state}: there is nothing to stop.")
    return await show_crawl(app, crawl, tenant=tenant)


async def sweep_crawls(database: Database) -> int:
    """Forget crawls that have been over for long, and hosts that nobody asks any more; how many crawls. The documents stay."""
    kept = database.settings.crawl.kept
    gone = await database.pool.repeat(partial(sql.sweep_crawls, kept=kept, most=SWEPT))
    await database.pool.repeat(partial(hosts_sql.sweep_hosts.run, older=kept, most=1_000))
    return len(gone)


def _read(row: Record) -> Crawl:
    facts = dict(row)
    facts["error"] = json.loads(facts["error"]) if facts["error"] else None
    return Crawl(**facts)
