"""A finding of `doctor`: a problem and the command that fixes it, or a note, which needs no action.

An operator who knows of a finding acknowledges it, so it does not count as a problem for some time. An acknowledgement is for
the findings of a name that there are now, each by its subject and count. It ends when its time is over, when the finding has
another subject, or when more is affected than at that time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.database import Session, statements
from penstock.engine import acknowledge_lost
from penstock.errors import NotFound

sql = statements(__file__)

ACKNOWLEDGED_FOR = timedelta(hours=24)
LONGEST = timedelta(days=365)
START = "penstock worker module:app"  # of an application
WORKER = "penstock worker"  # of documents
# Findings that `doctor --fix` fixes (fixes.py): no fix runs, ends or deletes a job or a document.
SAFE = frozenset(
    {
        "autovacuum-off",
        "bloat",
        "checks-stale",
        "invariants-stale",
        "schedule-retired",
        "statistics-stale",
        "unguarded",
    }
)

Severity = Literal["urgent", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("urgent", "warning", "note")
# Work is done, but slower or with less protection than it should be. All other findings are urgent: work is not done, or fails.
WARNINGS = frozenset(
    {
        "autovacuum-off",
        "bloat",
        "budget",
        "checks-stale",
        "clock-skew",
        "facts-partial",
        "fleet-mixed",
        "invariants-stale",
        "long-transaction",
        "notifications",
        "old-job",
        "paused",
        "pool-full",
        "schedule-paused",
        "settings-clash",
        "silent-worker",
        "source-full",
        "statistics-stale",
        "unguarded",
    }
)
NOTES = frozenset({"documents-repaired", "limit-full", "schedule-retired"})  # worth knowing; no action is needed


def severity_of(name: str) -> Severity:
    return "note" if name in NOTES else "warning" if name in WARNINGS else "urgent"


@dataclass(frozen=True)
class Finding:
    """A problem, or a note."""

    name: str
    sentence: str
    command: str
    evidence: dict[str, Any] = field(default_factory=dict)
    subject: Annotated[str, Field(description="What it is about, if there can be several of this name.")] = ""
    count: Annotated[int, Field(description="How many things are affected, if more of them are news; else 0.")] = 0
    acknowledged_until: datetime | None = None
    acknowledged_by: str = ""
    severity: Severity = "urgent"  # this and the next follow from the name
    fixable: Annotated[bool, Field(description="Whether `penstock doctor --fix` may fix it.")] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "severity", severity_of(self.name))
        # Settings of the whole server belong to its owner.
        server = self.name == "autovacuum-off" and self.evidence.get("name") is None
        object.__setattr__(self, "fixable", self.name in SAFE and not server)

    @property
    def note(self) -> bool:
        return self.severity == "note"

    @property
    def acknowledged(self) -> bool:
        return self.acknowledged_until is not None

    @property
    def is_problem(self) -> bool:
        """Whether it needs attention now: the exit code of `doctor` is 1."""
        return not self.note and not self.acknowledged


def by_urgency(findings: Iterable[Finding]) -> list[Finding]:
    """The most urgent first, those that are acknowledged after the others; otherwise in the order in which they were found."""
    return sorted(findings, key=lambda each: (each.acknowledged, SEVERITIES.index(each.severity)))


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
