"""Acknowledgements: an operator knows of a finding, so it does not count as a problem for some time.

An acknowledgement is for the findings of a name that there are now, each by its subject and count. It ends when its time is
over, when the finding has another subject, or when more is affected than at that time.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches

from penstock.database import Session, statements
from penstock.engine import acknowledge_lost
from penstock.errors import NotFound
from penstock.operations.doctor.finding import Finding

sql = statements(__file__)

ACKNOWLEDGED_FOR = timedelta(hours=24)
LONGEST = timedelta(days=365)


async def apply_acknowledgements(session: Session, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, with what is known of their acknowledgements."""
    known = {(row["finding"], row["subject"]): row for row in await sql.acknowledgements(session)}
    applied = []
    for finding in findings:
        row = known.get((finding.name, finding.subject))
        if row is not None and finding.count <= row["count"]:
            finding = replace(finding, acknowledged_until=row["until"], acknowledged_by=row["acknowledged_by"])  # noqa: PLW2901
        applied.append(finding)
    return applied


async def acknowledge(
    tx: Session, findings: Iterable[Finding], name: str, *, lasting: timedelta = ACKNOWLEDGED_FOR, by: str = ""
) -> list[Finding]:
    """Acknowledge the findings of this name; those that were. Raises NotFound if there is none."""
    findings = list(findings)
    named = [finding for finding in findings if finding.name == name]
    if not named:
        near = get_close_matches(name, {finding.name for finding in findings}, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise NotFound(f"Finding {name} does not exist now.{meant} `penstock doctor` shows all.")
    await sql.forget_ended.run(tx)
    await sql.acknowledge.run(
        tx,
        finding=name,
        subjects=[finding.subject for finding in named],
        counts=[finding.count for finding in named],
        lasting=min(lasting, LONGEST),
        by=by,
    )
    if name == "workers-lost":  # workers that are lost from now on are counted on their own
        await acknowledge_lost(tx)
    return await apply_acknowledgements(tx, named)
