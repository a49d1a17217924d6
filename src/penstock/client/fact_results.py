"""What `client.facts` gives back; see results.py."""

from dataclasses import dataclass, field

from penstock.client.results import Json, Result


@dataclass(frozen=True, kw_only=True)
class Fact(Result):
    """What a document says, with its own words; `passage` and `score` only where it was searched for."""

    id: int
    statement: str
    kind: str = ""
    relation: str | None = None
    quote: str = ""
    confidence: float = 0.0
    document: int = 0
    version: int = 0
    name: str = ""
    collection: str = ""
    page: int = 0
    start: int = 0
    stop: int = 0
    entities: list[Json] = field(default_factory=list)
    passage: str = ""
    score: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FoundFacts(Result):
    """The hits, the best first."""

    hits: list[Fact]
    more: bool = False
    took_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Entity(Result):
    """A thing that facts are about."""

    id: int
    name: str
    type: str = ""
    facts: int = 0


@dataclass(frozen=True, kw_only=True)
class Extraction(Result):
    """How far a collection is; `asked`: documents that were put in line just now."""

    documents: int = 0
    extracted: int = 0
    partial: int = 0
    windows: int = 0
    facts: int = 0
    rejected: int = 0
    cost: float = 0.0
    keeps: bool = False
    asked: int = 0
