"""Everything that the client raises on purpose.

A class is found by the problem's type, then by its status; a type that this client does not know is an error of the
status's class, so that an older client understands a newer server well enough.
"""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.models import Document

PASSING = frozenset({429, 502, 503, 504})


class ClientError(Exception):
    """The root of the tree."""

    passing = False  # whether the same request may well succeed in a moment
    retry_after: float | None = None  # seconds that the server asked for
    repeated = False  # True: an earlier try may have been carried out although its answer was lost


class NotInstalled(ClientError, ImportError):
    """A library is missing that the client needs."""


class Unreachable(ClientError):
    """There was no answer, or not all of it; a request that changes something may have been carried out."""

    passing = True


class BadAnswer(ClientError):
    """The answer makes no sense."""


class SourceChanged(ClientError):
    """What is sent has changed meanwhile; nothing was accepted."""


class ContentChanged(ClientError):
    """What is fetched has changed meanwhile: begin anew."""


class StillWaiting(ClientError):
    """The time is over, and the document is still queued or processed."""

    def __init__(self, message: str, *, document: "Document") -> None:
        super().__init__(message)
        self.document = document


class Problem(ClientError):
    """The server cannot or will not; its sentence is the text."""

    def __init__(self, status: int, answer: object = None, *, retry_after: float | None = None) -> None:
        self.answer = answer
        told: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
        self.status = status
        self.type = str(told.get("type", "about:blank"))
        self.detail = str(told.get("detail") or f"The server answered {status} without a reason.")
        self.errors: list[dict[str, Any]] = list(told.get("errors") or [])
        self.existing: int | None = told.get("existing")
        self.passing = status in PASSING
        self.retry_after = retry_after
        super().__init__(self.detail)

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross processes, too."""
        return problem_of, (self.status, self.answer, self.retry_after)


class Refused(Problem):
    """The request cannot be granted as it is."""


class BadRequest(Refused):
    """The request cannot be understood."""


class BadKey(Refused):
    """There is no key, or it does not count."""


class NotAllowed(Refused):
    """The key does not reach so far."""


class NotFound(Refused, LookupError):
    """There is no such thing, or not for this key."""


class NameTaken(Refused):
    """There is one of this name; `existing` is its number."""


class KeyInFlight(Refused):
    """The first request with this Idempotency-Key is still under way."""


class WrongState(Refused):
    """It cannot be done to a thing in this state."""


class BodyTooLarge(Refused):
    """There are more bytes than are taken."""


class RangeRefused(Refused):
    """There are no such bytes."""


class BadValue(Refused):
    """A value is understood, and cannot be used."""


class KeyReused(Refused):
    """The Idempotency-Key came with another body before."""


class FetchRefused(Refused):
    """The link is not followed, or leads to nothing that can be taken."""


class RateLimited(Refused):
    """Too much at once: `retry_after` is when to come again."""


class QueueFull(RateLimited):
    """Too many documents wait."""


class Trouble(Problem):
    """The server could not, whoever asks."""


class FetchFailed(Trouble):
    """The server of a link is away or in trouble."""


class Unavailable(Trouble):
    """The database, or something else that is needed, did not answer in time."""


class StorageFull(Trouble):
    """There is no room for the bytes."""


BY_TYPE: dict[str, type[Problem]] = {
    "urn:penstock:name-taken": NameTaken,
    "urn:penstock:key-in-flight": KeyInFlight,
    "urn:penstock:wrong-state": WrongState,
    "urn:penstock:key-reused": KeyReused,
    "urn:penstock:fetch-refused": FetchRefused,
    "urn:penstock:fetch-failed": FetchFailed,
    "urn:penstock:queue-full": QueueFull,
}
BY_STATUS: dict[int, type[Problem]] = {
    400: BadRequest,
    401: BadKey,
    403: NotAllowed,
    404: NotFound,
    413: BodyTooLarge,
    416: RangeRefused,
    422: BadValue,
    429: RateLimited,
    503: Unavailable,
    507: StorageFull,
}


def problem_of(status: int, answer: object, retry_after: float | None = None) -> Problem:
    """The error for an answer that is none of success."""
    usual = Refused if 400 <= status < 500 else Trouble if status >= 500 else Problem
    kind = BY_STATUS.get(status, usual)
    if isinstance(answer, Mapping):
        kind = BY_TYPE.get(str(answer.get("type")), kind)
    return kind(status, answer, retry_after=retry_after)


def read_problem(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """The same from the answer itself, also where somebody between us and the server has written it."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, Mapping) and 300 <= status < 400:
        where = headers.get("location", "another address")
        answer = {"detail": f"The server sends us on to {where}, which is not followed: use the right address."}
    elif not isinstance(answer, Mapping):
        answer = {"detail": f"The server answered {status}, and not in Penstock's words: is the address right?"}
    return problem_of(status, answer, seconds(headers.get("retry-after")))


def seconds(text: str | None) -> float | None:
    """Of a Retry-After; a date is not understood and counts as none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
