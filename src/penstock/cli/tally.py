"""What `penstock add` has done so far: for its display, its report and its exit code."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

OPEN, READY, FAILED, DELETED = "queued", "ready", "failed", "deleted"


@dataclass
class Entry:
    """A file, or what was inside of one, and what became of it."""

    name: str
    added: str  # accepted, skipped (already there), refused, member
    id: int | None = None
    status: str = OPEN
    reason: str = ""
    gaps: int = 0
    parent: int | None = None

    @property
    def failed(self) -> bool:
        return self.added == "refused" or self.status == FAILED

    def facts(self) -> dict[str, Any]:
        known = {key: value for key, value in vars(self).items() if value not in (None, "", 0)}
        return known if self.added != "refused" else {key: known[key] for key in known if key != "status"}


@dataclass
class Tally:
    """All entries, and how fast they come."""

    collection: str
    files: int = 0
    size: int = 0  # bytes of all files
    sent: int = 0  # bytes so far
    looked_at: int = 0  # files that are accepted, skipped or refused
    entries: list[Entry] = field(default_factory=list)
    open: dict[int, Entry] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
    waiting: bool = False  # for the documents to be ready
    appeared: asyncio.Event = field(default_factory=asyncio.Event)  # the first open document
    _settled: int = 0

    def note(self, entry: Entry) -> None:
        """A file has been looked at, or a member has appeared."""
        self.entries.append(entry)
        self.looked_at += entry.added != "member"
        if entry.id is not None and entry.added != "refused" and entry.status == OPEN:
            self.open[entry.id] = entry
            self.appeared.set()

    def settle(self, number: int, status: str, reason: str | None, gaps: int) -> None:
        entry = self.open.pop(number)
        entry.status, entry.reason, entry.gaps = status, reason or "", gaps
        self._settled += 1

    def count(self, added: str) -> int:
        return sum(entry.added == added for entry in self.entries)

    @property
    def documents(self) -> int:
        return self._settled + len(self.open)

    @property
    def settled(self) -> int:
        return self._settled

    @property
    def ready(self) -> int:
        return sum(entry.status == READY for entry in self.entries)

    @property
    def failed(self) -> int:
        return sum(entry.failed for entry in self.entries)

    @property
    def failures(self) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.failed)

    @property
    def elapsed(self) -> float:
        return max(time.monotonic() - self.began, 0.001)

    @property
    def rate(self) -> float:
        """Documents per second, from the beginning on."""
        return self._settled / self.elapsed

    @property
    def seconds_left(self) -> float | None:
        """By the rate so far; unknown until something has been done."""
        if not self._settled:
            return None
        return (len(self.open) + self.files - self.looked_at) / self.rate

    def facts(self) -> dict[str, Any]:
        """The answer of `--json`."""
        return {
            "collection": self.collection,
            "accepted": self.count("accepted"),
            "skipped": self.count("skipped"),
            "ready": self.ready,
            "failed": self.failed,
            "seconds": round(self.elapsed, 3),
            "documents": [entry.facts() for entry in self.entries],
        }
