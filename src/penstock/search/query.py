"""What is asked, and what is answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from penstock.errors import BadValue

TEXT_MAX = 2000  # characters
K_MAX = 100
OFFSET_MAX = 1000
NEIGHBOURS_MAX = 10

Mode = Literal["hybrid", "words", "vectors"]


@dataclass(frozen=True, slots=True)
class CollectionRef:
    """Where to search, and how its text was made into words and vectors."""

    id: int
    model: str
    language: str
    index: str = "postgres"  # where its vectors are searched


@dataclass(frozen=True, slots=True)
class Query:
    """A question. Filters hold for documents: their metadata contain this, they are of one of these types, they came then."""

    text: str
    collections: Sequence[CollectionRef]
    k: int = 10
    offset: int = 0
    metadata: Mapping[str, Any] | None = None
    media_types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    mode: Mode = "hybrid"
    neighbours: int = 0  # chunks to show before and behind each hit

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("k", self.k, 1, K_MAX),
            ("offset", self.offset, 0, OFFSET_MAX),
            ("neighbours", self.neighbours, 0, NEIGHBOURS_MAX),
        ):
            if not least <= value <= most:
                raise BadValue(f"{name} is {value}: it must be from {least} to {most}.")
        if len(self.text) > TEXT_MAX:
            raise BadValue(f"The question has {len(self.text):,} characters: at most {TEXT_MAX:,} can be asked.")
        if self.mode not in ("hybrid", "words", "vectors"):
            raise BadValue(f"There is no mode {self.mode!r}: take hybrid, words or vectors.")

    @property
    def filtered(self) -> bool:
        return bool(self.metadata or self.media_types or self.since or self.until)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A chunk before or behind a hit."""

    chunk: int
    page: int | None
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that answers. `start` and `stop` are places in the page, `highlights` in `text`."""

    document: int
    version: int
    name: str
    collection: str
    media_type: str | None
    page: int | None
    chunk: int
    start: int
    stop: int
    heading: str
    text: str
    score: float
    packet: int | None = None  # that the document came in
    packet_page: int | None = None  # of its consolidated PDF
    highlights: list[tuple[int, int]] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """One page of hits, the best first; whether there are more; and how many seconds it took.

    `fallback` says, in a sentence, that an index did not answer and what was done instead.
    """

    hits: list[Hit]
    more: bool
    took: float
    fallback: str = ""
