"""Findings of integrity checks: one row while a finding is open, however often it is seen.

A row is inserted when a finding is first seen, counts how often it is seen again, and ends with the first check that does not
find it any more.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from penstock.database import Database, Session, statements

sql = statements(__file__)

Cursor = list[Any]  # the last subject of a page, as its check counts them

AGAIN = 500  # open findings of a check that are checked again in one run
BATCH = 1000  # old findings that are removed at once
KEPT_DAYS = 30


@dataclass(frozen=True, slots=True)
class IntegrityFinding:
    """A violation of an invariant. A check that has several repairs says by `repair` which one it needs."""

    subject: int
    sentence: str
    advice: str
    document: int | None = None
    tenant: str = "default"
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of a finding. If it is not complete, the next check says whether it has helped."""

    said: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class FindingRow:
    id: int
    found: IntegrityFinding
    tried: bool  # it was repaired before


def cut_page(
    rows: Sequence[Record], page: int, *, subject: str = "id", weight: str = "", most: int = 0
) -> tuple[list[int], Cursor | None]:
    """The subjects of a page, and where the next one begins; with a `weight`, as many as weigh `most`, and at least one."""
    subjects: list[int] = []
    total = 0
    for row in rows:
        total += (row[weight] or 0) if weight else 0
        if subjects and total > most:
            break
        subjects.append(row[subject])
    whole = len(subjects) == len(rows) < page
    return subjects, None if whole else [subjects[-1]]


async def begin_check(database: Database, name: str) -> Cursor | None:
    """Where a check goes on; None at the beginning of a round."""
    found: str | None = await database.pool.repeat(sql.begin_check.value, name=name)
    return None if found is None else list(json.loads(found))


async def end_page(database: Database, name: str, *, seen: Cursor | None, last: Cursor | None, subjects: int) -> bool:
    """The next page begins after `last`; without one, the round is over. False if another run has moved on meanwhile."""
    moved = await database.pool.repeat(
        sql.end_page.value, name=name, seen=_encode(seen), last=_encode(last), subjects=subjects
    )
    return moved is not None


async def list_open(database: Database, name: str) -> list[int]:
    """The subjects of open findings, those that were not seen for longest first."""
    rows = await database.pool.repeat(sql.list_open, name=name, most=AGAIN)
    return [row["subject"] for row in rows]


async def note_found(database: Database, name: str, found: Sequence[IntegrityFinding]) -> list[FindingRow]:
    """Make rows of them, or count once more those that are open."""
    if not found:
        return []
    rows = await database.pool.repeat(_note, name=name, found=found)
    by_key = {(each.subject, each.document): each for each in found}
    return [FindingRow(row["id"], by_key[row["subject"], row["document_id"]], row["tried"]) for row in rows]


async def note_repair(tx: Session, name: str, finding: int, repair: Repair) -> None:
    """In the transaction of the repair where there is one."""
    await sql.note_repair.run(tx, name=name, finding=finding, said=repair.said, complete=repair.complete)


async def note_repaired(tx: Session, name: str, found: Sequence[IntegrityFinding], said: str) -> None:
    """Note findings that were repaired in the same transaction."""
    await sql.touch_check.run(tx, name=name, subjects=len(found))
    if found:
        for row in await _note(tx, name=name, found=found):
            await note_repair(tx, name, row["id"], Repair(said))


async def end_gone(database: Database, name: str, subjects: Sequence[int], still: Sequence[IntegrityFinding]) -> None:
    """Of these subjects, only this is still found."""
    if subjects:
        await database.pool.repeat(
            sql.end_gone.run,
            name=name,
            subjects=list(subjects),
            still=[each.subject for each in still],
            documents=[each.document for each in still],
        )


async def sweep_findings(database: Database) -> int:
    """Forget those that ended a month ago; how many."""
    swept: int = await database.pool.repeat(sql.sweep_findings.value, days=KEPT_DAYS, batch=BATCH)
    return swept


async def _note(session: Session, *, name: str, found: Sequence[IntegrityFinding]) -> list[Any]:
    unique = {(each.subject, each.document): each for each in found}.values()
    return await sql.note_found(
        session,
        name=name,
        subjects=[each.subject for each in unique],
        documents=[each.document for each in unique],
        tenants=[each.tenant for each in unique],
        sentences=[each.sentence for each in unique],
        advices=[each.advice for each in unique],
    )


def _encode(cursor: Cursor | None) -> str | None:
    return None if cursor is None else json.dumps(cursor)
