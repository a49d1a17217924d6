"""Folding: the same answers before, while and after."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from penstock.database import Database
from penstock.search import fold, needs_folding
from penstock.search.near import indexed_collections
from penstock.search.vectors import VectorTable
from penstock.settings import Settings
from penstock.settings.model import SearchSettings
from tests.search.conftest import Library

WORDS = ("pump", "valve", "turbine", "water", "gate", "river", "dam", "lake", "power", "grid", "steel", "pipe", "flow")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A collection of more than 50 chunks is large."""
    return settings.model_copy(update={"search": SearchSettings(exact_up_to=50)})


async def fill(library: Library, documents: int, *, start: int = 0, collection: str = "main") -> None:
    rng = np.random.default_rng(start)
    for number in range(start, start + documents):
        texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(10)]
        await library.add(f"d{number}", texts, collection=collection, metadata=f'{{"n": {number}}}')


async def indexed(library: Library) -> list[int]:
    async with library.database.pool.session() as session:
        ids = [ref.id for ref in library.collections.values()]
        return await indexed_collections(session, VectorTable("static"), ids)


async def places(library: Library, **options: object) -> list[tuple[int, int]]:
    found = await library.search("water power", "main", k=30, **options)
    return [(hit.document, hit.chunk) for hit in found.hits]


async def test_a_large_collection_gets_an_index(library: Library) -> None:
    await fill(library, 12)
    await library.add("small", ["water"], collection="small")
    before = {mode: await places(library, mode=mode) for mode in ("hybrid", "words", "vectors")}

    for ref in library.collections.values():
        await fold(library.database, ref.id, "static")

    assert await indexed(library) == [library.collections["main"].id]
    assert {mode: await places(library, mode=mode) for mode in before} == before
    assert [row["n"] for row in await library.run("select count(*) as n from penstock.vectors_static")] == [1]


@pytest.mark.parametrize("rebuilt_up_to", [0, 1000])
async def test_new_vectors_are_found_before_and_after_they_are_folded(
    library: Library, monkeypatch: pytest.MonkeyPatch, rebuilt_up_to: int
) -> None:
    """Whether they are added to the index or it is made anew."""
    monkeypatch.setattr("penstock.search.folding.REBUILT_UP_TO", rebuilt_up_to)
    await fill(library, 8)
    main = library.collections["main"]
    await fold(library.database, main.id, "static")
    await library.add("new", ["an elephant in the zoo"])

    for more in (0, 6):
        await fill(library, more, start=100)
        await fold(library.database, main.id, "static")
        assert (await library.names("elephants", "main", mode="vectors"))[0] == "new"
        assert await indexed(library) == [main.id]
        [[tail]] = await library.run("select count(*) from penstock.vectors_static")
        assert tail == (0 if more else 1), "a short tail stays"


async def test_results_are_never_short(library: Library) -> None:
    """Most of what an index has may be dead, or not pass a filter; the rest is found all the same."""
    await fill(library, 40)
    main = library.collections["main"]
    await fold(library.database, main.id, "static")
    documents = await library.run("select id from penstock.documents order by id")
    for row in documents[:36]:
        await library.delete(row["id"])

    assert len(await places(library, mode="vectors")) == 30, "of 40 that are left"
    assert len(await places(library, mode="vectors", metadata={"n": 39})) == 10


async def test_an_index_that_was_not_finished_is_made_again(library: Library) -> None:
    await fill(library, 8)
    main = library.collections["main"]
    await fold(library.database, main.id, "static")
    await library.run(
        "update pg_index set indisvalid = false where indexrelid = $1::regclass",
        f"penstock.folded_vectors_static_{main.id}",
    )
    assert await indexed(library) == []
    assert len(await places(library, mode="vectors")) == 30, "without the index"

    await fold(library.database, main.id, "static")

    assert await indexed(library) == [main.id]


async def test_one_fold_at_a_time(library: Library) -> None:
    await fill(library, 8)
    [[rows]] = await library.run("select count(*)::int from penstock.postings")

    moved = await asyncio.gather(*(fold(library.database, library.collections["main"].id, "static") for _ in range(4)))

    assert sum(moved) == 80 + rows, "each vector and each row of postings once"


async def test_who_needs_folding(library: Library) -> None:
    await fill(library, 3)
    version = await library.begin_version(await library.accept("unfinished"))
    entry = await library.entry(version, ["water"] * 40)
    async with library.database.pool.transaction() as tx:
        await library.index.stage(tx, entry)

    [needy] = await needs_folding(library.database, tail=20)
    assert (needy.collection, needy.model, needy.chunks) == (library.collections["main"].id, "static", 30)
    await fold(library.database, needy.collection, needy.model)
    assert await needs_folding(library.database, tail=0) == [], "what is not live is not folded, and asks for nothing"


async def test_a_long_row_becomes_several(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.search.postings.LONG", 200)
    for round_ in range(4):
        await fill(library, 3, start=10 * round_)
        await fold(library.database, library.collections["main"].id, "static")

    parts = await library.run(
        "select part, lowest, highest from penstock.folded_postings where term = 'water' order by part"
    )
    assert len(parts) > 1
    assert all(before["highest"] < after["lowest"] for before, after in pairwise(parts))


async def test_pgvector_is_a_sentence_when_it_is_missing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.errors import DatabaseUnsuitable
    from penstock.search import prepare_model, vectors

    monkeypatch.setattr(vectors.templates.create_extension, "text", "create extension no_such_extension")

    with pytest.raises(DatabaseUnsuitable, match="install pgvector"):
        await prepare_model(database, "another", 256)
    assert (
        await database.pool.repeat(lambda session: session.fetchval("select to_regclass('penstock.vectors_another')"))
        is None
    )
