"""Everything that the client raises on purpose.

The class is that of the problem's type, or of its status for a type that this client does not know, so that an older client
understands a newer server well enough.
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
    repeated = False  # True: an earlier attempt may have been carried out although its answer was lost


class NotInstalled(ClientError, ImportError):
    """A library that the client needs is missing."""


class Unreachable(ClientError):
    """There was no answer, or not all of it; a request that changes something may have been carried out."""

    passing = True


class BadAnswer(ClientError):
    """The answer cannot be understood."""


class SourceChanged(ClientError):
    """A file has changed while it was sent; nothing was accepted."""


class ContentChanged(ClientError):
    """A document has changed while it was fetched: start again."""


class StillWaiting(ClientError):
    """The document is still queued or processing after the timeout."""

    def __init__(self, message: str, *, document: "Document") -> None:
        super().__init__(message)
        self.document = document


class Problem(ClientError):
    """An error that the server has answered; its sentence is the text."""

    def __init__(self, status: int, answer: object = None, *, retry_after: float | None = None) -> None:
        self.answer = answer
        given: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
        self.status = status
        self.type = str(given.get("type", "about:blank"))
        self.detail = str(given.get("detail") or f"The server answered {status} without a reason.")
        self.errors: list[dict[str, Any]] = list(given.get("errors") or [])
        self.existing: int | None = given.get("existing")
        self.passing = status in PASSING
        self.retry_after = retry_after
        super().__init__(self.detail)

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors can be pickled."""
        return problem_of, (self.status, self.answer, self.retry_after)


class Refused(Problem):
    """The request cannot be granted as it is."""


class BadRequest(Refused):
    """The request cannot be understood."""


class BadKey(Refused):
    """The key is missing or not valid."""


class NotAllowed(Refused):
    """The key does not allow this."""


class NotFound(Refused, LookupError):
    """The object does not exist, or the key does not see it."""


class NameTaken(Refused):
    """The name is taken; `existing` is the id of the one that has it."""


class KeyInFlight(Refused):
    """The first request with this Idempotency-Key is still running."""


class WrongState(Refused):
    """The state of the object does not allow this."""


class BodyTooLarge(Refused):
    """The body is larger than the limit."""


class RangeRefused(Refused):
    """The range is outside the document."""


class BadValue(Refused):
    """A value is understood, and cannot be used."""


class KeyReused(Refused):
    """The Idempotency-Key came with another body before."""


class FetchRefused(Refused):
    """The link is not followed, or leads to nothing that can be taken."""


class RateLimited(Refused):
    """Too many requests: retry after `retry_after` seconds."""


class QueueFull(RateLimited):
    """Too many documents wait."""


class Trouble(Problem):
    """The server failed."""


class FetchFailed(Trouble):
    """The server of a link is away or in trouble."""


class Unavailable(Trouble):
    """The database, or something else that is needed, did not answer in time."""


class StorageFull(Trouble):
    """The storage of the server is full."""


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
    """The error for an unsuccessful answer."""
    usual = Refused if 400 <= status < 500 else Trouble if status >= 500 else Problem
    kind = BY_STATUS.get(status, usual)
    if isinstance(answer, Mapping):
        kind = BY_TYPE.get(str(answer.get("type")), kind)
    return kind(status, answer, retry_after=retry_after)


def read_problem(status: int, headers: Mapping[str, str], body: bytes) -> Problem:
    """The same from the answer itself, which a proxy may have written."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, Mapping) and 300 <= status < 400:
        where = headers.get("location", "another address")
        answer = {"detail": f"The server redirects to {where}, which is not followed: use that address."}
    elif not isinstance(answer, Mapping):
        answer = {"detail": f"The answer with status {status} is not from Penstock: is the address right?"}
    return problem_of(status, answer, seconds(headers.get("retry-after")))


def seconds(text: str | None) -> float | None:
    """The seconds of a Retry-After; a date is ignored."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
