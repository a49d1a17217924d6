"""The index of a version: its chunks, their vectors, their postings. Written unseen, removed in batches.

    entry = IndexBatch.of(version=7, …)               # the work, without a connection
    async with ctx.write() as tx:                # no search sees it before documents.live_id names the version
        words += await index.stage(tx, entry)

Everything happens in the caller's transaction. A version is hidden from its first row on, and a trigger shows it when it
becomes live (schema/0004_documents.sql).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.database import Session, statements
from penstock.errors import WrongState
from penstock.search.bm25.postings import COUNT_MAX, bucket_of, chunk_key, pack, remove_postings, take_turn
from penstock.search.bm25.tokenizer import vocabulary
from penstock.search.vectors import VectorTable, made_models, vector_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)


class Passage(NamedTuple):
    """A part of a page, as it is searched and shown."""

    page: int | None
    start: int
    stop: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """A batch of passages as rows. Their ordinals follow each other from `first` on."""

    version: int
    collection: int
    first: int
    words: int
    passages: Sequence[Passage]
    postings: Mapping[str, bytes]  # by term
    buckets: Sequence[int]  # of each term
    vectors: Mapping[str, bytearray]  # by model

    @classmethod
    def of(  # noqa: PLR0913  what a batch is, by name
        cls,
        *,
        version: int,
        collection: int,
        model: str,
        language: str,
        first: int,
        passages: Sequence[Passage],
        vectors: "NDArray[np.float32]",
        others: "Mapping[str, NDArray[np.float32]] | None" = None,
    ) -> "IndexBatch":
        """Takes some milliseconds for a hundred passages: call it without a connection, best in a thread.

        `others` are the vectors by other models than the collection's own, for a collection that is about to change it.
        """
        import numpy as np

        ordinals = np.arange(first, first + len(passages), dtype=np.int32)
        count_words = vocabulary(language).count
        postings: dict[str, bytes] = {}
        total = 0
        for ordinal, passage in enumerate(passages, first):
            counts = count_words(searched_text(passage.heading, passage.text))
            words = min(sum(counts.values()), COUNT_MAX)
            total += words
            key = chunk_key(version, ordinal)
            entries = {count: pack(key, count, words) for count in set(counts.values())}  # few, for many terms
            for term, count in counts.items():
                postings[term] = postings.get(term, b"") + entries[count]
        return cls(
            version=version,
            collection=collection,
            first=first,
            words=total,
            passages=passages,
            postings=postings,
            buckets=[bucket_of(term) for term in postings],
            vectors={
                name: vector_rows(version, ordinals, collection, rows)
                for name, rows in {model: vectors, **(others or {})}.items()
            },
        )


class Index:
    async def stage(self, tx: Session, entry: IndexBatch) -> int:
        """Write a batch that search does not see yet; the number of its words, for the tallies."""
        if entry.passages:
            await sql.stage_batch.run(
                tx,
                version=entry.version,
                collection=entry.collection,
                first=entry.first,
                chunks=len(entry.passages),
                pages=[passage.page for passage in entry.passages],
                starts=[passage.start for passage in entry.passages],
                stops=[passage.stop for passage in entry.passages],
                headings=[passage.heading for passage in entry.passages],
                texts=[passage.text for passage in entry.passages],
                terms="\n".join(entry.postings),  # one text: the driver takes its time with each element of an array
                buckets=entry.buckets,
                entries=list(entry.postings.values()),
            )
            for model, rows in entry.vectors.items():
                await VectorTable(model).copy(tx, rows)
        return entry.words

    async def clear(self, tx: Session, *, version: int, most: int = 2000) -> int:
        """Remove some rows of a version that is not live, the vectors of all models; how many. At 0, nothing is left."""
        if await sql.is_live.value(tx, version=version):
            raise WrongState(f"Version {version} is live: its rows cannot be removed.")
        collection = await sql.collection_of.value(tx, version=version)
        if collection is None:
            return 0
        await take_turn(tx, collection)
        removed = 0
        for model in await made_models(tx):
            if removed < most:
                removed += await VectorTable(model).remove(tx, collection, version, most - removed)
        if removed < most:
            removed += await remove_postings(tx, version, most - removed)
        if removed < most:
            removed += await sql.remove_chunks.value(tx, version=version, most=most - removed)
        if removed == 0:
            await sql.forget_version.run(tx, version=version)
        return removed


def searched_text(heading: str, text: str) -> str:
    """The text by which a chunk is found; the words of its heading often stand nowhere else."""
    return f"{heading}\n{text}" if heading else text
