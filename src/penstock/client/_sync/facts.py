# Made from ../_async/facts.py by `python -m tests.client.unasync`: change that one.
"""`client.facts`: what documents say, as a language model has read it."""

from collections.abc import Iterator, Sequence

from penstock.client._sync.wire import Wire
from penstock.client.decoding import decode
from penstock.client.fact_results import Entity, Extraction, Fact, FoundFacts


class Facts:
    """Facts of documents and collections."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def search(
        self, question: str, *, collection: str | Sequence[str] | None = None, k: int = 10, offset: int = 0
    ) -> FoundFacts:
        """The facts that answer best, each with its quote and the passage around it."""
        wish = {
            "q": question,
            "collection": collection if collection is None or isinstance(collection, str) else list(collection),
            "k": k,
            "offset": offset,
        }
        return decode(FoundFacts, self._wire.ask("GET", "/api/facts/search", query=wish))

    def list(self, document: int, *, page: int = 100) -> Iterator[Fact]:
        """What was read in a document."""
        return self._wire.pages("GET", "/api/documents/{id}/facts", Fact, at={"id": document}, query={"limit": page})

    def entities(self, collection: str, *, type: str | None = None, page: int = 100) -> Iterator[Entity]:  # noqa: A002
        """The things that the facts of a collection are about."""
        return self._wire.pages(
            "GET",
            "/api/collections/{collection}/entities",
            Entity,
            at={"collection": collection},
            query={"type": type, "limit": page},
        )

    def extract(self, collection: str, *, again: bool = False, keep: bool | None = None) -> Extraction:
        """Have documents read; `keep`: new ones, too, from now on. Unavailable if the server has no language model."""
        asked = self._wire.ask(
            "POST",
            "/api/collections/{collection}/extract",
            at={"collection": collection},
            body={"again": again, "keep": keep},
        )
        return decode(Extraction, asked)

    def status(self, collection: str) -> Extraction:
        """How far a collection is."""
        shown = self._wire.ask("GET", "/api/collections/{collection}/extraction", at={"collection": collection})
        return decode(Extraction, shown)
