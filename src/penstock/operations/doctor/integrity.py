"""Findings about integrity, as the scheduled checks have stored them: violated invariants, faults of documents that could not
be repaired, repairs of the last day, and checks that have not run.

Doctor checks nothing here itself: the invariants are in operations/invariants.py, the checks of documents in
documents/integrity.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.operations.doctor.finding import Finding
from penstock.operations.invariants import INVARIANTS, PREFIX
from penstock.text import counted, listed, span

sql = statements(__file__)

STALE_AFTER = timedelta(hours=1)
EXAMPLES = 20
FIRST_CHECK = "versions"  # its row shows whether the checks of documents have ever run


async def examine_invariants(session: Session) -> list[Finding]:
    stale = await sql.stale_checks(session, kind="check_invariants", stale_after=STALE_AFTER, first=INVARIANTS[0].check)
    return [
        *_examine_violated(await sql.open_findings(session, examples=EXAMPLES, invariants=True)),
        *_examine_stale_invariants(stale),
    ]


async def examine_documents(session: Session) -> list[Finding]:
    stale = await sql.stale_checks(session, kind="check_documents", stale_after=STALE_AFTER, first=FIRST_CHECK)
    return [
        *_examine_open(await sql.open_findings(session, examples=EXAMPLES, invariants=False)),
        *_examine_stale_checks(stale),
        *_examine_repaired(await sql.repaired_lately(session)),
    ]


def _examine_violated(rows: list[Record]) -> Iterator[Finding]:
    rules = {invariant.check: invariant for invariant in INVARIANTS}
    for row in rows:
        examples: list[dict[str, Any]] = json.loads(row["examples"])
        invariant = rules.get(row["check_name"])
        number = int(row["check_name"].removeprefix(PREFIX))
        rule = invariant.rule if invariant is not None else "It is of another release."
        said = (
            f"Invariant {number} is violated by {counted(row['count'], 'row')}: {rule} For example: "
            f"{examples[0]['sentence']} This should be impossible: keep the logs, run `{examples[0]['advice']}`, and check "
            "again when it is fixed:"
        )
        evidence = {"number": number, "violations": row["count"], "examples": examples}
        command = "penstock invariants"
        yield Finding("invariant-violated", said, command, evidence, subject=str(number), count=row["count"])


def _examine_stale_invariants(rows: list[Record]) -> Iterator[Finding]:
    if rows:
        said = f"{counted(len(rows), 'invariant')} {_were(len(rows))} not checked for {span(rows[0]['silent_for'])}."
        evidence = {"checks": [row["name"] for row in rows], "seconds": rows[0]["silent_for"].total_seconds()}
        yield Finding("invariants-stale", said, "penstock schedules run check-invariants", evidence)


def _examine_open(rows: list[Record]) -> Iterator[Finding]:
    for row in rows:
        examples: list[dict[str, Any]] = json.loads(row["examples"])
        first = examples[0]
        others = f" {counted(row['count'] - 1, 'more finding')} of this check." if row["count"] > 1 else ""
        said = f"{first['sentence']}{' ' + first['repair'] if first['repair'] else ''}{others}"
        evidence = {"check": row["check_name"], "open": row["count"], "findings": examples}
        yield Finding(f"documents-{row['check_name']}", said, first["advice"], evidence, count=row["count"])


def _examine_stale_checks(rows: list[Record]) -> Iterator[Finding]:
    if rows:
        longest = rows[0]["silent_for"]
        names = [row["name"] for row in rows]
        said = f"{counted(len(rows), 'check')} of documents ({listed(names)}) {_were(len(rows))} not run for {span(longest)}."
        evidence = {"checks": names, "seconds": longest.total_seconds()}
        yield Finding("checks-stale", said, "penstock schedules run check-documents", evidence)


def _examine_repaired(rows: list[Record]) -> Iterator[Finding]:
    if rows:
        total = sum(row["count"] for row in rows)
        kinds = listed([f"{row['count']:,} by {row['check_name']}" for row in rows])
        said = (
            f"{counted(total, 'finding')} about documents {_were(total)} repaired in the last day "
            f"({kinds}). The latest: {rows[0]['sentence']} {rows[0]['repair']}"
        )
        evidence = {"repaired": {row["check_name"]: row["count"] for row in rows}}
        yield Finding("documents-repaired", said, "", evidence)


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
