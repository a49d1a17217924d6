"""One measured side: `python -m benchmarks.documents.side NAME URL FOLDER`. Prints a line of JSON when all is in the index.

All sides use the same readers, the same splitter, the same model and the same PostgreSQL, and all of them index words and
vectors. LangChain writes its own tables, and postings for each of its batches; the bare loop writes what Penstock writes
(pages, chunks, vectors, postings), without jobs, versions, fences or boxes: what it has not committed when it is killed is
lost, and what kills a reader kills the loop.
"""

import json
import multiprocessing
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZE, OVERLAP = 1000, 100
FIRST = 1_000  # version of the loop: some documents are there before
LIMITS = {"pages": 5000, "pixels": 10**8, "characters": 5 * 10**7, "members": 1000, "expansion": 200, "bytes": 2**31}


def read_chunks(path: Path) -> tuple[list[Any], list[Any]]:
    """Pages and chunks by the product's own readers, in this process."""
    from penstock.errors import PenstockError
    from penstock.extraction.chunk import split_pages
    from penstock.extraction.dispatch import read
    from penstock.extraction.result import ExtractedDocument

    with path.open("rb") as file:
        try:
            reading = ExtractedDocument.decode(read(file, {"name": path.name, "limits": LIMITS, "ocr": False}, None))
        except PenstockError:
            return [], []
    return list(reading.pages), split_pages(reading.pages, size=SIZE, overlap=OVERLAP, structured=False)


def run_langchain(url: str, folder: Path) -> dict[str, Any]:
    """`index()` into pgvector, as its documentation has it; documents are made lazily, so that it batches as it likes."""
    from langchain_classic.indexes import SQLRecordManager
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.indexing import index
    from langchain_postgres import PGVector

    from penstock.models.static import StaticModel

    model = StaticModel()

    class Static(Embeddings):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors: list[list[float]] = model.embed(texts).tolist()
            return vectors

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    dsn = url.replace("postgresql://", "postgresql+psycopg://")
    store = with_postings(PGVector, url)(
        Static(), connection=dsn, embedding_length=256, collection_name="bench", use_jsonb=True
    )
    records = SQLRecordManager("pgvector/bench", db_url=dsn)
    records.create_schema()

    def documents() -> Iterator[Document]:
        for path in sorted(folder.iterdir()):
            for number, chunk in enumerate(read_chunks(path)[1]):
                yield Document(chunk.text, metadata={"source": path.name, "page": chunk.page, "number": number})

    began = time.monotonic()
    outcome = index(documents(), records, store, cleanup=None, source_id_key="source", key_encoder="sha256")
    return {"seconds": time.monotonic() - began, "chunks": outcome["num_added"]}


def with_postings(store: Any, url: str) -> Any:
    """The store, which also writes BM25 postings for each batch that it is given, as the other sides do."""
    import psycopg

    from penstock.search.bm25.tokenizer import vocabulary

    connection = psycopg.connect(url, autocommit=True)
    connection.execute(
        'create table postings (term text collate "C", first bigint, entries bytea, primary key (term, first))'
    )
    count_words = vocabulary("english").count
    pack = struct.Struct("<qHH").pack

    class WithPostings(store):  # type: ignore[misc]
        written = 0

        def add_embeddings(self, texts: Any, *arguments: Any, **options: Any) -> Any:
            ids = super().add_embeddings(texts, *arguments, **options)
            postings: dict[str, bytearray] = {}
            for number, text in enumerate(texts, self.written):
                counts = count_words(text)
                words = min(sum(counts.values()), 0xFFFF)
                for term, count in counts.items():
                    postings.setdefault(term, bytearray()).extend(pack(number, min(count, 0xFFFF), words))
            with connection.cursor() as cursor, cursor.copy("copy postings from stdin (format binary)") as copy:
                copy.set_types(["text", "int8", "bytea"])
                for term in sorted(postings):
                    copy.write_row((term, self.written, bytes(postings[term])))
            self.written += len(texts)
            return ids

    return WithPostings


def run_loop(url: str, folder: Path) -> dict[str, Any]:
    """Two processes, each with a connection; a transaction for each document."""
    paths = sorted(folder.iterdir())
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(2, initializer=_open_loop, initargs=(url,)) as pool:
        chunks = sum(pool.imap_unordered(_loop_one, list(enumerate(paths, FIRST)), chunksize=4))
    return {"seconds": time.monotonic() - began, "chunks": chunks}


_loop: Any = None


def _open_loop(url: str) -> None:
    global _loop  # noqa: PLW0603  a process of the pool has nothing else
    from benchmarks.documents.loop import Loop

    _loop = Loop(url)


def _loop_one(numbered: tuple[int, Path]) -> int:
    number, path = numbered
    pages, chunks = read_chunks(path)
    written: int = _loop.write(number, pages, chunks)
    return written


def main() -> None:
    name, url, folder = sys.argv[1:]
    print(json.dumps({"langchain": run_langchain, "loop": run_loop}[name](url, Path(folder))))


if __name__ == "__main__":
    main()
