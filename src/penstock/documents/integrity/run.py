"""Runs of the integrity checks, and the reconciliation of documents with their jobs, parents and collections.

Each check goes on where its last run ended, for a bounded number of pages, and starts over at the end. Open findings are
checked again first. A finding is noted before it is repaired, so that a crash in between leaves it open for the next run. No
connection is held between two statements, nor during a call to the blob store. `reconcile` is quicker, and runs every minute:
no document waits for a job that is over, and no deletion stays half done.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from penstock.blobs import BlobStore
from penstock.database import Database, statements
from penstock.documents.deletion.delete import delete_page
from penstock.documents.integrity import finding
from penstock.documents.integrity.blobs import BlobCheck
from penstock.documents.integrity.deleted import DeletedCheck, OrphanCheck, VersionCheck
from penstock.documents.integrity.leftovers import LeftoverPostings, LeftoverRows, LeftoverVectors
from penstock.documents.integrity.live import LiveCheck
from penstock.documents.integrity.tallies import TallyCheck
from penstock.engine import Penstock
from penstock.errors import PenstockError
from penstock.telemetry import log

sql = statements(__file__)

PAGES = 20  # of each check in one run
SECONDS = 20.0  # after which a check leaves the rest to the next run
RECONCILE_PAGES = 100  # of waiting documents in one round


class Check(Protocol):
    """An invariant, and its repair."""

    name: str

    async def page(self, after: finding.Cursor | None) -> tuple[list[int], finding.Cursor | None]:
        """The next subjects, and the cursor after them; none when the round is over."""

    async def find(self, subjects: Sequence[int]) -> list[finding.IntegrityFinding]:
        """The findings about these subjects, as of now."""

    async def repair(self, found: finding.IntegrityFinding) -> finding.Repair | None:
        """Repair it, if that can be done automatically, in a transaction that checks again."""


@dataclass(slots=True)
class CheckedPages:
    subjects: int = 0
    found: int = 0
    repaired: int = 0


async def check_documents(
    app: Penstock, store: BlobStore, *, pages: int = PAGES, seconds: float = SECONDS
) -> dict[str, dict[str, int]]:
    """Run all checks. The error of one that cannot run (its store is away) is raised after the others have run."""
    database = app.database
    checks: list[Check] = [
        VersionCheck(database),
        DeletedCheck(database),
        OrphanCheck(database),
        *(LeftoverRows(database, table) for table in ("hidden_versions", "indexed_batches", "chunks", "pages")),
        LeftoverPostings(database),
        LeftoverVectors(database),
        LiveCheck(app),
        TallyCheck(database),
        BlobCheck(database, store),
    ]
    done: dict[str, dict[str, int]] = {}
    trouble: PenstockError | None = None
    for check in checks:
        try:
            looked = await run_check(database, check, pages=pages, seconds=seconds)
        except PenstockError as error:
            log.warning("a check could not run", check=check.name, error=str(error))
            trouble = trouble or error
            continue
        done[check.name] = asdict(looked)
    await finding.sweep_findings(database)
    if trouble is not None:
        raise trouble
    return done


async def run_check(database: Database, check: Check, *, pages: int = PAGES, seconds: float = SECONDS) -> CheckedPages:
    until = time.monotonic() + seconds
    looked = CheckedPages()
    cursor = await finding.begin_check(database, check.name)
    again = set(await finding.list_open(database, check.name))
    await _check(database, check, sorted(again), looked)
    for _ in range(pages):
        subjects, last = await check.page(cursor)
        await _check(database, check, [subject for subject in subjects if subject not in again], looked)
        looked.subjects += len(subjects)
        if not await finding.end_page(database, check.name, seen=cursor, last=last, subjects=len(subjects)):
            break
        if last is None or time.monotonic() > until:
            break
        cursor = last
    return looked


async def _check(database: Database, check: Check, subjects: Sequence[int], looked: CheckedPages) -> None:
    found = await check.find(subjects) if subjects else []
    await finding.end_gone(database, check.name, subjects, found)
    noted = await finding.note_found(database, check.name, found)
    looked.found += len(noted)
    for each in noted:
        looked.repaired += await _repair(database, check, each)


async def _repair(database: Database, check: Check, noted: finding.FindingRow) -> bool:
    """Once for each finding: what is still found after that is reported only."""
    if noted.tried:
        return False
    repair = await check.repair(noted.found)
    if repair is None:
        return False
    log.warning("a finding was repaired", check=check.name, found=noted.found.sentence, repair=repair.said)
    async with database.pool.transaction() as tx:
        await finding.note_repair(tx, check.name, noted.id, repair)
    return True


# -- reconciliation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReconcileCounts:
    """The documents that were repaired."""

    failed: int = 0  # whose job was over
    deleted: int = 0  # whose parent or collection was deleted


async def reconcile(database: Database, *, batch: int = 1000) -> ReconcileCounts:
    """One round."""
    failed = await _fail_abandoned(database, batch)
    return ReconcileCounts(failed, await _delete_orphans(database, batch))


async def _fail_abandoned(database: Database, batch: int) -> int:
    failed, after = 0, 0
    for _ in range(RECONCILE_PAGES):
        page = await database.pool.repeat(sql.waiting.first, after=after, batch=batch)
        if page is None or page["last"] is None:
            break
        after = page["last"]
        failed += await _fail(database, page["abandoned"]) if page["abandoned"] else 0
    return failed


async def _fail(database: Database, documents: list[int]) -> int:
    """Locked before the check: a concurrent retry or replacement gives a document another job."""
    async with database.pool.transaction() as tx:
        locked = [row["id"] for row in await sql.lock_waiting(tx, ids=documents)]
        rows = await sql.fail_abandoned(tx, ids=locked)
        found = [
            finding.IntegrityFinding(
                row["id"],
                f"Document {row['id']} ({row['name']}) was waiting although its job was over.",
                f"penstock why {row['id']}",
                row["id"],
                row["tenant"],
            )
            for row in rows
        ]
        await finding.note_repaired(tx, "jobs", found, "It is marked as failed, and can be retried.")
    return len(rows)


async def _delete_orphans(database: Database, batch: int) -> int:
    orphans = await database.pool.repeat(sql.orphans, batch=batch)
    if not orphans:
        return 0
    deleted = await delete_page(database, [row["id"] for row in orphans], "what it belonged to was deleted")
    found = [
        finding.IntegrityFinding(
            row["id"],
            f"Document {row['id']} ({row['name']}) still existed although its parent or collection was deleted.",
            f"penstock why {row['id']}",
            row["id"],
            row["tenant"],
        )
        for row in orphans
        if row["late"]
    ]
    async with database.pool.transaction() as tx:
        await finding.note_repaired(tx, "orphans", found, "It was deleted.")
    return deleted
