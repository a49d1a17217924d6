"""One run of the checks: each goes on where its last run ended, a bounded number of pages, and starts over at the end.

First what is open is looked at again: what is gone is ended. Then new pages. A finding is noted before anything is done about
it: who dies in between leaves it open, and the next run sees it again. No connection is held between two statements, nor
while a blob store is asked.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from penstock.blobs import Store
from penstock.database import Database
from penstock.documents.checks.blobs import Blobs
from penstock.documents.checks.deleted import Deleted
from penstock.documents.checks.finding import (
    Cursor,
    Found,
    Noted,
    Repair,
    begin_check,
    end_gone,
    end_page,
    list_open,
    note_found,
    note_repair,
    sweep_findings,
)
from penstock.documents.checks.leftovers import Leftovers, LeftPostings, LeftVectors
from penstock.documents.checks.live import Live
from penstock.documents.checks.orphans import Orphans
from penstock.documents.checks.tallies import Tallies
from penstock.documents.checks.versions import Versions
from penstock.engine import Penstock
from penstock.errors import PenstockError
from penstock.telemetry import log

PAGES = 20  # of each check in one run
SECONDS = 20.0  # after which a check leaves the rest to the next run


class Check(Protocol):
    """Something that must be true, and what to do when it is not."""

    name: str

    async def page(self, after: Cursor | None) -> tuple[list[int], Cursor | None]:
        """The next subjects, and the cursor behind them; none when the round is over."""

    async def look(self, subjects: Sequence[int]) -> list[Found]:
        """What is wrong with them just now."""

    async def repair(self, found: Found) -> Repair | None:
        """Put it right, if that can be done without a person; it shows its own fence."""


@dataclass(slots=True)
class Looked:
    """What a check has done in a run."""

    subjects: int = 0
    found: int = 0
    repaired: int = 0


async def check_documents(
    app: Penstock, store: Store, *, pages: int = PAGES, seconds: float = SECONDS
) -> dict[str, dict[str, int]]:
    """A run of all checks. One that cannot look (its store is away) does not keep the others from it, and is raised last."""
    database = app.database
    checks: list[Check] = [
        Versions(database),
        Deleted(database),
        Orphans(database),
        *(Leftovers(database, table) for table in ("hidden_versions", "indexed_batches", "chunks", "pages")),
        LeftPostings(database),
        LeftVectors(database),
        Live(app),
        Tallies(database),
        Blobs(database, store),
    ]
    done: dict[str, dict[str, int]] = {}
    trouble: PenstockError | None = None
    for check in checks:
        try:
            looked = await run_check(database, check, pages=pages, seconds=seconds)
        except PenstockError as error:
            log.warning("a check could not look", check=check.name, error=str(error))
            trouble = trouble or error
            continue
        done[check.name] = asdict(looked)
    await sweep_findings(database)
    if trouble is not None:
        raise trouble
    return done


async def run_check(database: Database, check: Check, *, pages: int = PAGES, seconds: float = SECONDS) -> Looked:
    """Some pages of one check."""
    until = time.monotonic() + seconds
    looked = Looked()
    cursor = await begin_check(database, check.name)
    again = set(await list_open(database, check.name))
    await _look(database, check, sorted(again), looked)
    for _ in range(pages):
        subjects, last = await check.page(cursor)
        await _look(database, check, [subject for subject in subjects if subject not in again], looked)
        looked.subjects += len(subjects)
        if not await end_page(database, check.name, seen=cursor, last=last, subjects=len(subjects)):
            break
        if last is None or time.monotonic() > until:
            break
        cursor = last
    return looked


async def _look(database: Database, check: Check, subjects: Sequence[int], looked: Looked) -> None:
    found = await check.look(subjects) if subjects else []
    await end_gone(database, check.name, subjects, found)
    noted = await note_found(database, check.name, found)
    looked.found += len(noted)
    for each in noted:
        looked.repaired += await _repair(database, check, each)


async def _repair(database: Database, check: Check, noted: Noted) -> bool:
    """Once for each finding: what is still seen after that is for a person."""
    if noted.tried:
        return False
    repair = await check.repair(noted.found)
    if repair is None:
        return False
    log.warning("a finding was repaired", check=check.name, found=noted.found.sentence, repair=repair.said)
    async with database.pool.transaction() as tx:
        await note_repair(tx, check.name, noted.id, repair)
    return True
