"""Search as a person meets it."""

from tests.search.conftest import Library


async def test_words_find_their_document(library: Library) -> None:
    await library.add("pumps.txt", ["The pump feeds the turbine.", "Valves are closed at night."])
    await library.add("cats.txt", ["A cat sleeps on the sofa."])

    found = await library.search("pumping valves")

    assert found.hits[0].name == "pumps.txt"
    assert {hit.chunk for hit in found.hits[:2]} == {0, 1}
