"""Documents without files and jobs, put into the index as preparing them would."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from asyncpg import Record

from penstock.database import Database, Session
from penstock.models import Models
from penstock.search import CollectionRef, Found, Index, IndexBatch, Passage, Query, find, prepare_model

BLOB = (
    "insert into penstock.blobs (key, digest, size) values ($1, sha256(convert_to($1::text, 'utf8')), 1) returning id"
)


class SearchedTexts:
    """One database with collections of texts; a document's chunks are given as they are."""

    def __init__(self, database: Database, models: Models, *, model: str = "static") -> None:
        self.database = database
        self.models = models
        self.model = model  # as which the vectors of the built-in one are kept
        self.index = Index()
        self.collections: dict[str, CollectionRef] = {}
        self._blob: int | None = None

    async def run(self, query: str, *arguments: Any) -> list[Record]:
        async with self.database.pool.session() as session:
            rows: list[Record] = await session.fetch(query, *arguments)
            return rows

    async def collection(self, name: str = "main", *, language: str = "english") -> CollectionRef:
        if name not in self.collections:
            [row] = await self.run(
                "insert into penstock.collections (name, model, chunk_size, chunk_overlap, ocr_language, search_language) "
                "values ($1, $3, 1000, 100, 'en', $2) returning id",
                name,
                language,
                self.model,
            )
            self.collections[name] = CollectionRef(row["id"], self.model, language)
        return self.collections[name]

    async def accept(
        self, name: str, *, collection: str = "main", metadata: str = "{}", media_type: str = "text/plain"
    ) -> int:
        """A new document without a version."""
        ref = await self.collection(collection)
        [row] = await self.run(
            "insert into penstock.documents (collection_id, name, metadata, media_type) values ($1, $2, $3, $4) returning id",
            ref.id,
            name,
            metadata,
            media_type,
        )
        return int(row["id"])

    async def begin_version(self, document: int) -> int:
        """A version that is accepted and not prepared."""
        if self._blob is None:
            [row] = await self.run(BLOB, "blob")
            self._blob = row["id"]
        [row] = await self.run(
            "with made as (insert into penstock.versions (document_id, number, blob_id) values ($1, 1 + (select count(*) from "
            "penstock.versions where document_id = $1), $2) returning id) update penstock.documents set version_id = made.id, "
            "state = 'queued' from made where documents.id = $1 returning made.id",
            document,
            self._blob,
        )
        return int(row["id"])

    async def entry(
        self, version: int, texts: Sequence[str], *, collection: str = "main", first: int = 0
    ) -> IndexBatch:
        ref = await self.collection(collection)
        passages = [Passage(1 + number // 3, 0, len(text), "", text) for number, text in enumerate(texts, first)]
        vectors = await self.models.open("static").embed(texts)
        return IndexBatch.of(
            version=version,
            collection=ref.id,
            model=self.model,
            language=ref.language,
            first=first,
            passages=passages,
            vectors=vectors,
        )

    async def publish(self, tx: Session, version: int, *, chunks: int, words: int) -> None:
        """As documents/publication.py does: the version's facts, the flip, the tallies."""
        await tx.execute("update penstock.versions set chunks = $2, words = $3 where id = $1", version, chunks, words)
        await tx.execute(
            "insert into penstock.tallies (collection_id, documents, chunks, words) "
            "select document.collection_id, (old.id is null)::int, $2 - coalesce(old.chunks, 0), $3 - coalesce(old.words, 0) "
            "from penstock.documents as document left join penstock.versions as old on old.id = document.live_id "
            "where document.version_id = $1",
            version,
            chunks,
            words,
        )
        await tx.execute(
            "update penstock.documents set live_id = version_id, state = 'ready' where version_id = $1", version
        )

    async def add(self, name: str, texts: Sequence[str], *, collection: str = "main", **facts: Any) -> int:
        """A document that is ready; its id."""
        document = await self.accept(name, collection=collection, **facts)
        await self.replace(document, texts, collection=collection)
        return document

    async def replace(self, document: int, texts: Sequence[str], *, collection: str = "main") -> int:
        """Another version of a document, ready; its id."""
        version = await self.begin_version(document)
        entry = await self.entry(version, texts, collection=collection)
        async with self.database.pool.transaction() as tx:
            words = await self.index.stage(tx, entry)
            await self.publish(tx, version, chunks=len(texts), words=words)
        return version

    async def delete(self, document: int) -> None:
        async with self.database.pool.transaction() as tx:
            await tx.execute(
                "insert into penstock.tallies (collection_id, documents, chunks, words) "
                "select document.collection_id, -1, -live.chunks, -live.words from penstock.documents as document "
                "join penstock.versions as live on live.id = document.live_id where document.id = $1",
                document,
            )
            await tx.execute(
                "update penstock.documents set state = 'deleted', live_id = null, deleted_at = now() where id = $1",
                document,
            )

    async def clear(self, version: int, *, most: int = 2000) -> int:
        """All rows of a version, as its cleaning job does; how many."""
        total = 0
        while True:
            async with self.database.pool.transaction() as tx:
                removed = await self.index.clear(tx, version=version, most=most)
            if not removed:
                return total
            total += removed

    async def search(self, text: str, *names: str, **options: Any) -> Found:
        refs = [self.collections[name] for name in names or self.collections]
        return await find(self.database, self.models, Query(text, refs, **options))

    async def names(self, text: str, *names: str, **options: Any) -> list[str]:
        return [hit.name for hit in (await self.search(text, *names, **options)).hits]


@pytest.fixture(scope="session")
def models() -> Iterator[Models]:
    """Weights are read once; each test has a loop of its own, and the thread belongs to none."""
    opened = Models()
    yield opened
    opened.close()


@pytest.fixture
async def searched_texts(database: Database, models: Models) -> AsyncIterator[SearchedTexts]:
    await prepare_model(database, "static", 256)
    yield SearchedTexts(database, models)
