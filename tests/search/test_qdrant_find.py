"""Search in a collection whose vectors are in Qdrant: what PostgreSQL shows counts, and it answers when Qdrant does not."""

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.search import CollectionRef, Found, Query, find
from penstock.search.bm25.postings import chunk_key
from penstock.search.qdrant import query
from penstock.search.qdrant.client import Qdrant
from penstock.search.qdrant.sync import BEFORE_ALL, ChunkRange, QdrantDiff, runs_of
from penstock.settings.storage import QdrantSettings
from tests.search.conftest import SearchedTexts
from tests.search.qdrant_stand_in import StandIn, stand_in

__all__ = ["stand_in"]

TEXTS = {
    "mill.txt": ["The mill grinds corn.", "Its wheel turns in the river."],
    "bank.txt": ["The bank lends money.", "Interest is paid each year."],
    "boat.txt": ["A boat floats on the river.", "It carries corn to the town."],
}


class Far:
    """Texts whose collection is searched in Qdrant."""

    def __init__(self, searched_texts: SearchedTexts, server: StandIn, qdrant: Qdrant) -> None:
        self.searched_texts = searched_texts
        self.server = server
        self.qdrant = qdrant

    async def move(self) -> None:
        """All that is live, as the reconciler does it."""
        await self.searched_texts.run("update penstock.collections set index = 'qdrant', has_points = true")
        comparing = QdrantDiff(self.searched_texts.database, self.qdrant, "static")
        after: int | None = BEFORE_ALL
        while after is not None:
            page = await comparing.compare(after)
            await comparing.fix(page)
            after = page.upto

    async def ask(self, text: str, *, index: str = "qdrant", mode: Any = "vectors", **more: Any) -> Found:
        ref = self.searched_texts.collections["main"]
        far = CollectionRef(ref.id, ref.model, ref.language, index)
        return await find(
            self.searched_texts.database, self.searched_texts.models, Query(text, [far], mode=mode, **more), self.qdrant
        )


@pytest.fixture
async def far(searched_texts: SearchedTexts, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Far]:
    monkeypatch.setattr(query, "REST", 0.0)
    for name, texts in TEXTS.items():
        await searched_texts.add(name, texts, metadata=f'{{"name": "{name}"}}')
    client = Qdrant(QdrantSettings(url=stand_in.url, search_timeout="1s", timeout="5s"))
    made = Far(searched_texts, stand_in, client)
    await made.move()
    yield made
    await client.aclose()


def told(found: Found) -> list[tuple[str, int]]:
    return [(hit.name, hit.chunk) for hit in found.hits]


def scores(found: Found) -> list[float]:
    return [hit.score for hit in found.hits]


@pytest.mark.parametrize("mode", ["vectors", "hybrid"])
async def test_both_indexes_find_the_same(far: Far, mode: str) -> None:
    for question in ("where does the water flow", "loans", "corn"):
        there = await far.ask(question, mode=mode)
        here = await far.ask(question, mode=mode, index="postgres")
        assert told(there) == told(here)
        assert scores(there) == pytest.approx(scores(here), abs=1e-3)
        assert (len(there.hits) > 2, there.fallback) == (True, "")
    assert "POST /collections/penstock-static/points/query" in far.server.asked


async def test_what_is_not_live_is_not_found(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted, replaced, of a version that is gone, or after the last chunk: whatever Qdrant still has."""
    monkeypatch.setattr(sys.modules["penstock.search.search"], "NEAREST", 3)  # `find` is also a function of the package
    rows = await far.searched_texts.run("select id, live_id from penstock.documents where name = 'boat.txt'")
    await far.searched_texts.replace(rows[0]["id"], ["A boat sinks."])
    before = len(far.server.asked)
    vector = far.server.points()[chunk_key(rows[0]["live_id"], 0)]
    for key in (chunk_key(9999, 0), chunk_key(rows[0]["live_id"] - 1, 77)):
        far.server.points()[key] = vector
    found = await far.ask("A boat floats on the river.", k=2)
    assert found.hits[0].text == "Its wheel turns in the river."
    assert far.server.asked[before:].count("POST /collections/penstock-static/points/query") == 2, "once more, deeper"
    await far.move()
    assert (await far.ask("A boat sinks.", k=1)).hits[0].text == "A boat sinks."


async def test_little_that_filters_leave_needs_no_index(far: Far) -> None:
    """Few versions are searched in PostgreSQL; what Qdrant has found does not count."""
    far.server.kept.clear()
    found = await far.ask("river", metadata={"name": "mill.txt"})
    assert [hit.name for hit in found.hits] == ["mill.txt", "mill.txt"]
    assert found.fallback == ""


@pytest.mark.parametrize("mood", ["slow", "500", "busy", "away"])
async def test_who_does_not_answer_is_done_without(far: Far, mood: Any) -> None:
    if mood == "away":
        await far.server.stop()
    far.server.mood = mood if mood != "away" else "well"
    before = query.fallbacks.labels("exact")._value.get()
    found = await far.ask("corn", mode="hybrid")
    assert told(found) == told(await far.ask("corn", mode="hybrid", index="postgres"))
    assert found.fallback.endswith("PostgreSQL compared all vectors instead.")
    assert query.fallbacks.labels("exact")._value.get() == before + 1


async def test_a_large_collection_is_found_by_its_words(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "EXACT_UP_TO", 3)
    monkeypatch.setattr(query, "REST", 60.0)
    far.server.mood = "busy"
    found = await far.ask("corn", mode="hybrid")
    assert sorted(hit.name for hit in found.hits) == ["boat.txt", "mill.txt"]
    assert found.fallback.endswith("searched by words alone.")
    asked = len(far.server.asked)
    await far.ask("corn", mode="hybrid")
    assert len(far.server.asked) == asked, "for a while nobody asks"


def test_ordinals_as_runs() -> None:
    assert list(runs_of(7, [0, 1, 2, 5, 6], most=2)) == [ChunkRange(7, 0, 2), ChunkRange(7, 2, 3), ChunkRange(7, 5, 7)]
    assert list(runs_of(7, [], most=2)) == []
