"""The exceptions that Penstock raises on purpose, each below the one that it is a case of.

An error's text is a sentence for a person: what is wrong, then what to do.
"""

from collections.abc import Sequence
from datetime import timedelta


class PenstockError(Exception):
    """The root of the tree."""


class CannotStart(PenstockError):
    """The command cannot do its work as things are; it ends with exit code 2 and a sentence that says what to change."""


class BadSetting(CannotStart):
    """A setting is unknown, malformed, or does not fit with another one."""


class PortTaken(CannotStart):
    """Another process listens on the address."""


class AlreadyRunning(CannotStart):
    """Another process has this home."""


class ServerUnusable(CannotStart):
    """The embedded PostgreSQL cannot be made or started."""


class DatabaseUnreachable(CannotStart):
    """There is no way to the database with these settings."""


class DatabaseUnsuitable(CannotStart):
    """The database answers, but Penstock cannot work with it."""


class BudgetExceeded(CannotStart):
    """The process needs more connections than the server can ever give it."""


class NothingChanged(CannotStart):
    """The jobs would meet what they failed in before."""


class DatabaseTrouble(PenstockError):
    """A database call failed for a reason that passes; the engine retries it."""


class CallTimedOut(DatabaseTrouble):
    """The deadline passed without an answer; whether the statement took effect is unknown."""


class ConnectionLost(DatabaseTrouble):
    """The connection broke during a call; whether the statement took effect is unknown."""


class PoolExhausted(DatabaseTrouble):
    """All connections were in use until the deadline."""


class HeldTooLong(DatabaseTrouble):
    """A transaction kept its connection without running a statement; an error in tests."""


class MigrationRefused(PenstockError):
    """The schema cannot be brought to this release's state."""


class BadJob(PenstockError, ValueError):
    """The call cannot become a job; nothing was kept."""


class LeaseLost(PenstockError):
    """Another worker has the job by now, or it is over; nothing that this attempt writes counts."""


class JobNotFound(PenstockError, LookupError):
    """No job has this id."""


class JobDead(PenstockError):
    """Raised by `result` for a dead letter; its text is the failure."""


class JobCancelled(PenstockError):
    """Raised by `result` for a job that was cancelled or discarded."""


class JobFailure(PenstockError):
    """Raised by a handler to choose what happens to its job."""


class Transient(JobFailure):
    """May well work next time: tried again, with backoff, as after every exception that is not in this module."""


class Unavailable(Transient):
    """The other side of a limit is away. Its breaker counts it; the job is charged only if others are answered meanwhile."""


class RateLimited(JobFailure):
    """The other side asked for patience; waiting is not charged to the retry budget."""

    def __init__(self, message: str = "", *, retry_after: timedelta | float | None = None) -> None:
        super().__init__(message or "rate limited")
        self.asked = retry_after is not None  # the other side has named a time, which then counts for all callers
        seconds = 30 if retry_after is None else retry_after
        self.retry_after = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)


class Resting(RateLimited):
    """A dependency is not called for a while: its breaker is open, or it asked for patience."""


class QueueFull(RateLimited):
    """As many jobs wait as may; a handler that lets it pass comes again after `retry_after`, like its callers."""


class ResourceLimit(JobFailure):
    """Memory or time ran out: fewer tries, and alone."""


class Permanent(JobFailure):
    """Cannot work, however often it is tried."""


class BadStep(Permanent):
    """A step or a map that cannot work, however often it is tried."""


class BadMessage(Permanent):
    """A message of a source is malformed, or names what is not there."""


class BadAnswer(Permanent):
    """A language model does not answer in the form that was asked for; the request is kept with its job."""


class ChildFailed(Permanent):
    """Children of a map are dead, cancelled or discarded; their numbers are in `children`."""

    def __init__(self, message: str, *, children: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.children = list(children)


class Unreadable(Permanent):
    """The content of a document, not the machine, is why it cannot be read."""


class Encrypted(Unreadable):
    """A password is needed."""


class Corrupt(Unreadable):
    """It is damaged, or not what it claims to be."""


class Unsupported(Unreadable):
    """Nothing here can read this format."""


class Suspicious(Unreadable):
    """It would eat the machine: a bomb, a loop, a program."""


class TooMuch(Unreadable):
    """It has more pages, pixels, members or text than the limits allow."""


class NothingInside(Unreadable):
    """It has no content at all."""


class WorkerMustStop(JobFailure):
    """The process, not the job, is at fault; the job goes back unharmed."""


class SchemaMismatch(WorkerMustStop):
    """Code and schema are more than one step apart."""


class Refused(PenstockError):
    """A request that is not granted; nothing was changed. `status` is that of the HTTP answer."""

    status = 400


class BadRequest(Refused):
    """The request cannot be understood."""


class BadKey(Refused):
    """No key, or one that is not (or no longer) good."""

    status = 401


class NotAllowed(Refused):
    """The caller is known, and may not do this."""

    status = 403


class NotFound(Refused, LookupError):
    """The thing does not exist, or the caller may not see it."""

    status = 404


class NameTaken(Refused):
    """There is one of this name; `existing` is its id."""

    status = 409

    def __init__(self, message: str, *, existing: int) -> None:
        super().__init__(message)
        self.existing = existing


class KeyInFlight(Refused):
    """The first request with this Idempotency-Key is still under way."""

    status = 409


class WrongState(Refused):
    """It cannot be done to a thing in this state."""

    status = 409


class BodyTooLarge(Refused):
    """The body has more bytes than are taken."""

    status = 413


class BadValue(Refused):
    """A value is understood, and cannot be used."""

    status = 422


class KeyReused(Refused):
    """The Idempotency-Key came with another body before."""

    status = 422


class FetchRefused(Refused, Permanent):
    """A URL that may not be followed, or that leads to nothing that can be taken; to a job, never again.

    `answered` is the status with which its server has said so, if it was the server.
    """

    status = 422

    def __init__(self, message: str, *, answered: int | None = None) -> None:
        super().__init__(message)
        self.answered = answered


class FetchFailed(Refused, Transient):
    """A URL could not be read just now; `retry_after` is what its server asked for, if it did."""

    status = 502

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoModel(Refused, Resting):
    """There is no language model, or not the one that is named; a job that needs it waits, uncharged, until there is one."""

    status = 503


class StorageFull(Refused):
    """There is no room for the bytes."""

    status = 507
