"""Vectors of small texts: they are found by meaning within their group, and go with the rows that they belong to."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.database import Database
from penstock.database.tenancy import only
from penstock.errors import DatabaseUnsuitable
from penstock.search.row_vectors import RowVectors, build_missing_indexes, models_of

FILL = """
insert into penstock.collections (id, tenant, name, model, chunk_size, chunk_overlap, ocr_language, search_language)
  overriding system value select n, t, 'c', 'static', 1000, 0, 'en', 'english'
  from (values (1, 'default'), (2, 'rival')) as c(n, t);
insert into penstock.blobs (id, key, digest, size) overriding system value values (1, 'k', sha256('k'), 1);
insert into penstock.documents (id, tenant, collection_id, name) values (7, 'default', 1, 'd'), (8, 'rival', 2, 'd');
insert into penstock.versions (id, tenant, document_id, number, blob_id) values (1, 'default', 7, 1, 1), (2, 'rival', 8, 1, 1);
insert into penstock.extractions (id, tenant, collection_id, document_id, version_id, config, llm, embedder, job_id)
  overriding system value select n, t, n, n + 6, n, 'p', 'main', 'tiny', 1
  from (values (1, 'default'), (2, 'rival')) as e(n, t);
insert into penstock.facts (id, tenant, collection_id, version_id, extraction_id, ordinal, kind, statement, quote, page,
  start, stop, confidence, words) overriding system value
  select n, case g when 1 then 'default' else 'rival' end, g, g, g, n, 'statement', 's', 'q', 1, 0, 1, 1, ''
  from generate_series(1, 60) as n cross join lateral (select 1 + (n > 40)::int as g) as h;
"""


def circle(count: int) -> "NDArray[np.float32]":
    """Vectors of length 1, each a little further from the first."""
    angles = np.linspace(0, 1.5, count)
    return np.stack([np.cos(angles), np.sin(angles), np.zeros(count)], axis=1).astype(np.float32)


@pytest.fixture
async def likeness(database: Database) -> RowVectors:
    made = RowVectors("facts", "tiny")
    await made.prepare(database, 3)
    vectors = circle(40)
    async with database.pool.transaction() as tx:
        await tx.execute(FILL)
        await made.put(tx, 1, range(1, 41), vectors)
        await made.put(tx, 2, range(41, 61), vectors[:20])
    return made


async def near(database: Database, likeness: RowVectors, groups: list[int], most: int = 5) -> list[tuple[int, float]]:
    asked = np.array([1, 0, 0], dtype=np.float32)
    return await database.pool.repeat(likeness.nearest, groups, asked, most)


async def test_the_nearest_of_a_group_come_first(database: Database, likeness: RowVectors) -> None:
    found = await near(database, likeness, [1])
    assert [number for number, _ in found] == [1, 2, 3, 4, 5]
    assert found[0][1] == pytest.approx(1.0, abs=0.001)
    assert found == sorted(found, key=lambda each: -each[1])
    both = await near(database, likeness, [1, 2], most=4)
    assert {number for number, _ in both} == {1, 2, 41, 42}
    assert await near(database, likeness, [3]) == []
    assert await near(database, RowVectors("facts", "unknown"), [1]) == []


async def test_a_vector_goes_with_its_row(database: Database, likeness: RowVectors) -> None:
    async with database.pool.transaction() as tx:
        await tx.execute("delete from penstock.facts where id = 1")
    assert [number for number, _ in await near(database, likeness, [1])] == [2, 3, 4, 5, 6]
    async with database.pool.transaction() as tx:
        await tx.execute("delete from penstock.versions where id = 1")
    assert await near(database, likeness, [1]) == []


async def test_nobody_sees_another_tenant_s(database: Database, likeness: RowVectors) -> None:
    with only("rival"):
        assert {number for number, _ in await near(database, likeness, [1, 2], most=60)} == set(range(41, 61))
    with only("nobody"):
        assert await near(database, likeness, [1, 2], most=60) == []


async def test_preparing_again_is_the_same_and_another_length_is_refused(
    database: Database, likeness: RowVectors
) -> None:
    await likeness.prepare(database, 3)
    assert len(await near(database, likeness, [1])) == 5
    with pytest.raises(DatabaseUnsuitable, match="have vectors of 3 dimensions, but the model returns 4"):
        await likeness.prepare(database, 4)
    async with database.pool.session() as session:
        assert await models_of(session, "facts") == ["tiny"]
        assert await models_of(session, "memos") == []
    for of, model in (("jobs", "tiny"), ("facts", 'x" drop'), ("facts", "")):
        with pytest.raises(ValueError, match="cannot have vectors"):
            RowVectors(of, model)


async def plan(database: Database) -> str:
    async def explain(session: Any) -> str:
        await session.execute("set enable_seqscan = off")
        rows = await session.fetch(
            "explain select id from penstock.\"facts_near_tiny\" order by embedding <#> '[1,0,0]'::halfvec limit 5"
        )
        await session.execute("reset enable_seqscan")
        return "\n".join(row[0] for row in rows)

    return await database.pool.repeat(explain)


async def test_a_large_table_gets_an_index(
    database: Database, likeness: RowVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await build_missing_indexes(database) == 0
    monkeypatch.setattr("penstock.search.row_vectors.MANY", 10)
    async with database.pool.session() as session:
        await session.execute('analyze penstock."facts_near_tiny"')
    assert "by_meaning" not in await plan(database)
    assert await build_missing_indexes(database) == 1
    assert "by_meaning" in await plan(database)
    assert await build_missing_indexes(database) == 0
    assert [number for number, _ in await near(database, likeness, [1])] == [1, 2, 3, 4, 5]
