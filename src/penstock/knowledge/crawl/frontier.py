"""The frontier of a crawl: the known URLs, which of them are one page, and the outcome of each.

Everything durable about a crawl is written here, in fenced transactions, so that a crawl goes on after a crash. Pages of one
crawl are recorded one after the other, so that the limit of pages is exact and of two URLs of one page only one is kept.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from asyncpg import Record

from penstock.database import Pool, Session, statements
from penstock.knowledge.crawl.page import Site

sql = statements(__file__)

ROUND = 200  # pages that are fetched together
MOST_SKIPPED = 1_000  # addresses that are listed as skipped without being fetched
REASON_MAX = 1_000

Keep = Callable[[str], Awaitable[int]]  # makes the document of an address, in the same transaction; its id


@dataclass(frozen=True, slots=True)
class CrawlWork:
    """A crawl, as its jobs need it."""

    id: int
    tenant: str
    collection_id: int
    collection: str
    gone: bool  # the collection was deleted
    url: str
    site: Site
    depth: int
    max_pages: int
    state: str
    round: int
    round_open: bool
    begun_by: str


@dataclass(frozen=True, slots=True)
class PageWork:
    """A page to fetch."""

    id: int
    url: str
    depth: int
    state: str


@dataclass(frozen=True, slots=True)
class PageResult:
    """The result of fetching a page."""

    url: str  # where it was, after redirects
    digest: bytes  # of its bytes
    title: str = ""
    canonical: str = ""  # the address that it declares, if that is another one
    noindex: bool = False
    links: Sequence[str] = ()
    barred: Sequence[str] = ()  # links that robots.txt bars us from
    note: str = ""


async def load_crawl(pool: Pool, crawl: int) -> CrawlWork | None:
    row = await pool.repeat(sql.load_crawl.first, crawl=crawl)
    if row is None:
        return None
    facts = dict(row)
    return CrawlWork(site=Site(frozenset(facts.pop("hosts"))), **facts)


async def load_page(pool: Pool, crawl: int, page: int) -> PageWork | None:
    row = await pool.repeat(sql.load_page.first, crawl=crawl, page=page)
    return None if row is None else PageWork(**row)


async def pages_of_round(pool: Pool, work: CrawlWork) -> list[PageWork]:
    rows = await pool.repeat(sql.pages_of_round, crawl=work.id, round=work.round)
    return [PageWork(row["id"], "", row["depth"], "") for row in rows]


async def progress_of(pool: Pool, crawl: int) -> Record:
    [row] = await pool.repeat(sql.progress_of, crawl=crawl)
    return row


async def first_page(pool: Pool, crawl: int) -> Record:
    """The page with which a crawl began: its id, state, and the reason why it was skipped."""
    [row] = await pool.repeat(sql.first_page, crawl=crawl)
    return row


async def end_crawl(tx: Session, crawl: int) -> None:
    """running -> done."""
    await sql.end_crawl.value(tx, crawl=crawl)


async def open_round(tx: Session, crawl: int) -> bool:
    """Choose the pages of the next round; False when none waits."""
    return bool(await sql.open_round(tx, crawl=crawl, most=ROUND))


async def close_round(
    tx: Session, work: CrawlWork, unsettled: dict[int, str], listed: Sequence[str], barred: Sequence[str]
) -> None:
    """End the round: pages without an outcome have failed, and the pages of sitemaps are added."""
    await sql.lock_frontier.run(tx, crawl=work.id)
    reasons = [reason[:REASON_MAX] for reason in unsettled.values()]
    await sql.fail_unsettled.run(tx, crawl=work.id, pages=list(unsettled), reasons=reasons)
    await _add(tx, work, listed, barred, depth=1)
    await sql.close_round.run(tx, crawl=work.id, round=work.round)


async def settle_without(tx: Session, work: CrawlWork, page: PageWork, state: str, reason: str) -> None:
    """Record a page that is not kept: skipped, or failed."""
    await sql.lock_frontier.run(tx, crawl=work.id)
    if await sql.hold_page.value(tx, page=page.id, crawl=work.id) is not None:
        await _settle(tx, page, state, reason)


async def settle_with(tx: Session, work: CrawlWork, page: PageWork, found: PageResult, keep: Keep) -> str:
    """Record a fetched page: kept as a document, or skipped as another address of a page; then add its links. Its state."""
    await sql.lock_frontier.run(tx, crawl=work.id)
    if await sql.hold_page.value(tx, page=page.id, crawl=work.id) is None:
        return ""  # another address led to it concurrently, and has kept it
    left_out = await _add(tx, work, found.links, found.barred, depth=page.depth + 1) if page.depth < work.depth else 0
    reason = await _why_not(tx, work, page, found)
    if reason:
        return await _settle(tx, page, "skipped", reason, left_out=left_out)
    address = _address(page, found)
    document = await keep(address)
    if address == page.url:
        return await _settle(tx, page, "kept", found.note, document=document, left_out=left_out)
    await sql.take_address.value(
        tx, crawl=work.id, tenant=work.tenant, url=address, depth=page.depth, document=document
    )
    return await _settle(tx, page, "skipped", f"It redirects to {address}.", left_out=left_out)


def _address(page: PageWork, found: PageResult) -> str:
    """The address after redirects, unless the page there declares the address that was asked for."""
    return page.url if found.canonical == page.url else found.url


async def _why_not(tx: Session, work: CrawlWork, page: PageWork, found: PageResult) -> str:
    """The reason not to keep a fetched page: noindex, or it is another address of one that is, or will be, kept."""
    if found.noindex:
        return "It asks not to be indexed (noindex)."
    if await _is_another(tx, work, page, found):
        return f"Its canonical address is {found.canonical}, which is taken instead."
    if (address := _address(page, found)) != page.url:
        other = await sql.find_address.first(tx, crawl=work.id, url=address)
        if other is not None and other["state"] in {"kept", "skipped"}:
            return f"It redirects to {address}."
    twin = await sql.find_twin.value(tx, tenant=work.tenant, digest=found.digest, crawl=work.id)
    return f"It has the same content as {twin}." if twin is not None else ""


async def _is_another(tx: Session, work: CrawlWork, page: PageWork, found: PageResult) -> bool:
    """Whether the canonical address is, or will be, used instead of this one. If that could not be fetched, this one is."""
    if not found.canonical or found.canonical in {page.url, found.url}:
        return False
    other = await sql.find_address.first(tx, crawl=work.id, url=found.canonical)
    if other is not None:
        return other["state"] in {"waiting", "kept"}
    added = await sql.add_pages.first(
        tx, crawl=work.id, tenant=work.tenant, urls=[found.canonical], depth=page.depth, max_pages=work.max_pages
    )
    return bool(added is not None and added["added"])


async def _add(tx: Session, work: CrawlWork, urls: Sequence[str], barred: Sequence[str], *, depth: int) -> int:
    """Add addresses to the frontier; how many were beyond its limit."""
    if barred:
        await sql.note_skipped.run(
            tx,
            crawl=work.id,
            tenant=work.tenant,
            urls=list(barred),
            depth=depth,
            reason="robots.txt does not allow it.",
            most=MOST_SKIPPED,
        )
    if not urls:
        return 0
    row = await sql.add_pages.first(
        tx, crawl=work.id, tenant=work.tenant, urls=list(urls), depth=depth, max_pages=work.max_pages
    )
    return 0 if row is None else row["wanted"] - row["added"]


async def _settle(
    tx: Session, page: PageWork, state: str, reason: str, *, document: int | None = None, left_out: int = 0
) -> str:
    await sql.settle_page.run(
        tx, page=page.id, state=state, reason=reason[:REASON_MAX], document=document, left_out=left_out
    )
    return state
