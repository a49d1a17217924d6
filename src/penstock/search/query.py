"""The question and its answer: `Query`, and a page of `Hit`s in `Found`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.errors import BadValue

TEXT_MAX = 2000  # characters
K_MAX = 100
OFFSET_MAX = 1000
NEIGHBOURS_MAX = 10

Mode = Literal["hybrid", "words", "vectors"]


@dataclass(frozen=True, slots=True)
class CollectionRef:
    """A collection to search, and how its text was made into words and vectors."""

    id: int
    model: str
    language: str
    index: str = "postgres"  # where its vectors are searched


@dataclass(frozen=True, slots=True)
class Query:
    """A question. Filters apply to documents: by metadata, media types, and the time of the upload."""

    text: str
    collections: Sequence[CollectionRef]
    k: int = 10
    offset: int = 0
    metadata: Mapping[str, Any] | None = None
    media_types: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    mode: Mode = "hybrid"
    neighbours: int = 0  # chunks to show before and after each hit

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
            raise BadValue(f"mode is {self.mode!r}: it must be hybrid, words or vectors.")

    @property
    def filtered(self) -> bool:
        return bool(self.metadata or self.media_types or self.since or self.until)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A passage before or after the hit."""

    chunk: int
    page: int | None
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers."""

    document: int
    version: int
    name: str
    collection: str
    media_type: str | None
    page: int | None
    chunk: Annotated[int, Field(description="Its position within the document, from 0 on.")]
    start: Annotated[int, Field(description="Where in the page's text it begins, in characters (Unicode code points).")]
    stop: Annotated[int, Field(description="Where in the page's text it ends.")]
    heading: str
    text: Annotated[str, Field(description="The passage; inside a table, the table's header stands before it.")]
    highlights: Annotated[
        list[tuple[int, int]],
        Field(description="The meaningful words of the question: from and before which character of `text`."),
    ]
    score: float
    packet: Annotated[int | None, Field(description="The packet that the document came in.")] = None
    packet_page: Annotated[int | None, Field(description="The page in the packet's consolidated PDF.")] = None
    neighbours: list[Neighbour] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """One page of hits, the best first; whether there are more; and how many seconds it took.

    `fallback` is a sentence if an index did not answer: the reason, and what was done instead.
    """

    hits: list[Hit]
    more: bool
    took: float
    fallback: str = ""
