"""What `doctor` and the metrics know of the checks of documents: what is open, what was repaired, and who has not looked.

The SQL is in checking.sql.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.engine.wording import counted, listed, span
from penstock.operations.finding import Finding

sql = statements(__file__)

KIND = "check_documents"
STALE_AFTER = timedelta(hours=1)
EXAMPLES = 20
AGAIN = "penstock schedule run check-documents"
FIRST = "versions"


@dataclass(frozen=True, slots=True)
class CheckCount:
    """A check in the metrics."""

    name: str
    found: int  # so far
    open: int


async def count_findings(session: Session) -> list[CheckCount]:
    return [CheckCount(**row) for row in await sql.count_findings(session)]


async def examine_checks(session: Session) -> list[Finding]:
    """What is wrong with documents, and what was."""
    return [
        *_examine_open(await sql.open_findings(session, examples=EXAMPLES, invariants=False)),
        *_examine_stale(await sql.stale_checks(session, kind=KIND, stale_after=STALE_AFTER, first=FIRST)),
        *_examine_repaired(await sql.repaired_lately(session)),
    ]


def _examine_open(rows: list[Record]) -> Iterator[Finding]:
    for row in rows:
        examples: list[dict[str, Any]] = json.loads(row["examples"])
        first = examples[0]
        others = f" {counted(row['count'] - 1, 'more finding')} of this check." if row["count"] > 1 else ""
        said = f"{first['sentence']}{' ' + first['repair'] if first['repair'] else ''}{others}"
        evidence = {"check": row["check_name"], "open": row["count"], "findings": examples}
        yield Finding(f"documents-{row['check_name']}", said, first["advice"], evidence)


def _examine_stale(rows: list[Record]) -> Iterator[Finding]:
    if rows:
        longest = rows[0]["silent_for"]
        names = [row["name"] for row in rows]
        said = f"{counted(len(rows), 'check')} of documents ({listed(names)}) did not look for {span(longest)}."
        evidence = {"checks": names, "seconds": longest.total_seconds()}
        yield Finding("checks-stale", said, AGAIN, evidence)


def _examine_repaired(rows: list[Record]) -> Iterator[Finding]:
    if rows:
        total = sum(row["count"] for row in rows)
        kinds = listed([f"{row['count']:,} by {row['check_name']}" for row in rows])
        said = (
            f"{counted(total, 'finding')} about documents {'was' if total == 1 else 'were'} repaired in the last day "
            f"({kinds}). The latest: {rows[0]['sentence']} {rows[0]['repair']}"
        )
        evidence = {"repaired": {row["check_name"]: row["count"] for row in rows}}
        yield Finding("documents-repaired", said, "", evidence, note=True)
