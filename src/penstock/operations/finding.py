"""What `doctor` says: one thing that is wrong, and the command that mends it; or a note, which is no reason to worry."""

from dataclasses import dataclass, field
from typing import Any

START = "penstock worker module:app"
# What `doctor --fix` does by itself (fixing.py): nothing that runs, ends or forgets a job or a document.
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
    """One thing that is wrong."""

    name: str
    sentence: str
    command: str
    evidence: dict[str, Any] = field(default_factory=dict)
    note: bool = False  # worth knowing, and nothing to be done

    @property
    def fixable(self) -> bool:
        """Whether `doctor --fix` may do what the command does. Settings of the whole server are its owner's."""
        return self.name in SAFE and not (self.name == "autovacuum-off" and self.evidence.get("name") is None)
