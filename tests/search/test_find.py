"""Search as a person meets it."""

import asyncio
from datetime import timedelta

import pytest

from penstock.errors import BadValue, DatabaseUnsuitable
from penstock.search import CollectionRef, Query, find, prepare_model
from tests.search.conftest import SearchedTexts


async def test_words_find_their_document(searched_texts: SearchedTexts) -> None:
    await searched_texts.add("pumps.txt", ["The pump feeds the turbine.", "Valves are closed at night."])
    await searched_texts.add("cats.txt", ["A cat sleeps on the sofa."])

    found = await searched_texts.search("pumping valves")

    assert found.hits[0].name == "pumps.txt"
    assert {hit.chunk for hit in found.hits[:2]} == {0, 1}
    assert not found.more


async def test_meaning_finds_what_words_do_not(searched_texts: SearchedTexts) -> None:
    await searched_texts.add("animals.txt", ["A kitten plays with the dog."])
    await searched_texts.add("money.txt", ["The bank raised its interest rates."])

    assert await searched_texts.names("cats", mode="words") == []
    assert (await searched_texts.names("cats", mode="vectors"))[0] == "animals.txt"
    assert (await searched_texts.names("cats"))[0] == "animals.txt"


async def test_a_hit_tells_where_it_stands(searched_texts: SearchedTexts) -> None:
    document = await searched_texts.add("pumps.txt", ["nothing here", "The Pump, two pumps; pumping.", "nor here"])

    [hit] = (await searched_texts.search("pump", mode="words", neighbours=1)).hits

    assert (hit.document, hit.name, hit.collection, hit.page, hit.chunk) == (document, "pumps.txt", "main", 1, 1)
    assert [hit.text[start:stop] for start, stop in hit.highlights] == ["Pump", "pumps", "pumping"]
    assert [(each.chunk, each.text) for each in hit.neighbours] == [(0, "nothing here"), (2, "nor here")]
    assert hit.score > 0


async def test_capitals_mean_the_same(searched_texts: SearchedTexts) -> None:
    await searched_texts.add("animals.txt", ["A kitten plays with the dog."])
    await searched_texts.add("money.txt", ["The bank raised its interest rates."])

    quiet, loud = (
        await searched_texts.search("a young cat", mode="vectors"),
        await searched_texts.search("A YOUNG CAT", mode="vectors"),
    )

    assert [hit.score for hit in loud.hits] == [hit.score for hit in quiet.hits]


async def test_collections_are_apart(searched_texts: SearchedTexts) -> None:
    await searched_texts.add("a", ["pump"], collection="one")
    await searched_texts.add("b", ["pump"], collection="two")

    assert await searched_texts.names("pump", "one") == ["a"]
    assert sorted(await searched_texts.names("pump", "one", "two")) == ["a", "b"]


async def test_each_collection_is_asked_in_its_language(searched_texts: SearchedTexts) -> None:
    await searched_texts.collection("deutsch", language="german")
    await searched_texts.add("d", ["Die Häuser am Fluss"], collection="deutsch")
    await searched_texts.add("e", ["The houses at the river"], collection="english")

    assert await searched_texts.names("Haus", "deutsch", "english", mode="words") == ["d"]
    assert await searched_texts.names("house", "deutsch", "english", mode="words") == ["e"]


@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
async def test_filters_leave_what_they_say(searched_texts: SearchedTexts, mode: str) -> None:
    await searched_texts.add("a", ["pump one"], metadata='{"year": 2024, "tags": ["x", "y"]}', media_type="text/plain")
    await searched_texts.add("b", ["pump two"], metadata='{"year": 2023}', media_type="application/pdf")
    [row] = await searched_texts.run("select created_at as at from penstock.documents where name = 'b'")

    assert await searched_texts.names("pump", mode=mode, metadata={"year": 2024}) == ["a"]
    assert await searched_texts.names("pump", mode=mode, metadata={"tags": ["x"]}) == ["a"]
    assert await searched_texts.names("pump", mode=mode, metadata={"year": 1999}) == []
    assert await searched_texts.names("pump", mode=mode, media_types=["application/pdf", "text/html"]) == ["b"]
    assert await searched_texts.names("pump", mode=mode, since=row["at"]) == ["b"]
    assert await searched_texts.names("pump", mode=mode, until=row["at"]) == ["a"]
    assert await searched_texts.names("pump", mode=mode, since=row["at"] + timedelta(days=1)) == []


@pytest.mark.parametrize("mode", ["hybrid", "words", "vectors"])
async def test_pages_fit_together(searched_texts: SearchedTexts, mode: str) -> None:
    """Many equal scores among them: their order must not depend on the page."""
    for number in range(6):
        await searched_texts.add(f"d{number}", [f"pump {'water ' * (n % 3)}" for n in range(25)])

    whole = [
        hit
        for start in (0, 100)
        for hit in (await searched_texts.search("pump water", mode=mode, k=100, offset=start)).hits
    ]
    paged = []
    for start in range(0, 150, 7):
        found = await searched_texts.search("pump water", mode=mode, k=7, offset=start)
        paged += found.hits
        assert found.more == (start + 7 < 150)

    assert [(hit.document, hit.chunk) for hit in paged] == [(hit.document, hit.chunk) for hit in whole]
    assert len({(hit.document, hit.chunk) for hit in paged}) == 150


async def test_a_phrase_is_found_as_it_is(searched_texts: SearchedTexts) -> None:
    await searched_texts.add("a", ["the power plant is old"])
    await searched_texts.add("b", ["plant power into the ground"])

    assert set(await searched_texts.names("power plant")) == {"a", "b"}
    assert await searched_texts.names('"power plants"') == ["a"]
    assert await searched_texts.names('"power plant" ground') == ["a"]
    assert await searched_texts.names('"power ground"') == []


async def test_replaced_and_deleted_text_is_gone_at_once(searched_texts: SearchedTexts) -> None:
    document = await searched_texts.add("a", ["pump"])
    await searched_texts.replace(document, ["valve"])
    assert await searched_texts.names("pump", mode="words") == []
    assert await searched_texts.names("valve", mode="words") == ["a"]

    await searched_texts.delete(document)

    for mode in ("hybrid", "words", "vectors"):
        assert await searched_texts.names("valve", mode=mode) == []


async def test_a_question_sees_one_moment(searched_texts: SearchedTexts) -> None:
    """While a document is replaced again and again, each question finds it once."""
    document = await searched_texts.add("a", ["pump 0"])
    over = asyncio.Event()

    async def replace() -> None:
        for number in range(15):
            await searched_texts.replace(document, [f"pump {number}"])
        over.set()

    async def ask() -> int:
        asked = 0
        while not over.is_set():
            for mode in ("hybrid", "words", "vectors"):
                assert await searched_texts.names("pump", mode=mode) == ["a"]
                asked += 1
        return asked

    _, asked = await asyncio.gather(replace(), ask())
    assert asked > 0


@pytest.mark.parametrize("text", ["", "   ", "???", "\u200b", '""', "日", "x" * 2000, "' or 1=1 --", "😀"])
async def test_any_question_has_an_answer(searched_texts: SearchedTexts, text: str) -> None:
    await searched_texts.add("a", ["日本 and x"])

    for mode in ("hybrid", "words", "vectors"):
        assert (await searched_texts.search(text, mode=mode)).took >= 0


@pytest.mark.parametrize(
    "options",
    [
        {"k": 0},
        {"k": 101},
        {"offset": -1},
        {"offset": 1001},
        {"neighbours": 11},
        {"mode": "magic"},
        {"text": "x" * 2001},
    ],
)
def test_what_cannot_be_asked_is_said(options: dict[str, object]) -> None:
    with pytest.raises(BadValue):
        Query(**({"text": "x", "collections": []} | options))  # type: ignore[arg-type]


async def test_nothing_is_found_where_nothing_is(searched_texts: SearchedTexts) -> None:
    await searched_texts.collection()

    for mode in ("hybrid", "words", "vectors"):
        assert await searched_texts.names("pump", mode=mode) == []
    assert (await find(searched_texts.database, searched_texts.models, Query("pump", []))).hits == []


async def test_a_collection_whose_model_has_no_table_yet(searched_texts: SearchedTexts) -> None:
    """It was made just now, and nothing is in it."""
    ref = await searched_texts.collection()
    await searched_texts.run("drop table penstock.vectors_static, penstock.folded_vectors_static")

    found = await find(
        searched_texts.database, searched_texts.models, Query("pump", [CollectionRef(ref.id, "static", "english")])
    )

    assert found.hits == []


async def test_words_too_common_give_way_to_rare_ones(
    searched_texts: SearchedTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.search.bm25.score.COMMON", 5)
    for number in range(12):
        await searched_texts.add(f"d{number}", [f"the pump {'turbine' if number == 7 else ''}"])

    assert await searched_texts.names("the turbine", mode="words") == ["d7"], "`the` is in all of them"
    assert len(await searched_texts.names("the pump", mode="words", k=20)) == 12, "there is nothing rarer"


async def test_too_many_entries_are_not_read(searched_texts: SearchedTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.search.bm25.score.ENTRIES_MAX", 3)
    await searched_texts.add("rare", ["turbine valve"])
    for number in range(4):
        await searched_texts.add(f"d{number}", ["valve"])

    assert await searched_texts.names("turbine valve", mode="words") == ["rare"]


async def test_preparing_a_model_twice_is_harmless(searched_texts: SearchedTexts) -> None:
    await asyncio.gather(*(prepare_model(searched_texts.database, "other-model", 8) for _ in range(4)))

    [row] = await searched_texts.run("select to_regclass('penstock.\"vectors_other-model\"') is not null as there")
    assert row["there"]


async def test_a_model_of_other_dimensions_is_a_sentence(searched_texts: SearchedTexts) -> None:
    with pytest.raises(DatabaseUnsuitable, match="256 dimensions"):
        await prepare_model(searched_texts.database, "static", 384)


async def test_a_snapshot_can_be_taken_behind_a_pooler(searched_texts: SearchedTexts) -> None:
    """There each transaction begins with settings of its own, and its isolation is chosen only after them."""
    await searched_texts.add("a", ["pump"])
    searched_texts.database.pool._local = "set local jit = off; set local timezone = 'UTC'"

    assert await searched_texts.names("pump") == ["a"]
