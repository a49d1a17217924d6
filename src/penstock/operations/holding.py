"""What `doctor` knows of the invariants: those that are violated, and whether anybody looks."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from asyncpg import Record

from penstock.database import Session
from penstock.engine.wording import counted, span
from penstock.operations.checking import EXAMPLES, sql
from penstock.operations.finding import Finding
from penstock.operations.invariants import INVARIANTS, PREFIX

KIND = "check_invariants"
STALE_AFTER = timedelta(hours=1)


async def examine_invariants(session: Session) -> list[Finding]:
    stale = await sql.stale_checks(session, kind=KIND, stale_after=STALE_AFTER, first=INVARIANTS[0].check)
    return [
        *_examine_violated(await sql.open_findings(session, examples=EXAMPLES, invariants=True)),
        *_examine_stale(stale),
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
            f"{examples[0]['sentence']} This "
            f"should be impossible: keep the logs, ask `{examples[0]['advice']}`, and look again when it is mended."
        )
        evidence = {"number": number, "violations": row["count"], "examples": examples}
        yield Finding("invariant-violated", said, "penstock invariants", evidence)


def _examine_stale(rows: list[Record]) -> Iterator[Finding]:
    if rows:
        said = f"Nobody has looked at {counted(len(rows), 'invariant')} for {span(rows[0]['silent_for'])}."
        evidence = {"checks": [row["name"] for row in rows], "seconds": rows[0]["silent_for"].total_seconds()}
        yield Finding("invariants-stale", said, "penstock schedule run check-invariants", evidence)
