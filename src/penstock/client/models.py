"""Results of the client: frozen dataclasses, made from the JSON of the answers by the types of their fields.

A field that this client does not know is kept in `extra`, and one that the server does not send has its default: a client
and a server of different releases understand each other. Plain dataclasses, because pydantic would take longer to import
than all of the client. tests/client/test_openapi.py compares them with the OpenAPI document of the server. Crawls,
facts and memos are in knowledge_models.py; jobs, workers, sources and keys in fleet_models.py.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, dataclass_transform

from penstock.client.errors import BadAnswer, Problem, problem_of

Json = dict[str, Any]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Result:
    """A result of the server. A subclass is a dataclass like it, without a decorator."""

    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


R = TypeVar("R", bound=Result)


def decode(kind: type[R], answer: object) -> R:
    """The result; BadAnswer if it lacks what makes it one."""
    if not isinstance(answer, Mapping):
        raise BadAnswer(f"The server's answer is not a {kind.__name__}: is the address that of Penstock?")
    readers = _readers(kind)  # type: ignore[arg-type]  # a class can be hashed
    known = {name: readers[name](value) for name, value in answer.items() if name in readers}
    try:
        return kind(**known, extra={name: value for name, value in answer.items() if name not in readers})
    except TypeError:
        missing = [each.name for each in dataclasses.fields(kind) if _is_needed(each) and each.name not in known]
        raise BadAnswer(f"The server's {kind.__name__} lacks {', '.join(missing)}.") from None


def decode_list(kind: type[R], answer: object) -> list[R]:
    if not isinstance(answer, list):
        raise BadAnswer(f"The server's answer is not a list of {kind.__name__}: is the address that of Penstock?")
    return [decode(kind, each) for each in answer]


def _is_needed(each: "dataclasses.Field[Any]") -> bool:
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


@cache
def _readers(kind: type[Result]) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: _reader(hints[each.name]) for each in dataclasses.fields(kind) if each.name != "extra"}


def _reader(hint: Any) -> Any:
    """The reader of a type from JSON; a value that is neither a time nor a result stays as it is."""
    for option in typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,):
        if option is datetime:
            return _time
        if isinstance(option, type) and issubclass(option, Result):
            return lambda value, kind=option: None if value is None else decode(kind, value)
        inner = typing.get_args(option)
        if inner and isinstance(inner[0], type) and issubclass(inner[0], Result):
            return lambda value, kind=inner[0]: decode_list(kind, value or [])
    return lambda value: value


def _time(text: object) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(str(text))
    except ValueError:
        raise BadAnswer(f"The server's time {text!r} is not valid.") from None


class Collection(Result):
    """A collection; `statuses` only where one is shown by itself."""

    id: int
    name: str
    model: str = ""
    chunk_size: int = 0
    chunk_overlap: int = 0
    ocr_language: str = ""
    search_language: str = ""
    index: str = "postgres"
    next_index: str | None = None
    reindexed: int | None = None
    to_reindex: int | None = None
    next_model: str | None = None
    reembedded: int | None = None
    to_reembed: int | None = None
    trouble: str | None = None
    created_at: datetime | None = None
    documents: int = 0
    chunks: int = 0
    statuses: Json = field(default_factory=dict)


class Accepted(Result):
    """A document that will be prepared."""

    id: int
    version: int = 1
    collection: str = ""
    name: str = ""
    status: str = ""
    created: bool = False
    unchanged: bool = False
    served: bool = False
    message: str = ""
    digest: str = ""
    size: int = 0
    job: int | None = None


class AcceptedPacket(Result):
    """A packet that will be prepared."""

    id: int
    collection: str = ""
    name: str = ""
    status: str = ""
    created: bool = False
    unchanged: bool = False
    message: str = ""


class PacketDocument(Result):
    """A document of a packet: its place in the consolidated PDF, or the reason why it has none."""

    place: int
    name: str = ""
    document: int | None = None
    status: str = ""
    media_type: str | None = None
    first_page: int | None = None
    pages: int = 0
    gaps: list[Json] = field(default_factory=list)
    reason: str = ""


class Part(Result):
    """Pages of a packet that belong together."""

    label: str
    first_page: int = 0
    last_page: int = 0
    confidence: float = 0.0


class Packet(Result):
    """A packet and its progress."""

    id: int
    collection: str = ""
    name: str = ""
    status: str = ""
    step: str | None = None
    progress: Json | None = None
    error: Json | None = None
    version: int = 1
    live_version: int | None = None
    pages: int | None = None
    gaps: list[Json] = field(default_factory=list)
    metadata: Json = field(default_factory=dict)
    require_all: bool = False
    merged: bool = False
    source: str | None = None
    message_id: str | None = None
    documents: list[PacketDocument] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    created_at: datetime | None = None


class FileAnswer(Result):
    """The outcome of one file of several: `document` or `error`."""

    name: str
    code: int = 0
    document: Accepted | None = None
    problem: Json | None = None

    @property
    def error(self) -> Problem | None:
        """The error that a `put` of this file would have raised."""
        return None if self.problem is None else problem_of(self.code, self.problem)


class Document(Result):
    """A document and its progress."""

    id: int
    status: str
    collection: str = ""
    name: str = ""
    step: str | None = None
    progress: Json | None = None
    attempt: int | None = None
    error: Json | None = None
    version: int = 1
    live_version: int | None = None
    media_type: str | None = None
    size: int = 0
    digest: str = ""
    title: str | None = None
    pages: int | None = None
    chunks: int | None = None
    words: int | None = None
    gaps: list[Json] = field(default_factory=list)
    facts: Json = field(default_factory=dict)
    metadata: Json = field(default_factory=dict)
    uploaded_by: str = ""
    parent: int | None = None
    depth: int = 0
    job: int | None = None
    created_at: datetime | None = None
    accepted_at: datetime | None = None
    changed_at: datetime | None = None
    prepared_at: datetime | None = None
    deleted_at: datetime | None = None
    dismissed_at: datetime | None = None
    restorable_until: datetime | None = None

    @property
    def is_over(self) -> bool:
        """Its status does not change by itself any more."""
        return self.status not in {"queued", "processing"}


class Version(Result):
    """One version of a document."""

    number: int
    state: str = ""
    digest: str = ""
    size: int = 0
    accepted_at: datetime | None = None
    prepared_at: datetime | None = None


class Page(Result):
    """The text of a page."""

    number: int
    text: str
    ocr: float | None = None


class Chunk(Result):
    """A chunk, which search finds."""

    number: int
    text: str
    page: int | None = None
    start: int = 0
    stop: int = 0
    heading: str = ""


class Happening(Result):
    """An event of a document."""

    id: int
    event: str
    at: datetime | None = None
    details: Json = field(default_factory=dict)


class Why(Result):
    """The explanation of a state."""

    sentence: str
    state: str = ""
    because: str = ""
    evidence: Json = field(default_factory=dict)


class Neighbour(Result):
    """The passage before or after a hit."""

    chunk: int
    text: str
    page: int | None = None
    heading: str = ""


class Hit(Result):
    """A passage that answers."""

    document: int
    text: str
    version: int = 1
    name: str = ""
    collection: str = ""
    media_type: str | None = None
    page: int | None = None
    chunk: int = 0
    start: int = 0
    stop: int = 0
    heading: str = ""
    highlights: list[Sequence[int]] = field(default_factory=list)
    score: float = 0.0
    packet: int | None = None
    packet_page: int | None = None
    neighbours: list[Neighbour] = field(default_factory=list)


class Found(Result):
    """The hits, best first."""

    hits: list[Hit]
    more: bool = False
    took_ms: float = 0.0
    fallback: str | None = None


class Deleted(Result):
    """How many documents a filter has deleted, and whether there are more that match."""

    deleted: int
    more: bool = False
    restorable_until: datetime | None = None


class CollectionDeletion(Result):
    """How many documents were deleted with a collection, and until when it can be restored; None: it cannot."""

    deleted: int
    restorable_until: datetime | None = None


class Receipt(Result):
    """The receipt of a deletion: what was removed, when, and how that was verified."""

    document: int
    collection: str = ""
    name: str = ""
    parent: int | None = None
    contents: list[Json] = field(default_factory=list)
    deleted_by: str = ""
    reason: str = ""
    deleted_at: datetime | None = None
    removed_at: datetime | None = None
    removed: Json = field(default_factory=dict)
    verified_at: datetime | None = None
    verified: Json | None = None


class Link(Result):
    """A link that works without a key, for a while."""

    url: str
    expires_at: datetime | None = None


class Fetched(Result):
    """A document that was written to a file."""

    path: str
    size: int
    digest: str
