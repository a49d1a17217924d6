"""Looking through documents as a person does: the newest first, by name, type and date.

What an index answers is asked of it. Anything else is looked for in a bounded number of documents at a time: the answer says
how far it came, and the next question goes on from there. So no question walks a million documents. The SQL is in browsing.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from penstock.database import Session, statements
from penstock.documents.catalog import LARGEST, STATES, Document, read_document, show_documents
from penstock.engine import Penstock
from penstock.errors import BadValue

sql = statements(__file__)

WINDOWS = (500, 5_000)  # documents that one question looks through: few, and if that was not enough, many


@dataclass(frozen=True, slots=True)
class Browse:
    """Which documents a person wants to see."""

    collections: Sequence[int] | None = None  # None: all of the tenant
    status: str | None = None
    name: str | None = None  # is part of it, in any case
    media_type: str | None = None  # or the part before the slash
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_plain(self) -> bool:
        """Whether an index has the answer."""
        return self.name is None and self.media_type is None and self.since is None and self.until is None


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page of documents; `next` is where to go on, None at the end."""

    documents: list[Document]
    next: int | None
    looked_through: int | None = None  # how many were looked at, if that is why the page ends


async def browse(
    app: Penstock, wanted: Browse, *, before: int = LARGEST, most: int = 50, tenant: str = "default"
) -> Browsed:
    """The newest documents before a number."""
    if wanted.status is not None and wanted.status not in STATES:
        raise BadValue(f"There is no status {wanted.status!r}: use one of {', '.join(STATES)}.")
    where = {"tenant": tenant, "collections": None if wanted.collections is None else list(wanted.collections)}
    if wanted.is_plain and wanted.status in {None, "queued", "processing", "failed"}:
        return await _by_index(app, wanted, {**where, "before": before, "most": most + 1}, most)
    if wanted.until is not None:
        before = min(before, await _number_at(app, wanted.until, where))
    return await _look_through(app, wanted, {**where, "before": before, "most": most + 1}, most)


async def _by_index(app: Penstock, wanted: Browse, where: dict[str, Any], most: int) -> Browsed:
    if wanted.status is None:
        statement = partial(sql.newest, **where)
    elif wanted.status == "failed":
        statement = partial(sql.newest_failed, **where)
    else:
        statement = partial(sql.newest_queued, status=wanted.status, **where)
    found = [read_document(row) for row in await app.database.pool.repeat(statement)]
    return Browsed(found[:most], found[most - 1].id if len(found) > most else None)


async def _look_through(app: Penstock, wanted: Browse, where: dict[str, Any], most: int) -> Browsed:
    page = Browsed([], None)
    for window in WINDOWS:
        page = await _look_at(app, wanted, where, most, window)
        if page.looked_through is None:  # it is full, or there are no more
            break
    return page


async def _look_at(app: Penstock, wanted: Browse, where: dict[str, Any], most: int, window: int) -> Browsed:
    statement = partial(
        sql.look_through.first,
        state="queued" if wanted.status == "processing" else wanted.status,
        name=wanted.name,
        media_type=wanted.media_type,
        since=wanted.since,
        until=wanted.until,
        window=window,
        **where,
    )
    row = await app.database.pool.repeat(statement)
    assert row is not None  # noqa: S101  a count always has a row
    found = await show_documents(app, row["ids"][:most], tenant=where["tenant"])
    if wanted.status in {"queued", "processing"}:  # which of the two, its job knows
        found = [each for each in found if each.status == wanted.status]
    found.sort(key=lambda each: -each.id)
    if len(row["ids"]) > most:
        return Browsed(found, row["ids"][most - 1])
    too_old = wanted.since is not None and row["oldest"] is not None and row["oldest"] < wanted.since
    if not row["last"] or too_old:
        return Browsed(found, None)
    return Browsed(found, row["last"], looked_through=row["looked"])


async def _number_at(app: Penstock, moment: datetime, where: dict[str, Any]) -> int:
    """The first number from which on documents came at this time or later; numbers grow with time, so it halves."""

    async def search(session: Session) -> int:
        low, high = 0, int(await sql.largest.value(session, **where)) + 1
        while low < high:
            middle = (low + high) // 2
            row = await sql.at_number.first(session, number=middle, **where)
            if row is None or row["created_at"] >= moment:
                high = middle
            else:
                low = row["id"] + 1
        return high

    return await app.database.pool.repeat(search)
