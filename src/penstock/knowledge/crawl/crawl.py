"""Crawls: web sites whose pages are added to a collection, from a first page on, by links and sitemaps.

A crawl and its job are inserted together. A trigger lets the crawl follow its job when that dies, is cancelled or is retried
(database/schema/0010_knowledge.sql). Pages are added by frontier.py and pipelines/crawl.py.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from asyncpg import Record
from pydantic import Field

from penstock.database import Database, statements
from penstock.documents import LARGEST, WORKER, Collection, fairness_key_of
from penstock.engine import Penstock
from penstock.engine.inspect import Explanation, advise, explain_job, joined
from penstock.errors import BadValue, NotFound, WrongState
from penstock.knowledge.crawl.politeness import find_next_turn, sweep_hosts
from penstock.knowledge.crawl.urls import canonical, host_of, origin_of, relatives_of
from penstock.text import counted, span, storable

sql = statements(__file__)

CRAWL, SCRAPE = "crawl", "scrape"  # the kinds of jobs
CrawlState = Literal["running", "done", "failed", "stopped"]
PageState = Literal["waiting", "kept", "skipped", "failed"]
STATES: tuple[str, ...] = get_args(CrawlState)
DEEPEST = 100
MOST_HOSTS = 50
SWEPT = 2  # old crawls that are removed at once
SHOWN = 3  # failed pages, in an explanation


@dataclass(frozen=True, slots=True)
class Crawl:
    """A crawl and its progress."""

    id: int
    tenant: Annotated[str, Field(exclude=True)]
    collection_id: Annotated[int, Field(exclude=True)]
    collection: str
    url: str
    hosts: list[str]
    depth: int
    max_pages: int
    job_id: Annotated[int, Field(exclude=True)]
    begun_by: str
    state: CrawlState
    error: Annotated[dict[str, Any] | None, Field(description="Why it failed, or was stopped.")]
    created_at: datetime
    ended_at: datetime | None
    waiting: Annotated[int, Field(description="Pages that are known and not fetched yet.")]
    kept: Annotated[int, Field(description="Pages that became documents.")]
    skipped: Annotated[int, Field(description="Pages that are left out for a reason that is not an error.")]
    failed: Annotated[int, Field(description="Pages that could not be fetched.")]
    left_out: Annotated[int, Field(description="Links beyond max_pages.")]
    unprepared: Annotated[int, Field(description="Documents of it that are not searchable yet.")]

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
    """A page of a crawl, and its outcome."""

    id: int
    url: str
    depth: int
    state: PageState
    reason: str
    document: int | None
    left_out: int
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class CrawlStart:
    """A crawl that was started, or that was running already."""

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
) -> CrawlStart:
    """Start a crawl, or return the one of the same URL and collection that is running."""
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
            return CrawlStart(running, created=False)
        crawl_id = await sql.reserve_id.value(tx)
        fairness_key = fairness_key_of(collection.tenant, collection.name)
        job = await app.enqueue(app.kinds[CRAWL](crawl=crawl_id), fairness_key=fairness_key, tx=tx)
        await sql.insert_crawl.run(
            tx,
            **wanted,
            crawl=crawl_id,
            hosts=_site(first, hosts),
            depth=depth,
            max_pages=max_pages,
            job=job,
            begun_by=storable(by, "")[:200],
        )
    return CrawlStart(crawl_id, created=True)


def _check_bounds(depth: int, max_pages: int, most: int) -> None:
    if not 0 <= depth <= DEEPEST:
        raise BadValue(f"The depth {depth} is out of range: use 0 (only the first page) to {DEEPEST}.")
    if not 1 <= max_pages <= most:
        raise BadValue(f"{max_pages:,} pages are out of range: use 1 to {most:,} (crawl.most_pages).")


def _site(first: str, hosts: Sequence[str]) -> list[str]:
    """The hosts of a crawl, each with and without www."""
    if len(hosts) > MOST_HOSTS:
        raise BadValue(f"A crawl has at most {MOST_HOSTS} hosts: start several.")
    named = [host_of(canonical(host if "://" in host else f"https://{host}/")) for host in hosts]
    return list(dict.fromkeys(each for host in (host_of(first), *named) for each in relatives_of(host)))


async def show_crawl(app: Penstock, crawl: int, *, tenant: str = "default") -> Crawl:
    row = await app.database.pool.repeat(sql.show_crawl.first, crawl=crawl, tenant=tenant)
    if row is None:
        raise NotFound(f"Crawl {crawl} does not exist. `penstock crawls list` shows all.")
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
    """By id; `seen` are the collections that the caller may see, if not all."""
    rows = await app.database.pool.repeat(
        sql.list_crawls,
        collection=collection,
        state=state,
        seen=None if seen is None else list(seen),
        after=after,
        most=most,
        tenant=tenant,
    )
    return [_read(row) for row in rows]


async def list_crawl_pages(
    app: Penstock, crawl: int, *, state: str | None = None, after: int = 0, most: int = 100, tenant: str = "default"
) -> list[CrawlPage]:
    """By id, which is the order in which they were found."""
    rows = await app.database.pool.repeat(
        sql.list_pages, crawl=crawl, state=state, after=after, most=most, tenant=tenant
    )
    return [CrawlPage(**row) for row in rows]


async def stop_crawl(app: Penstock, crawl: int, *, tenant: str = "default") -> Crawl:
    """End a crawl; its documents stay. Pages that are being fetched end with the next heartbeat of their workers."""
    found = await show_crawl(app, crawl, tenant=tenant)
    if found.state != "running" or not await app.cancel(found.job_id, reason="stopped by hand"):
        raise WrongState(f"Crawl {crawl} is {found.state}: only a running crawl can be stopped.")
    return await show_crawl(app, crawl, tenant=tenant)


async def sweep_crawls(database: Database) -> int:
    """Delete crawls that ended long ago, and hosts that are not in use any more; how many crawls. The documents stay."""
    kept = database.settings.crawl.kept
    gone = await database.pool.repeat(sql.sweep_crawls, kept=kept, most=SWEPT)
    await database.pool.repeat(sweep_hosts, older=kept)
    return len(gone)


def _read(row: Record) -> Crawl:
    facts = dict(row)
    facts["error"] = json.loads(facts["error"]) if facts["error"] else None
    return Crawl(**facts)


# -- explanation -------------------------------------------------------------------------------------------------------


async def explain_crawl(app: Penstock, crawl: int, *, tenant: str = "default") -> Explanation:
    """Explain the state of a crawl; NotFound if it does not exist."""
    if not 0 < crawl <= LARGEST:
        raise NotFound(f"Crawl {crawl} does not exist. `penstock crawls list` shows all.")
    found = await show_crawl(app, crawl, tenant=tenant)
    subject = f"Crawl {crawl} ({found.url})"
    failed = await list_crawl_pages(app, crawl, state="failed", most=SHOWN, tenant=tenant)
    evidence: dict[str, Any] = {
        "crawl": found.answer(),
        "failed": [f"{page.url}: {page.reason}" for page in failed],
    }
    if found.is_over:
        return Explanation(subject, *_explain_end(found), found.state, found.state, evidence)
    job = await app.database.pool.repeat(explain_job, found.job_id)
    evidence["job"] = job.answer()
    origin = origin_of(found.url)
    wait = await app.database.pool.repeat(find_next_turn, origin)
    turn = f"{origin} may be requested again in {span(wait)}." if wait is not None and wait.total_seconds() > 1 else ""
    predicate = joined(f"is running: {tell_counts(found)}.", turn, "Its job", job.predicate)
    advice = advise(job.because, job.evidence, WORKER)
    return Explanation(subject, predicate, advice, found.state, job.because, evidence, job.evidence_lines)


def _explain_end(crawl: Crawl) -> tuple[str, str]:
    """The predicate and the advice of a crawl that has ended."""
    if crawl.state == "done":
        full = ""
        if crawl.left_out:
            full = (
                f"{counted(crawl.left_out, 'link')} were beyond {crawl.max_pages:,} pages: raise --max-pages for more."
            )
        return f"is done: {tell_counts(crawl)}.", full
    reason = crawl.reason.rstrip(". ") or "no reason was recorded"
    if crawl.state == "stopped":
        again = "Start it again to continue: unchanged pages stay as they are."
        return f"was stopped ({reason}): {tell_counts(crawl)}.", again
    redrive = f"`penstock dead redrive {crawl.job_id} --force`"
    return f"has failed: {reason}.", f"Fix the cause, then {redrive}, or start it again."


def tell_counts(crawl: Crawl) -> str:
    """`12 pages kept, 3 skipped, 1 failed, 4 waiting`."""
    parts = [f"{counted(crawl.kept, 'page')} kept", f"{crawl.skipped:,} skipped", f"{crawl.failed:,} failed"]
    parts += [f"{crawl.waiting:,} waiting"] if crawl.waiting else []
    return ", ".join(parts)
