"""The records of documents: a document with its status, its versions, pages, chunks, events and timeline.

At most one version of a document is live: search, the text, the pages and the chunks are those of that one. The newest version
may be another one, which is being prepared or has failed. The API answers with these classes; excluded fields are internal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, PlainSerializer

from penstock.errors import Unreadable

DocumentStatus = Literal["queued", "processing", "ready", "failed", "deleted"]
STATES: tuple[str, ...] = get_args(DocumentStatus)
# Types of errors that are about the content of a document, which another try cannot change.
UNREADABLE = sorted([Unreadable.__name__, *(each.__name__ for each in Unreadable.__subclasses__())])
DocumentOrder = Literal["newest", "oldest", "name", "size", "pages", "changed"]
Digest = Annotated[bytes, PlainSerializer(bytes.hex, return_type=str)]


@dataclass(frozen=True, slots=True)
class Document:
    """A document with its status. Title, pages, chunks and gaps are those of the version that search sees."""

    id: int
    tenant: Annotated[str, Field(exclude=True)]
    collection: str
    collection_id: Annotated[int, Field(exclude=True)]
    name: str
    status: DocumentStatus
    version: Annotated[int, Field(description="The newest version that was accepted.")]
    version_id: Annotated[int, Field(exclude=True)]
    live_version: Annotated[int | None, Field(description="The version that search sees.")]
    live_id: Annotated[int | None, Field(exclude=True)]
    job: int | None
    size: int
    digest: Annotated[Digest, Field(description="SHA-256 of its bytes.")]
    key: Annotated[str, Field(exclude=True)]  # of its bytes in the blob store
    parent: Annotated[int | None, Field(description="The mail, archive or packet that it came in.")]
    depth: int
    uploaded_by: str
    created_at: datetime
    accepted_at: datetime  # the newest version
    changed_at: datetime
    prepared_at: datetime | None
    deleted_at: datetime | None
    dismissed_at: Annotated[
        datetime | None, Field(description="failed: when it was taken off the list of unread documents.")
    ]
    restorable_until: Annotated[
        datetime | None, Field(description="deleted: how long it can be restored; null when it cannot.")
    ]
    media_type: Annotated[str | None, Field(description="By its content, not by its name; null until it was read.")]
    title: str | None
    pages: int | None
    chunks: int | None
    words: int | None
    step: Annotated[str | None, Field(description="processing: the present step.")]
    progress: Annotated[Mapping[str, Any] | None, Field(description="processing: done, total, note.")]
    attempt: int | None
    error: Annotated[Mapping[str, Any] | None, Field(description="failed: class, message, step.")]
    metadata: Mapping[str, Any]
    gaps: Annotated[
        Sequence[Mapping[str, Any]],
        Field(
            description="Skipped pages and other parts of a ready document that could not be read, each with a reason."
        ),
    ]
    facts: Annotated[Mapping[str, Any], Field(description="Author, dates and other properties, as stated in the file.")]

    @property
    def is_unreadable(self) -> bool:
        """Whether it failed because of its content."""
        error = self.error or {}
        return (error.get("type") or error.get("class")) in UNREADABLE

    @property
    def is_over(self) -> bool:
        """Whether its status is final, unless a request changes it."""
        return self.status in {"ready", "failed", "deleted"}

    def answer(self) -> dict[str, Any]:
        """For JSON, without internal fields."""
        hidden = {"tenant", "key", "collection_id", "version_id", "live_id"}
        return {name: _plain(getattr(self, name)) for name in self.__slots__ if name not in hidden}


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a document."""

    number: Annotated[int, Field(description="From 1 on.")]
    state: Annotated[
        Literal["live", "preparing", "failed", "dead"],
        Field(description="live: search sees it; dead: it will not be used again."),
    ]
    digest: Digest
    size: int
    accepted_at: datetime
    prepared_at: datetime | None


@dataclass(frozen=True, slots=True)
class VersionBlob:
    """The bytes of one version, for a download."""

    name: str  # of the document
    number: int
    key: str  # in the blob store
    digest: bytes
    size: int
    media_type: str | None  # by its content; known of the live version only


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page."""

    number: int
    text: str
    ocr: Annotated[float | None, Field(description="How sure the OCR was, from 0 to 1; null where it was not needed.")]


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk, the part of a document that search finds."""

    number: Annotated[int, Field(description="From 0 on.")]
    page: int | None
    start: int
    stop: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a document."""

    id: int
    at: datetime
    event: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened, and how long after the last thing."""

    at: datetime
    event: str  # of the document; or `attempt`: a try of its job began
    details: Mapping[str, Any]
    after: timedelta | None  # none for the first

    def as_json(self) -> dict[str, Any]:
        seconds = None if self.after is None else self.after.total_seconds()
        return {"at": self.at, "event": self.event, "details": self.details, "after_seconds": seconds}


@dataclass(frozen=True, slots=True)
class UnreadDocument:
    """A document that could not be read because of its content: replace it, or dismiss it."""

    id: int
    collection: str
    name: str
    cause: Annotated[str, Field(description="The class of the error: Encrypted, Corrupt, Unsupported, …")]
    reason: str
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """The conditions of a filtered list."""

    collections: Sequence[int] | None = None  # None: all of the tenant
    status: str | None = None
    name: str | None = None  # a part of it, in upper or lower case
    media_type: str | None = None  # or the part before the slash
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_plain(self) -> bool:
        """Whether an index has the answer."""
        return self.name is None and self.media_type is None and self.since is None and self.until is None


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A page of documents; `next` is where to go on, None at the end."""

    documents: list[Document]
    next: int | None
    looked_through: int | None = None  # documents that were filtered, if that bound is why the page ends


@dataclass(frozen=True, slots=True)
class MatchingDocuments:
    """A page of the documents that match a filter."""

    ids: list[int]
    total: int  # that match
    looked_through: int | None = None  # how many were read, if there are more that may match


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case bytes():
            return value.hex()
    return value
