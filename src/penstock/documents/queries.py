"""Queries of documents: one, many, their text, pages, chunks, versions and events. Nothing here changes anything.

`status` is derived from the document and its job in one place (fragments.sql), so that a list, a page and a count agree. Lists
are keyset-paginated: the caller passes the last id that it has seen.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from asyncpg import Record

from penstock.database import Database, Session, Statement, statements
from penstock.documents.document import (
    STATES,
    ChunkText,
    Document,
    DocumentFilter,
    DocumentOrder,
    DocumentPage,
    Event,
    MatchingDocuments,
    PageText,
    TimelineEntry,
    Version,
    VersionBlob,
)
from penstock.documents.names import no_such_collection
from penstock.engine import Penstock
from penstock.engine.inspect import MOST_COUNTED
from penstock.errors import BadRequest, BadValue, NotFound
from penstock.text import storable

sql = statements(__file__)

LARGEST = 2**63 - 1  # of ids: a bigint
NUMBER_MAX = 2**31 - 1  # of versions, pages and chunks: an int
PIECE = 1_000_000  # characters of a text that are fetched at once
WINDOWS = (500, 5_000)  # documents that one query filters: few, and if that was not enough, many
SELECTED = 5_000  # documents that are counted and sorted for a filter
TIMELINE_MAX = 1000


async def show_document(app: Penstock, document: int, *, tenant: str = "default") -> Document:
    return await app.database.pool.repeat(load_document, document=document, tenant=tenant)


async def load_document(session: Session, document: int, *, tenant: str = "default") -> Document:
    """As `show_document`, for callers that have a connection."""
    rows = await sql.show_documents(session, ids=[document], tenant=tenant) if 0 < document <= LARGEST else []
    if not rows:
        raise NotFound(f"Document {document} does not exist.")
    return read_document(rows[0])


async def show_documents(app: Penstock, documents: Sequence[int], *, tenant: str = "default") -> list[Document]:
    """Those of these documents that exist, by id."""
    ids = [number for number in documents if 0 < number <= LARGEST]
    rows = await app.database.pool.repeat(sql.show_documents, ids=ids, tenant=tenant)
    return [read_document(row) for row in rows]


async def list_documents(
    app: Penstock,
    *,
    collection: str | None = None,
    status: str | None = None,
    parent: int | None = None,
    after: int = 0,
    most: int = 100,
    tenant: str = "default",
) -> list[Document]:
    """List documents by id; deleted ones only if `status` asks for them."""
    if status is not None and status not in STATES:
        raise BadValue(f"{status!r} is not a status: use one of {', '.join(STATES)}.")
    if not 0 <= after <= LARGEST or not 0 <= (parent or 0) <= LARGEST:
        return []
    number = None if collection is None else await _collection_id(app, collection, tenant)
    common: dict[str, Any] = {"tenant": tenant, "after": after, "most": most}
    if parent is not None:
        statement = partial(sql.list_members, parent=parent, collection=number, status=status, **common)
    elif status in {"queued", "processing", "failed"} or (status is not None and number is None):
        state = "queued" if status == "processing" else status
        statement = partial(sql.list_in_state, collection=number, state=state, status=status, **common)
    elif number is not None:
        statement = partial(sql.list_in_collection, collection=number, status=status, **common)
    else:
        statement = partial(sql.list_documents, **common)
    return [read_document(row) for row in await app.database.pool.repeat(statement)]


async def list_partly_readable(
    app: Penstock, *, collection: str | None = None, after: int = 0, most: int = 100, tenant: str = "default"
) -> list[Document]:
    """Documents with skipped pages, by id."""
    if not 0 <= after <= LARGEST:
        return []
    number = None if collection is None else await _collection_id(app, collection, tenant)
    statement = partial(sql.list_partial, tenant=tenant, collection=number, after=after, most=most)
    return [read_document(row) for row in await app.database.pool.repeat(statement)]


async def find_document(app: Penstock, reference: str, *, tenant: str = "default") -> Document:
    """By id, by `collection/name`, or by a name that only one collection has."""
    found = await _find(app, sql.find_documents, reference, tenant)
    if len(found) > 1:
        where = ", ".join(f"{each.collection}/{each.name}" for each in found)
        raise BadRequest(f"Document {reference} is ambiguous: use one of {where}.")
    if not found:
        raise NotFound(f"Document {reference} does not exist. `penstock documents list` shows all.")
    return found[0]


async def find_deleted_document(app: Penstock, reference: str, *, tenant: str = "default") -> Document:
    """By id, or the one of this name that was deleted last."""
    found = await _find(app, sql.find_deleted_documents, reference, tenant)
    if not found:
        advice = "`penstock documents list --status deleted` shows all."
        raise NotFound(f"Deleted document {reference} does not exist. {advice}")
    return found[0]


async def _find(app: Penstock, statement: Statement, reference: str, tenant: str) -> list[Document]:
    """By id, or by a statement that tries both readings of a name: names may have slashes themselves."""
    if reference.isascii() and reference.isdecimal():
        return await show_documents(app, [int(reference)], tenant=tenant)
    collection, _, rest = reference.partition("/")
    rows = await app.database.pool.repeat(
        lambda session: statement(
            session, tenant=tenant, whole=storable(reference), collection=storable(collection), rest=storable(rest)
        )
    )
    return [read_document(row) for row in rows]


async def count_documents(
    app: Penstock,
    collection: str | None = None,
    *,
    among: Sequence[int] | None = None,
    most: int = MOST_COUNTED,
    tenant: str = "default",
) -> dict[str, int]:
    """Documents by state, of one collection, of those `among` these ids, or of all; unready ones are counted to a bound."""
    ids = among if collection is None else [await _collection_id(app, collection, tenant)]
    row = await app.database.pool.repeat(sql.count_documents.first, tenant=tenant, collections=ids, most=most)
    return {state: (row[state] if row is not None else 0) for state in STATES}


async def read_text(app: Penstock, document: int, *, tenant: str = "default") -> AsyncIterator[str]:
    """The text of the version that search sees, in pieces; an empty line between pages."""
    version = await _live_version(app, document, tenant)
    page, start = 0, 0
    while True:
        row = await app.database.pool.repeat(sql.read_text.first, version=version, page=page, start=start, piece=PIECE)
        if row is None:
            return
        if row["number"] != page and page:
            yield "\n\n"
        if row["text"]:
            yield row["text"]
        page, start = row["number"], row["stop"]


async def list_pages(
    app: Penstock, document: int, *, after: int = 0, most: int = 100, tenant: str = "default"
) -> list[PageText]:
    version = await _live_version(app, document, tenant)
    rows = await app.database.pool.repeat(sql.list_pages, version=version, after=_bounded(after), most=most)
    return [PageText(**row) for row in rows]


async def list_chunks(
    app: Penstock, document: int, *, after: int = -1, most: int = 100, tenant: str = "default"
) -> list[ChunkText]:
    version = await _live_version(app, document, tenant)
    rows = await app.database.pool.repeat(sql.list_chunks, version=version, after=_bounded(after), most=most)
    return [ChunkText(**row) for row in rows]


async def list_events(
    app: Penstock, document: int, *, after: int = 0, most: int = 1000, tenant: str = "default"
) -> list[Event]:
    """The events of a document, oldest first."""
    await show_document(app, document, tenant=tenant)
    rows = await app.database.pool.repeat(sql.list_events, document=document, after=after, most=most)
    return [Event(row["id"], row["at"], row["event"], json.loads(row["details"])) for row in rows]


async def tenant_of(database: Database, document: int) -> str | None:
    """The tenant of a document, which authorises a signed link to it."""
    found: str | None = await database.pool.repeat(sql.tenant_of.value, document=document)
    return found


async def _live_version(app: Penstock, document: int, tenant: str) -> int:
    found = await show_document(app, document, tenant=tenant)
    if found.live_id is None:
        raise NotFound(f"Document {document} ({found.name}) is {found.status}: it has no text that could be shown.")
    return found.live_id


async def _collection_id(app: Penstock, name: str, tenant: str) -> int:
    number: int | None = await app.database.pool.repeat(sql.collection_id.value, tenant=tenant, name=storable(name))
    if number is None:
        raise no_such_collection(name)
    return number


def _bounded(number: int) -> int:
    return max(-1, min(number, NUMBER_MAX))


def read_document(row: Record) -> Document:
    """Read a row of the fragment `facts` (fragments.sql)."""
    fields = dict(row)
    progress = json.loads(fields["progress"]) if fields["progress"] else None
    processing = fields["status"] == "processing"
    for name in ("metadata", "gaps", "facts"):
        fields[name] = json.loads(fields[name])
    fields["error"] = json.loads(fields["error"]) if fields["error"] else None
    fields["step"] = progress.pop("step", None) if processing and progress else None
    fields["progress"] = progress or None if processing else None
    return Document(**fields)


# -- newest first, by name, type and date ------------------------------------------------------------------------------


async def browse(
    app: Penstock, wanted: DocumentFilter, *, before: int = LARGEST, most: int = 50, tenant: str = "default"
) -> DocumentPage:
    """The newest documents before an id."""
    if wanted.status is not None and wanted.status not in STATES:
        raise BadValue(f"{wanted.status!r} is not a status: use one of {', '.join(STATES)}.")
    where = {"tenant": tenant, "collections": None if wanted.collections is None else list(wanted.collections)}
    if wanted.is_plain and wanted.status in {None, "queued", "processing", "failed"}:
        return await _by_index(app, wanted, {**where, "before": before, "most": most + 1}, most)
    if wanted.until is not None:
        before = min(before, await _id_at(app, wanted.until, where))
    return await _look_through(app, wanted, {**where, "before": before, "most": most + 1}, most)


async def _by_index(app: Penstock, wanted: DocumentFilter, where: dict[str, Any], most: int) -> DocumentPage:
    if wanted.status is None:
        statement = partial(sql.newest, **where)
    elif wanted.status == "failed":
        statement = partial(sql.newest_failed, **where)
    else:
        statement = partial(sql.newest_queued, status=wanted.status, **where)
    found = [read_document(row) for row in await app.database.pool.repeat(statement)]
    return DocumentPage(found[:most], found[most - 1].id if len(found) > most else None)


async def _look_through(app: Penstock, wanted: DocumentFilter, where: dict[str, Any], most: int) -> DocumentPage:
    page = DocumentPage([], None)
    for window in WINDOWS:
        page = await _look_at(app, wanted, where, most, window)
        if page.looked_through is None:  # it is full, or there are no more
            break
    return page


async def _look_at(
    app: Penstock, wanted: DocumentFilter, where: dict[str, Any], most: int, window: int
) -> DocumentPage:
    row = await _match(app, wanted, where, window)
    found = await show_documents(app, row["ids"][:most], tenant=where["tenant"])
    if wanted.status in {"queued", "processing"}:  # which of the two, its job knows
        found = [each for each in found if each.status == wanted.status]
    found.sort(key=lambda each: -each.id)
    if len(row["ids"]) > most:
        return DocumentPage(found, row["ids"][most - 1])
    too_old = wanted.since is not None and row["oldest"] is not None and row["oldest"] < wanted.since
    if not row["last"] or too_old:
        return DocumentPage(found, None)
    return DocumentPage(found, row["last"], looked_through=row["looked"])


async def _match(app: Penstock, wanted: DocumentFilter, where: dict[str, Any], window: int) -> Record:
    row = await app.database.pool.repeat(
        sql.look_through.first,
        state="queued" if wanted.status == "processing" else wanted.status,
        name=wanted.name,
        media_type=wanted.media_type,
        since=wanted.since,
        until=wanted.until,
        window=window,
        **where,
    )
    assert row is not None  # noqa: S101  a count always has a row
    return row


async def select_matching(
    app: Penstock,
    wanted: DocumentFilter,
    *,
    order: DocumentOrder = "newest",
    up_to: int = LARGEST,
    offset: int = 0,
    most: int = 50,
    tenant: str = "default",
) -> MatchingDocuments:
    """A page of the documents that match, up to an id, in any order, and how many match in all.

    It knows only the newest documents (SELECTED): a sort by size has no index.
    """
    collections = None if wanted.collections is None else list(wanted.collections)
    where: dict[str, Any] = {"tenant": tenant, "collections": collections}
    before, looked_through = min(up_to, LARGEST - 1) + 1, None
    if wanted.is_plain and wanted.status in {"queued", "processing", "failed"}:
        state = "failed" if wanted.status == "failed" else "queued"
        statement = partial(sql.newest_in_state, state=state, before=before, most=SELECTED, **where)
        ids = [row["id"] for row in await app.database.pool.repeat(statement)]
        looked_through = SELECTED if len(ids) == SELECTED else None
    else:
        if wanted.until is not None:
            before = min(before, await _id_at(app, wanted.until, where))
        row = await _match(app, wanted, {**where, "before": before, "most": SELECTED}, SELECTED)
        ids, looked_through = row["ids"], row["looked"] if row["last"] or len(row["ids"]) == SELECTED else None
    exactly = wanted.status if wanted.status in {"queued", "processing"} else None
    rows = await app.database.pool.repeat(
        partial(sql.sort_matching, ids=ids, tenant=tenant, status=exactly, order=order, offset=offset, most=most)
    )
    total = rows[0]["total"] if rows else len(ids) if exactly is None else 0
    return MatchingDocuments([row["id"] for row in rows], total, looked_through)


async def _id_at(app: Penstock, time: datetime, where: dict[str, Any]) -> int:
    """The smallest id of a document that came at this time or later, by bisection: ids grow with time."""

    async def search(session: Session) -> int:
        low, high = 0, int(await sql.largest.value(session, **where)) + 1
        while low < high:
            middle = (low + high) // 2
            row = await sql.at_number.first(session, number=middle, **where)
            if row is None or row["created_at"] >= time:
                high = middle
            else:
                low = row["id"] + 1
        return high

    return await app.database.pool.repeat(search)


# -- versions ----------------------------------------------------------------------------------------------------------


async def list_versions(
    app: Penstock, document: int, *, after: int = 0, most: int = 100, tenant: str = "default"
) -> list[Version]:
    """All versions of a document, oldest first."""
    await show_document(app, document, tenant=tenant)
    if not 0 <= after <= NUMBER_MAX:
        return []
    rows = await app.database.pool.repeat(sql.list_versions, document=document, tenant=tenant, after=after, most=most)
    return [Version(**row) for row in rows]


async def blob_of(app: Penstock, document: int, version: int | None = None, *, tenant: str = "default") -> VersionBlob:
    """The bytes of one version, or of the newest one, whether or not it could be prepared."""
    if not 0 < document <= LARGEST:
        raise NotFound(f"Document {document} does not exist.")
    wanted = version if version is None or 0 < version <= NUMBER_MAX else 0  # 0 matches none
    row = await app.database.pool.repeat(
        lambda session: sql.blob_of.first(session, document=document, version=wanted, tenant=tenant)
    )
    if row is None:
        raise NotFound(f"Document {document} does not exist.")
    said = f"Document {document} ({row['name']})"
    if row["state"] == "deleted":
        raise NotFound(f"{said} is deleted.")
    if row["number"] is None:
        there = "only version 1" if row["newest"] == 1 else f"versions 1 to {row['newest']}"
        raise NotFound(f"{said} has no version {version} to download: it has {there}.")
    return VersionBlob(row["name"], row["number"], row["key"], row["digest"], row["size"], row["media_type"])


# -- timeline ----------------------------------------------------------------------------------------------------------


async def show_timeline(app: Penstock, document: int, *, tenant: str = "default") -> list[TimelineEntry]:
    """The events of a document and the attempts of its jobs in one order, oldest first."""
    events = await list_events(app, document, most=TIMELINE_MAX, tenant=tenant)
    attempts = await app.database.pool.repeat(sql.attempts, document=document, most=TIMELINE_MAX)
    return _in_order([*((each.at, each.event, each.details) for each in events), *map(_of_attempt, attempts)])


def _of_attempt(row: Record) -> tuple[datetime, str, Mapping[str, Any]]:
    keys = ("job", "number", "worker", "outcome", "seconds", "error")
    return row["started_at"], "attempt", {key: row[key] for key in keys if row[key] is not None}


def _in_order(events: Sequence[tuple[datetime, str, Mapping[str, Any]]]) -> list[TimelineEntry]:
    entries: list[TimelineEntry] = []
    for at, event, details in sorted(events, key=lambda each: each[0]):  # stable: equal times keep their order
        entries.append(TimelineEntry(at, event, details, at - entries[-1].at if entries else None))
    return entries
