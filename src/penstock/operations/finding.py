"""What `doctor` says: one thing that is wrong, and the command that mends it; or a note, which is no reason to worry."""

from dataclasses import dataclass, field
from typing import Any

START = "penstock worker module:app"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    name: str
    sentence: str
    command: str
    evidence: dict[str, Any] = field(default_factory=dict)
    note: bool = False  # worth knowing, and nothing to be done
