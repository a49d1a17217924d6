"""The tree of exceptions that Penstock raises on purpose.

    PenstockError
    ├── CannotStart                 ends the process with one sentence and exit code 2
    │   ├── BadSetting              a key or value that cannot be used
    │   ├── PortTaken               another process listens there
    │   ├── AlreadyRunning          another `penstock up` has this home
    │   ├── ServerUnusable          the embedded PostgreSQL cannot be made or started
    │   ├── DatabaseUnreachable     wrong address, wrong password, no such database
    │   ├── DatabaseUnsuitable      too old, or reached in a way that cannot work
    │   ├── BudgetExceeded          more connections than the server can ever give
    │   └── NothingChanged          a redrive into the same code and settings in which the jobs failed
    ├── DatabaseTrouble             passes by itself; the engine retries it
    │   ├── CallTimedOut            no answer before the client's deadline; the outcome is unknown
    │   ├── ConnectionLost          cut in the middle; the outcome is unknown
    │   ├── PoolExhausted           no connection became free in time
    │   └── HeldTooLong             a transaction sat idle on its connection (an error in tests)
    ├── MigrationRefused            an applied migration was changed, or one failed
    ├── BadJob                      a job that cannot be kept: wrong arguments, name, delay
    ├── LeaseLost                   this attempt is not ours any more; nothing that it writes counts
    ├── JobNotFound                 no such job, alive or in the history
    ├── JobDead                     raised by `result` for a dead letter
    ├── JobCancelled                raised by `result` for a cancelled or discarded job
    ├── Refused                     a request of a person or program that cannot be granted; each has an HTTP status
    │   ├── BadRequest              400: it cannot be understood
    │   ├── BadKey                  401: no key, or one that is not good
    │   ├── NotAllowed              403: the key is good, and not for this
    │   ├── NotFound                404: no such collection, document, page, queue
    │   ├── NameTaken               409: the name is in use; `existing` is the id of what has it
    │   ├── KeyInFlight             409: the first request with this Idempotency-Key is still under way
    │   ├── WrongState              409: not while it is like this
    │   ├── BodyTooLarge            413: more bytes than limits.bytes
    │   ├── BadValue                422: understood, and not possible: a name, a setting, metadata
    │   ├── KeyReused               422: this Idempotency-Key came with another body
    │   ├── FetchRefused            422: a URL that is not followed, or whose server refuses it (also Permanent)
    │   ├── FetchFailed             502: a URL's server is away or in trouble; it may pass (also Transient)
    │   ├── NoModel                 503: a language model is needed, and none is configured (also Resting)
    │   └── StorageFull             507: no room in the blob store
    └── JobFailure                  raised by a handler to choose what happens to its job
        ├── Transient               try again, with backoff (so is every exception that is not listed here)
        │   └── Unavailable         the dependency of a limit is away: not charged, unless it answers others
        ├── RateLimited             try again after `retry_after`; not charged
        │   ├── QueueFull           `enqueue` beyond the maximum size (`max_queue_size`) of a lane or queue
        │   └── Resting             a dependency is left alone: its breaker is open, or it asked for it
        ├── ResourceLimit           memory or time ran out: fewer tries, and alone
        ├── Permanent               never again: encrypted, corrupt, unsupported
        │   ├── BadStep             a step or map that cannot be kept: its name, input, result, calls
        │   ├── BadMessage          a message that cannot be used: malformed, or naming what does not exist
        │   ├── BadAnswer           a language model's answer does not fit what was asked for, also when asked again
        │   ├── ChildFailed         a child of a map has no result; its text has the cause
        │   └── Unreadable          a document whose content cannot be read
        │       ├── Encrypted       a password is needed
        │       ├── Corrupt         not what it claims to be, or damaged beyond repair
        │       ├── Unsupported     a format that nothing here can read
        │       ├── Suspicious      a bomb, a loop, an executable: made to harm, or as good as that
        │       ├── TooMuch         more pages, pixels, archive members or text than the limits allow
        │       └── NothingInside   no bytes
        └── WorkerMustStop          not the job's fault: this process must not go on
            └── SchemaMismatch      the schema is more than one step newer or older than the code

An error's text is a sentence for a person: what is wrong, then what to do.
"""

from collections.abc import Sequence
from datetime import timedelta


class PenstockError(Exception):
    """The root of the tree."""


class CannotStart(PenstockError):
    """The command cannot do its work; its sentence names what to change."""


class BadSetting(CannotStart):
    """A setting is unknown, malformed, or does not fit with another one."""


class PortTaken(CannotStart):
    """Another process listens on the address."""


class AlreadyRunning(CannotStart):
    """Another process has this home."""


class ServerUnusable(CannotStart):
    """The embedded PostgreSQL cannot be made or started."""


class DatabaseUnreachable(CannotStart):
    """The database cannot be reached with these settings."""


class DatabaseUnsuitable(CannotStart):
    """The database answers, but Penstock cannot work with it."""


class BudgetExceeded(CannotStart):
    """The process needs more connections than the server can ever give it."""


class NothingChanged(CannotStart):
    """The jobs would run in the code and settings in which they failed."""


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
    """The dependency of a limit is away. Its breaker counts it; the job is charged only if others are answered meanwhile."""


class RateLimited(JobFailure):
    """The dependency asked for patience; waiting is not charged to the retry budget."""

    def __init__(self, message: str = "", *, retry_after: timedelta | float | None = None) -> None:
        super().__init__(message or "rate limited")
        self.asked = retry_after is not None  # the dependency has named a time, which then counts for all callers
        seconds = 30 if retry_after is None else retry_after
        self.retry_after = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)


class Resting(RateLimited):
    """A dependency is not called for a while: its breaker is open, or it asked for patience."""


class QueueFull(RateLimited):
    """The queue is full; a handler that does not catch it is retried after `retry_after`, like its callers."""


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
    """Children of a map are dead, cancelled or discarded; their ids are in `children`."""

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
    """It would exhaust the machine: a bomb, a loop, a program."""


class TooMuch(Unreadable):
    """It has more pages, pixels, members or text than the limits allow."""


class NothingInside(Unreadable):
    """It has no content at all."""


class WorkerMustStop(JobFailure):
    """The process, not the job, is at fault; the job is requeued, uncharged."""


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
    """The name is in use; `existing` is the id of what has it."""

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

    `answered` is the status with which its server has refused it, if it was the server.
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
    """No language model is configured, or not the one that is named; a job that needs it waits, uncharged, until one is."""

    status = 503


class StorageFull(Refused):
    """The blob store has no room for the bytes."""

    status = 507
