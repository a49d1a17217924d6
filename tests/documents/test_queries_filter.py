"""Looking through documents, newest first, by conditions of which most have no index."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.documents import DocumentFilter, browse, queries, select_matching
from penstock.engine import Penstock
from penstock.errors import BadValue

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def many(app: Penstock) -> Penstock:
    """A hundred documents, one a day, of two collections and two types; every tenth has failed."""
    async with app.database.pool.session() as session:
        await session.execute(
            """
            insert into penstock.collections (name, model, chunk_size, chunk_overlap, ocr_language, search_language)
            select name, 'none', 1000, 0, 'en', 'en' from unnest(array['a', 'b']) as name;
            insert into penstock.documents (id, collection_id, name, state, media_type, created_at, error)
            select 1000 + n, (select id from penstock.collections where name = case n % 2 when 0 then 'a' else 'b' end),
              format('Report %s.txt', n), case n % 10 when 0 then 'failed' else 'queued' end,
              case n % 4 when 0 then 'text/plain' else 'application/pdf' end,
              timestamptz '2026-01-01 00:00 UTC' + n * interval '1 day', case n % 10 when 0 then '{}'::jsonb end
            from generate_series(1, 100) as n
            """
        )
    return app


async def numbers(app: Penstock, most: int = 7, **wanted: Any) -> list[int]:
    """All pages, one after the other."""
    found: list[int] = []
    before: int | None = 2**63 - 1
    while before is not None:
        page = await browse(app, DocumentFilter(**wanted), before=before, most=most)
        assert len(page.documents) <= most
        found += [each.id - 1000 for each in page.documents]
        before = page.next
    assert found == sorted(set(found), reverse=True), "newest first, none twice"
    return found


async def test_browse_by_each_condition(many: Penstock) -> None:
    assert await numbers(many) == list(range(100, 0, -1))
    assert await numbers(many, status="failed") == list(range(100, 0, -10))
    assert await numbers(many, name="REPORT 9") == [*range(99, 89, -1), 9]
    assert await numbers(many, name="100%") == []
    assert await numbers(many, media_type="text") == list(range(100, 0, -4))
    assert await numbers(many, media_type="text/plain", status="failed") == list(range(100, 0, -20))
    since, until = START + timedelta(days=10), START + timedelta(days=13)
    assert await numbers(many, since=since, until=until) == [12, 11, 10]
    assert await numbers(many, until=START) == []
    async with many.database.pool.session() as session:
        a = await session.fetchval("select id from penstock.collections where name = 'a'")
    assert await numbers(many, collections=[a]) == list(range(100, 0, -2))
    assert await numbers(many, collections=[]) == []
    with pytest.raises(BadValue, match="'odd' is not a status"):
        await browse(many, DocumentFilter(status="odd"))


async def test_a_page_ends_where_enough_was_looked_through(many: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "WINDOWS", (30,))
    page = await browse(many, DocumentFilter(name="report 5.txt"))
    assert ([each.id for each in page.documents], page.looked_through, page.next) == ([], 29, 1072)
    assert await numbers(many, name="report 5.txt") == [5]


async def test_select_matching(many: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same documents as `browse`, in any order, counted, and up to an id."""

    async def select(**options: Any) -> tuple[list[int], int]:
        wanted = DocumentFilter(**{key: options.pop(key) for key in ("status", "name", "until") if key in options})
        found = await select_matching(many, wanted, **options)
        assert found.looked_through is None
        return [each - 1000 for each in found.ids], found.total

    assert await select(most=3) == ([100, 99, 98], 100)
    assert await select(most=3, offset=98) == ([2, 1], 100)
    assert await select(order="oldest", most=2) == ([1, 2], 100)
    assert await select(order="name", name="report 9", most=3) == ([9, 90, 91], 11)
    assert await select(status="failed", most=2, up_to=1055) == ([50, 40], 5)
    assert await select(status="queued", most=1) == ([99], 90)
    assert await select(status="processing") == ([], 0)
    assert await select(until=START + timedelta(days=3), order="changed", most=5) == ([2, 1], 2)
    assert await select(name="nothing") == ([], 0)
    monkeypatch.setattr(queries, "SELECTED", 10)
    cut = await select_matching(many, DocumentFilter(name="Report"), most=50)
    assert (len(cut.ids), cut.total) == (10, 10)
    assert cut.looked_through, "there may be more"
