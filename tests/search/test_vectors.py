"""Vectors of several models: found by their tables, counted, removed together."""

import numpy as np

from penstock.search import IndexBatch, Passage, VectorTable, prepare_model
from penstock.search.vectors import made_models, vector_rows
from tests.search.conftest import SearchedTexts


async def stage_both(searched_texts: SearchedTexts, chunks: int) -> int:
    """A version that is not live, with vectors by two models."""
    ref = await searched_texts.collection()
    await prepare_model(searched_texts.database, "two-3", 3)
    version = await searched_texts.begin_version(await searched_texts.accept("both"))
    texts = [f"water {number}" for number in range(chunks)]
    entry = IndexBatch.of(
        version=version,
        collection=ref.id,
        model="static",
        language=ref.language,
        first=0,
        passages=[Passage(1, 0, len(text), "", text) for text in texts],
        vectors=await searched_texts.models.open("static").embed(texts),
        others={"two-3": np.ones((chunks, 3), dtype=np.float32)},
    )
    async with searched_texts.database.pool.transaction() as tx:
        await searched_texts.index.stage(tx, entry)
    return version


async def test_models_are_found_by_their_tables(searched_texts: SearchedTexts) -> None:
    await prepare_model(searched_texts.database, "two-3", 3)
    async with searched_texts.database.pool.session() as session:
        assert await made_models(session) == ["static", "two-3"]


async def test_a_version_is_cleared_of_all_models(searched_texts: SearchedTexts) -> None:
    version = await stage_both(searched_texts, 5)
    collection = searched_texts.collections["main"].id
    async with searched_texts.database.pool.session() as session:
        for model in ("static", "two-3"):
            assert await VectorTable(model).counts(session, collection, [version]) == {version: 5}
    assert await searched_texts.clear(version, most=3) > 10, "in batches"
    async with searched_texts.database.pool.session() as session:
        for model in ("static", "two-3"):
            assert await VectorTable(model).counts(session, collection, [version]) == {}


async def test_vectors_of_several_versions_are_copied_together(searched_texts: SearchedTexts) -> None:
    collection = (await searched_texts.collection()).id
    table = VectorTable("two-3")
    await prepare_model(searched_texts.database, "two-3", 3)
    versions, ordinals = np.array([7, 7, 8]), np.array([0, 2, 1], dtype=np.int32)
    rows = vector_rows(versions, ordinals, collection, np.eye(3, dtype=np.float32))
    async with searched_texts.database.pool.transaction() as tx:
        await table.copy(tx, rows, compacted=True)
        await table.copy(tx, vector_rows(7, np.array([1], dtype=np.int32), collection, np.ones((1, 3), np.float32)))
        assert await table.counts(tx, collection, [7, 8, 9]) == {7: 3, 8: 1}
        assert await table.ordinals(tx, collection, 7) == [0, 1, 2]
        assert await table.remove_collection(tx, collection, 3) == 3
        assert await table.remove_collection(tx, collection, 3) == 1
        assert await table.remove_collection(tx, collection + 1, 3) == 0
