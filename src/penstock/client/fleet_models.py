"""Results of `client.jobs`, `client.fleet`, `client.inbox`, `client.keys` and of the client itself; see models.py."""

from dataclasses import field
from datetime import datetime
from typing import Any

from penstock.client.models import Json, Result


class Sent(Result):
    """A message of a webhook that was accepted."""

    message: int
    created: bool = False
    status: str = ""


class Finding(Result):
    """A finding of `penstock doctor`: a problem and the command that fixes it, or a note."""

    name: str
    severity: str = ""
    sentence: str = ""
    command: str = ""
    evidence: Json = field(default_factory=dict)
    subject: str = ""
    count: int = 0
    fixable: bool = False
    acknowledged_until: datetime | None = None
    acknowledged_by: str = ""


class UnreadDocument(Result):
    """A document that could not be read because of its content: replace it, or dismiss it."""

    id: int
    collection: str = ""
    name: str = ""
    cause: str = ""
    reason: str = ""
    failed_at: datetime | None = None


class Status(Result):
    """Counts, workers, findings, and documents that could not be read."""

    documents: Json = field(default_factory=dict)
    jobs: Json = field(default_factory=dict)
    workers: list[Json] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unread: list[UnreadDocument] = field(default_factory=list)
    unread_count: int = 0


class Health(Result):
    """Whether the server can work, and if not, why."""

    status: str
    problems: list[str] = field(default_factory=list)


class Key(Result):
    """An API key; `key` is the secret itself, shown once, when it is created."""

    id: int
    name: str = ""
    prefix: str = ""
    scopes: list[str] = field(default_factory=list)
    collections: list[str] | None = None
    created_at: datetime | None = None
    created_by: str = ""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None
    usable: bool = True
    key: str | None = field(default=None, repr=False)


class Changed(Result):
    """Documents or collections have changed: read them again."""

    event: str = "changed"


class Job(Result):
    """A job; arguments, attempts and `why` only where one is shown by itself."""

    id: int
    queue: str = ""
    kind: str = ""
    fairness_key: str = ""
    state: str = ""
    priority: int = 0
    attempt: int = 0
    failures: int = 0
    worker_id: int | None = None
    run_at: datetime | None = None
    claimed_at: datetime | None = None
    enqueued_at: datetime | None = None
    finished_at: datetime | None = None
    unique_key: str | None = None
    args: Any = None
    result: Any = None
    progress: Any = None
    error: Any = None
    attempts: list[Json] = field(default_factory=list)
    why: str = ""


class Lane(Result):
    """Ready jobs of one queue, kind and fairness key."""

    queue: str
    kind: str = ""
    fairness_key: str = ""
    ready: int = 0
    oldest_id: int | None = None
    oldest_seconds: float = 0.0
    paused: bool = False
    open: bool = False
    shut: bool = False


class Cause(Result):
    """A cause of dead letters; the class of the error is in `extra`, for its name is a word of Python."""

    fingerprint: str
    count: int = 0
    kind: str = ""
    message: str | None = None
    code: str | None = None
    first_id: int | None = None
    last_id: int | None = None
    unwanted: bool = False
    redrive: int | None = None
    redrive_progress: Json | None = None


class DeadJob(Result):
    """A dead letter."""

    id: int
    kind: str = ""
    fairness_key: str = ""
    fingerprint: str = ""
    error: Json = field(default_factory=dict)
    attempt: int = 0
    failures: int = 0
    enqueued_at: datetime | None = None


class Redriving(Result):
    """The job that retries dead ones, None if none matches; `jobs.show` has its progress and its result."""

    job: int | None = None
    jobs: int = 0
    created: bool = False


class Pause(Result):
    """A queue, kind or fairness key of which no new job is claimed."""

    what: str
    name: str
    reason: str = ""
    since: datetime | None = None


class Worker(Result):
    """A worker process."""

    id: int
    name: str = ""
    host: str = ""
    pid: int = 0
    version: str = ""
    status: str = ""
    queues: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    slots: int = 0
    running: int = 0
    started_at: datetime | None = None
    heartbeat_at: datetime | None = None
    lease_seconds: float = 0.0
    load: Json = field(default_factory=dict)
    gone_at: datetime | None = None
    gone_why: str | None = None


class LimitState(Result):
    """A limit, its use, and its breaker: closed, open or probing."""

    name: str
    permits: int = 0
    used: int = 0
    granted: int = 0
    waiting: int = 0
    concurrency: float = 0.0
    failures: int = 0
    trips: int = 0
    breaker: str = ""
    opened_at: datetime | None = None
    rests_till: datetime | None = None
    reason: str | None = None
    kinds: list[str] = field(default_factory=list)
    workers: list[Json] = field(default_factory=list)


class Schedule(Result):
    """A schedule."""

    name: str
    fairness_key: str = ""
    rule: str = ""
    timezone: str = ""
    queue: str = ""
    kind: str = ""
    missed: str = ""
    overlap: str = ""
    origin: str = ""
    state: str = ""
    declared_at: datetime | None = None
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_job: int | None = None
    fired: int = 0
    skipped: int = 0


class Run(Result):
    """A job that was enqueued outside the rule of its schedule."""

    job: int


class Source(Result):
    """A source and its progress."""

    name: str
    configured: bool = False
    type: str | None = None
    makes: str | None = None
    collection: str | None = None
    position: Any = None
    received: int = 0
    repeats: int = 0
    conflicts: int = 0
    waiting: int = 0
    failed: int = 0
    polled_at: datetime | None = None
    swept_at: datetime | None = None
    error: str | None = None
    error_since: datetime | None = None


class InboxMessage(Result):
    """A message and its outcome."""

    id: int
    source: str = ""
    message_id: str = ""
    number: int = 1
    state: str = ""
    job_id: int | None = None
    document_id: int | None = None
    error: Json | None = None
    repeats: int = 0
    conflicts: int = 0
    received_at: datetime | None = None
    changed_at: datetime | None = None


class ChangedJobs(Result):
    """The ids of jobs that were changed."""

    jobs: list[int]
