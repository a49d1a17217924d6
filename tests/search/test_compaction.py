"""Compaction: the same answers before, during and after."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from penstock.database import Database
from penstock.search import compact, needs_compaction
from penstock.search.search import indexed_collections
from penstock.search.vectors import VectorTable
from penstock.settings import Settings
from penstock.settings.settings import SearchSettings
from tests.search.conftest import SearchedTexts

WORDS = ("pump", "valve", "turbine", "water", "gate", "river", "dam", "lake", "power", "grid", "steel", "pipe", "flow")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A collection of more than 50 chunks is large."""
    return settings.model_copy(update={"search": SearchSettings(exact_up_to=50)})


async def fill(searched_texts: SearchedTexts, documents: int, *, start: int = 0, collection: str = "main") -> None:
    rng = np.random.default_rng(start)
    for number in range(start, start + documents):
        texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(10)]
        await searched_texts.add(f"d{number}", texts, collection=collection, metadata=f'{{"n": {number}}}')


async def indexed(searched_texts: SearchedTexts) -> list[int]:
    async with searched_texts.database.pool.session() as session:
        ids = [ref.id for ref in searched_texts.collections.values()]
        return await indexed_collections(session, VectorTable("static"), ids)


async def places(searched_texts: SearchedTexts, **options: object) -> list[tuple[int, int]]:
    found = await searched_texts.search("water power", "main", k=30, **options)
    return [(hit.document, hit.chunk) for hit in found.hits]


async def test_a_large_collection_gets_an_index(searched_texts: SearchedTexts) -> None:
    await fill(searched_texts, 12)
    await searched_texts.add("small", ["water"], collection="small")
    before = {mode: await places(searched_texts, mode=mode) for mode in ("hybrid", "words", "vectors")}

    for ref in searched_texts.collections.values():
        await compact(searched_texts.database, ref.id, "static")

    assert await indexed(searched_texts) == [searched_texts.collections["main"].id]
    assert {mode: await places(searched_texts, mode=mode) for mode in before} == before
    assert [row["n"] for row in await searched_texts.run("select count(*) as n from penstock.vectors_static")] == [1]


@pytest.mark.parametrize("rebuilt_up_to", [0, 1000])
async def test_new_vectors_are_found_before_and_after_compaction(
    searched_texts: SearchedTexts, monkeypatch: pytest.MonkeyPatch, rebuilt_up_to: int
) -> None:
    """Whether they are added to the index or it is built again."""
    monkeypatch.setattr("penstock.search.compaction.REBUILT_UP_TO", rebuilt_up_to)
    await fill(searched_texts, 8)
    main = searched_texts.collections["main"]
    await compact(searched_texts.database, main.id, "static")
    await searched_texts.add("new", ["an elephant in the zoo"])

    for more in (0, 6):
        await fill(searched_texts, more, start=100)
        await compact(searched_texts.database, main.id, "static")
        assert (await searched_texts.names("elephants", "main", mode="vectors"))[0] == "new"
        assert await indexed(searched_texts) == [main.id]
        [[delta]] = await searched_texts.run("select count(*) from penstock.vectors_static")
        assert delta == (0 if more else 1), "a short delta stays"


async def test_results_are_never_short(searched_texts: SearchedTexts) -> None:
    """Most of what an index has may be dead, or not pass a filter; the rest is found all the same."""
    await fill(searched_texts, 40)
    main = searched_texts.collections["main"]
    await compact(searched_texts.database, main.id, "static")
    documents = await searched_texts.run("select id from penstock.documents order by id")
    for row in documents[:36]:
        await searched_texts.delete(row["id"])

    assert len(await places(searched_texts, mode="vectors")) == 30, "of 40 that are left"
    assert len(await places(searched_texts, mode="vectors", metadata={"n": 39})) == 10


async def test_an_index_that_was_not_finished_is_made_again(searched_texts: SearchedTexts) -> None:
    await fill(searched_texts, 8)
    main = searched_texts.collections["main"]
    await compact(searched_texts.database, main.id, "static")
    await searched_texts.run(
        "update pg_index set indisvalid = false where indexrelid = $1::regclass",
        f"penstock.folded_vectors_static_{main.id}",
    )
    assert await indexed(searched_texts) == []
    assert len(await places(searched_texts, mode="vectors")) == 30, "without the index"

    await compact(searched_texts.database, main.id, "static")

    assert await indexed(searched_texts) == [main.id]


async def test_one_compaction_at_a_time(searched_texts: SearchedTexts) -> None:
    await fill(searched_texts, 8)
    [[rows]] = await searched_texts.run("select count(*)::int from penstock.postings")

    moved = await asyncio.gather(
        *(compact(searched_texts.database, searched_texts.collections["main"].id, "static") for _ in range(4))
    )

    assert sum(moved) == 80 + rows, "each vector and each row of postings once"


async def test_collections_that_need_compaction(searched_texts: SearchedTexts) -> None:
    await fill(searched_texts, 3)
    version = await searched_texts.begin_version(await searched_texts.accept("unfinished"))
    entry = await searched_texts.entry(version, ["water"] * 40)
    async with searched_texts.database.pool.transaction() as tx:
        await searched_texts.index.stage(tx, entry)

    [needy] = await needs_compaction(searched_texts.database, delta=20)
    assert (needy.collection, needy.model, needy.chunks) == (searched_texts.collections["main"].id, "static", 30)
    await compact(searched_texts.database, needy.collection, needy.model)
    assert await needs_compaction(searched_texts.database, delta=0) == [], (
        "what is not live is not compacted, and needs nothing"
    )


async def test_a_long_row_becomes_several(searched_texts: SearchedTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.search.bm25.postings.LONG", 200)
    for round_ in range(4):
        await fill(searched_texts, 3, start=10 * round_)
        await compact(searched_texts.database, searched_texts.collections["main"].id, "static")

    parts = await searched_texts.run(
        "select part, lowest, highest from penstock.folded_postings where term = 'water' order by part"
    )
    assert len(parts) > 1
    assert all(before["highest"] < after["lowest"] for before, after in pairwise(parts))


async def test_pgvector_is_a_sentence_when_it_is_missing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.errors import DatabaseUnsuitable
    from penstock.search import prepare_model, vectors

    monkeypatch.setattr(vectors.sql.create_extension, "text", "create extension no_such_extension")

    with pytest.raises(DatabaseUnsuitable, match="install pgvector"):
        await prepare_model(database, "another", 256)
    assert (
        await database.pool.repeat(lambda session: session.fetchval("select to_regclass('penstock.vectors_another')"))
        is None
    )
