"""A claimed job, and the proof that it is ours."""

from dataclasses import dataclass
from datetime import timedelta


class JobId(int):
    """The number of a job; `created` is False when a job with the same `unique` was there already."""

    created = True

    @classmethod
    def existing(cls, number: int) -> "JobId":
        found = cls(number)
        found.created = False
        return found


@dataclass(slots=True, eq=False)
class Job:
    """One attempt at a job. `(id, attempt)` and the worker's number are the fence that every write shows."""

    id: int
    kind: str
    queue: str
    share: str
    attempt: int
    failures: int
    suspect: bool
    args: str
    unique_key: str | None
    unique_for: timedelta | None
    claimed_at: float  # this process's monotonic clock
    priority: int = 0
    scope: str | None = None  # where steps of it are kept, if any are
    trace: dict[str, str] | None = None  # of whoever put it in
