"""Looking at documents: one, many, their text, their pages, their chunks, their story. Nothing here changes anything.

`status` is derived in one place (status.sql) from the document and its job, so that a list, a page and a count cannot differ.
All lists go by keyset: the caller passes the last number that it has seen. The SQL is in catalog.sql.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from asyncpg import Record

from penstock.database import Database, Session, statements
from penstock.engine import Penstock
from penstock.errors import BadRequest, BadValue, NotFound

sql = statements(__file__)

STATES = ("queued", "processing", "ready", "failed", "deleted")
LARGEST = 2**63 - 1
PIECE = 1_000_000  # characters of a text that are fetched at once


@dataclass(frozen=True, slots=True)
class Document:
    """Every fact about a document. Title, pages, chunks and gaps are those of the version that search sees."""

    id: int
    tenant: str
    collection: str
    collection_id: int
    name: str
    status: str
    version: int  # the number of the newest, from 1 on
    version_id: int
    live_version: int | None
    live_id: int | None
    job: int | None
    size: int
    digest: bytes
    key: str  # of its bytes in the blob store
    parent: int | None
    depth: int
    uploaded_by: str
    created_at: datetime
    accepted_at: datetime  # the newest version
    changed_at: datetime
    prepared_at: datetime | None
    deleted_at: datetime | None
    media_type: str | None
    title: str | None
    pages: int | None
    chunks: int | None
    words: int | None
    step: str | None  # while it is processed
    progress: Mapping[str, Any] | None
    attempt: int | None
    error: Mapping[str, Any] | None  # class, message, step
    metadata: Mapping[str, Any] = field(default_factory=dict)
    gaps: Sequence[Mapping[str, Any]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """It stays as it is until somebody does something."""
        return self.status in {"ready", "failed", "deleted"}

    def answer(self) -> dict[str, Any]:
        """For JSON; without what is nobody's business outside."""
        hidden = {"tenant", "key", "collection_id", "version_id", "live_id"}
        return {name: _plain(getattr(self, name)) for name in self.__slots__ if name not in hidden}


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as a person reads it."""

    number: int
    text: str
    ocr: float | None


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk as search has it."""

    number: int  # from 0 on
    page: int | None
    start: int
    stop: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a document."""

    id: int
    at: datetime
    event: str
    details: Mapping[str, Any]


async def show_document(app: Penstock, document: int, *, tenant: str = "default") -> Document:
    return await app.database.pool.repeat(partial(load_document, document=document, tenant=tenant))


async def load_document(session: Session, document: int, *, tenant: str = "default") -> Document:
    """As `show_document`, for who has a connection."""
    rows = await sql.show_documents(session, ids=[document], tenant=tenant) if 0 < document <= LARGEST else []
    if not rows:
        raise NotFound(f"There is no document {document}.")
    return read_document(rows[0])


async def show_documents(app: Penstock, documents: Sequence[int], *, tenant: str = "default") -> list[Document]:
    """Those of them that there are, by number: for who waits for many."""
    ids = [number for number in documents if 0 < number <= LARGEST]
    rows = await app.database.pool.repeat(lambda session: sql.show_documents(session, ids=ids, tenant=tenant))
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
    """By number. Deleted ones only when they are asked for."""
    if status is not None and status not in STATES:
        raise BadValue(f"There is no status {status!r}: use one of {', '.join(STATES)}.")
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


async def find_document(app: Penstock, reference: str, *, tenant: str = "default") -> Document:
    """By number, by `collection/name`, or by a name that only one collection has."""
    if reference.isascii() and reference.isdecimal():
        return await show_document(app, int(reference), tenant=tenant)
    collection, _, rest = reference.partition("/")
    rows = await app.database.pool.repeat(
        lambda session: sql.find_documents(
            session, tenant=tenant, whole=_clean(reference), collection=_clean(collection), rest=_clean(rest)
        )
    )
    if len(rows) > 1:
        where = ", ".join(f"{row['collection']}/{row['name']}" for row in rows)
        raise BadRequest(f"{reference} could be several documents: say which of {where}.")
    if not rows:
        raise NotFound(f"There is no document {reference}: use its number, its name, or collection/name.")
    return read_document(rows[0])


async def counts(app: Penstock, collection: str | None = None, *, tenant: str = "default") -> dict[str, int]:
    """How many documents are in each of the five states."""
    number = None if collection is None else await _collection_id(app, collection, tenant)
    row = await app.database.pool.repeat(
        lambda session: sql.count_documents.first(session, tenant=tenant, collection=number)
    )
    return {state: (row[state] if row is not None else 0) for state in STATES}


async def read_text(app: Penstock, document: int, *, tenant: str = "default") -> AsyncIterator[str]:
    """The text of the version that search sees, in pieces; an empty line between pages."""
    version = await _live_version(app, document, tenant)
    page, start = 0, 0
    while True:

        async def fetch(session: Session, page: int = page, start: int = start) -> Record | None:
            return await sql.read_text.first(session, version=version, page=page, start=start, piece=PIECE)

        row = await app.database.pool.repeat(fetch)
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
    rows = await app.database.pool.repeat(
        lambda session: sql.list_pages(session, version=version, after=_bounded(after), most=most)
    )
    return [PageText(**row) for row in rows]


async def list_chunks(
    app: Penstock, document: int, *, after: int = -1, most: int = 100, tenant: str = "default"
) -> list[ChunkText]:
    version = await _live_version(app, document, tenant)
    rows = await app.database.pool.repeat(
        lambda session: sql.list_chunks(session, version=version, after=_bounded(after), most=most)
    )
    return [ChunkText(**row) for row in rows]


async def history(
    app: Penstock, document: int, *, after: int = 0, most: int = 1000, tenant: str = "default"
) -> list[Event]:
    """What happened to it, oldest first."""
    await show_document(app, document, tenant=tenant)
    rows = await app.database.pool.repeat(
        lambda session: sql.history(session, document=document, after=after, most=most)
    )
    return [Event(row["id"], row["at"], row["event"], json.loads(row["details"])) for row in rows]


async def tenant_of(database: Database, document: int) -> str | None:
    """Whose a document is; for who has a link to it and is nobody else."""
    found: str | None = await database.pool.repeat(lambda session: sql.tenant_of.value(session, document=document))
    return found


async def _live_version(app: Penstock, document: int, tenant: str) -> int:
    found = await show_document(app, document, tenant=tenant)
    if found.live_id is None:
        raise NotFound(f"Document {document} ({found.name}) is {found.status}: it has no text that could be shown.")
    return found.live_id


async def _collection_id(app: Penstock, name: str, tenant: str) -> int:
    number: int | None = await app.database.pool.repeat(
        lambda session: sql.collection_id.value(session, tenant=tenant, name=_clean(name))
    )
    if number is None:
        raise NotFound(f"There is no collection {name}: see the list for those that there are.")
    return number


def _clean(text: str) -> str:
    """PostgreSQL takes neither NUL nor halves of characters; what has them is the name of nothing."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _bounded(number: int) -> int:
    return max(-1, min(number, 2**31 - 1))


def read_document(row: Record) -> Document:
    """A row of the facts (facts.sql)."""
    fields = dict(row)
    progress = json.loads(fields["progress"]) if fields["progress"] else None
    processing = fields["status"] == "processing"
    for name in ("metadata", "gaps", "facts"):
        fields[name] = json.loads(fields[name])
    fields["error"] = json.loads(fields["error"]) if fields["error"] else None
    fields["step"] = progress.pop("step", None) if processing and progress else None
    fields["progress"] = progress or None if processing else None
    return Document(**fields)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case bytes():
            return value.hex()
    return value
