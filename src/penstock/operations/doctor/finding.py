"""A finding of `doctor`: a problem and the command that fixes it, or a note, which needs no action."""

from dataclasses import dataclass, field
from typing import Any

START = "penstock worker module:app"
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


@dataclass(frozen=True)
class Finding:
    """A problem, or a note."""

    name: str
    sentence: str
    command: str
    evidence: dict[str, Any] = field(default_factory=dict)
    note: bool = False  # worth knowing; no action is needed

    @property
    def fixable(self) -> bool:
        """Whether `doctor --fix` may fix it. Settings of the whole server belong to its owner."""
        return self.name in SAFE and not (self.name == "autovacuum-off" and self.evidence.get("name") is None)
