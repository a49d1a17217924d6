"""A finding of `doctor`: a problem and the command that fixes it, or a note, which needs no action."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

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
