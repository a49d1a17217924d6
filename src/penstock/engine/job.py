"""A claimed job, and the outcomes of an attempt as values. Only the settler records them.

Done        the handler returned                           running -> history
Finished    the handler's own transaction has done it      (already in the history)
Waits       for its children                               (already waiting)
Retry       failed, charged                                running -> later
Snooze      asked for patience, not charged                running -> later
Dead        no try left, or permanently wrong              running -> dead
Cancelled   by request                                     running -> history
Requeue     not its fault: a stop, or a worker at its end  running -> ready
"""

import hashlib
import json
import re
import traceback
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Self

from penstock.engine.kinds import R_co
from penstock.errors import Permanent
from penstock.telemetry import mask
from penstock.text import storable

TRACEBACK_MAX = 20_000  # characters
MESSAGE_MAX = 4_000
RESULT_MAX = 8 * 2**20


class JobId(int, Generic[R_co]):
    """The id of a job; `created` is False when a job with the same `unique` was there already. `R_co` is its result."""

    created = True

    @classmethod
    def existing(cls, job_id: int) -> Self:
        found = cls(job_id)
        found.created = False
        return found


@dataclass(slots=True, eq=False)
class Job:
    """One attempt at a job. `(id, attempt)` and the worker's id are the fence that every write shows."""

    id: int
    kind: str
    queue: str
    fairness_key: str
    attempt: int
    failures: int
    quarantined: bool
    args: str
    unique_key: str | None
    unique_for: timedelta | None
    claimed_at: float  # this process's monotonic clock
    priority: int = 0
    scope: str | None = None  # where steps of it are kept, if any are
    trace: dict[str, str] | None = None  # of the caller that enqueued it


class StopReason(Enum):
    """The reason for which a running handler is cancelled."""

    CANCEL = "cancelled"
    TIMEOUT = "timed out"
    STALL = "stalled"
    REQUEUE = "requeued"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Failure:
    """The cause of a failed attempt, as it is kept with the job."""

    cls: str  # the error class that decided what happens: Transient, Permanent, …
    type: str
    message: str
    traceback: str
    fingerprint: str
    code: str = ""  # version of the code that failed
    step: str = ""  # in which it failed

    def as_json(self) -> dict[str, Any]:
        kept = asdict(self)
        return {"class": kept.pop("cls"), **kept}


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned this value."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Finished:
    """Recorded by `ctx.finish()` together with the handler's effects."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits for children; `ctx.map` has written it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Charged, and tried again after a pause; `alone` when it ran out of memory or time."""

    failure: Failure
    after: timedelta
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Snooze:
    """Tried again after a pause, not charged."""

    failure: Failure
    after: timedelta


@dataclass(frozen=True, slots=True)
class Dead:
    """Failed permanently: a dead letter until it is redriven or discarded."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Ended by request."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Returned to its queue, uncharged."""

    reason: str = field(default="stopped")


Outcome = Done | Finished | Waits | Retry | Snooze | Dead | Cancelled | Requeue


def describe_failure(kind: str, error: BaseException, cls: str, code: str = "", step: str = "") -> Failure:
    """The failure as it is kept: complete, but without secrets, and storable: otherwise its job would run for ever."""
    frames = traceback.extract_tb(error.__traceback__)
    text = storable(mask("".join(traceback.format_exception(error))), " ")
    if len(text) > TRACEBACK_MAX:
        text = text[: TRACEBACK_MAX // 2] + "\n…\n" + text[-TRACEBACK_MAX // 2 :]
    message = storable(mask(str(error)), " ")[:MESSAGE_MAX] or type(error).__name__
    last = frames[-1] if frames else None
    place = f"{last.filename.rsplit('/', 1)[-1]}:{last.name}" if last else ""
    mark = fingerprint(kind, type(error).__name__, place, message)
    return Failure(cls, type(error).__name__, message, text, mark, code, step)


def fingerprint(kind: str, error_type: str, place: str, message: str) -> str:
    """A digest that is equal for failures of one cause: numbers, quoted names and paths in the message do not count."""
    shape = re.sub(r"'[^']*'|\"[^\"]*\"|/[\w./-]+|0x[0-9a-f]+|\d+", "#", message)[:200]
    return hashlib.sha256("\0".join((kind, error_type, place, shape)).encode()).hexdigest()[:12]


def encode_result(kind: str, result: Any) -> str | None:
    """A result as JSON, or a permanent failure: trying again would give the same."""
    if result is None:
        return None
    try:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"The result of {kind} cannot be kept as JSON ({error}).") from error
    if len(text) > RESULT_MAX:
        raise Permanent(
            f"The result of {kind} has {len(text):,} characters, more than {RESULT_MAX:,}: return the key of a file instead."
        )
    return text
