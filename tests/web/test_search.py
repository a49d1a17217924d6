"""Search by HTTP: what was put in is found, with its place; wrong questions are refused."""

from itertools import pairwise

import pytest

from tests.extraction.sample_pdfs import text_pdf
from tests.web.conftest import Api

MILL = b"# Repairs\n\nThe turbine was repaired in March by the smith of the village.\n"
QUESTIONS = [
    "",
    "q=" + "x" * 3000,
    "q=a&k=0",
    "q=a&k=x",
    "q=a&k=1000000",
    "q=a&offset=-1",
    "q=a&mode=magic",
    "q=a&since=now",
    "q=a&metadata=nonsense",
    "q=a&metadata=%5B1%5D",
    "q=a&neighbours=99",
    "q=%00",
]
HEADER = "name | fish\n"
LINES = [f"Line {n}: the weir \N{FISH} nai\u0308ve salm\u00f6n." for n in range(200)]
# Several chunks each: other line ends and characters beyond the first plane; a table, whose header its chunks repeat; two pages
PLACED = {
    "windows.txt": "\ufeff" + "\r\n".join(LINES) + "\0\r\n",
    "weirs.csv": "name,fish\n" + "".join(f"weir {n},salmon {n}\n" for n in range(400)),
    "weirs.pdf": text_pdf(
        *(
            [(50, 780 - 18 * n, 12, f"Page {number}, line {n}: the weir of the salmon") for n in range(40)]
            for number in (1, 2)
        )
    ),
}
RIVER = b"# River\n\nThe salmon climb the weir in the autumn.\n"


async def test_what_was_put_in_is_found(api: Api) -> None:
    await api.make("mill")
    await api.make("river")
    async with api.working():
        mill = (await api.put("mill.md?metadata=%7B%22year%22%3A2024%7D", MILL)).json["id"]
        river = (await api.put("river.md", RIVER, collection="river")).json["id"]
        for number in (mill, river):
            assert (await api.over(number))["status"] == "ready"

    async def found(query: str) -> list[int]:
        answer = await api.get(f"/api/search?{query}")
        assert answer.status == 200, answer.body
        return [hit["document"] for hit in answer.json["hits"]]

    hit = (await api.get("/api/search?q=repaired+turbine")).json["hits"][0]
    assert (hit["document"], hit["name"], hit["collection"]) == (mill, "mill.md", "mill")
    words = [hit["text"][start:stop] for start, stop in hit["highlights"]]
    assert {"turbine", "repaired"} <= {word.lower() for word in words}
    assert (await found("q=salmon"))[0] == river
    assert await found("q=salmon&collection=mill&mode=words") == []
    assert await found("q=turbine&collection=mill&collection=river&mode=words") == [mill]
    assert await found("q=turbine&mode=words&metadata=%7B%22year%22%3A2024%7D") == [mill]
    assert await found("q=turbine&mode=words&metadata=%7B%22year%22%3A2025%7D") == []
    assert await found("q=turbine&mode=words&type=text/markdown") == [mill]
    assert await found("q=turbine&mode=words&type=application/pdf") == []
    assert await found("q=turbine&mode=words&since=2000-01-01T00:00:00Z") == [mill]
    assert await found("q=turbine&mode=words&until=2000-01-01T00:00:00Z") == []
    assert await found("q=turbine&mode=words&offset=1") == []
    await api.ask("DELETE", f"/api/documents/{mill}")
    assert mill not in await found("q=turbine")


async def test_questions_that_cannot_be(api: Api) -> None:
    for query in QUESTIONS:
        answer = await api.get(f"/api/search?{query}")
        assert answer.status == 422, query
        assert answer.json["detail"]
    assert (await api.get("/api/search?q=a&collection=none")).status == 404


async def test_nothing_to_find(api: Api) -> None:
    await api.make("mill")
    for query in ("q=", "q=%20", "q=%F0%9F%99%82", "q=%22", "q=%27%3B--", "q=a"):
        answer = await api.get(f"/api/search?{query}")
        assert (answer.status, answer.json["hits"]) == (200, []), query


@pytest.mark.parametrize("name", PLACED)
async def test_a_hit_names_its_place_in_the_text_of_its_page(api: Api, name: str) -> None:
    """`start` and `stop` count characters of the page's text, as Python does; only a table's header stands before it."""
    content = PLACED[name]
    await api.make("mill")
    async with api.working():
        document = (await api.put(name, content.encode() if isinstance(content, str) else content)).json["id"]
        assert (await api.over(document))["status"] == "ready"

    pages = {page["number"]: page["text"] for page in (await api.get(f"/api/documents/{document}/pages")).json["items"]}
    hits = (await api.get("/api/search?q=weir+salmon&k=100&mode=words")).json["hits"]

    assert len(hits) > 1
    headers = set()
    for hit in hits:
        passage = pages[hit["page"]][hit["start"] : hit["stop"]]
        assert passage
        assert hit["text"].endswith(passage)
        headers.add(hit["text"].removesuffix(passage))
    assert headers == ({"", HEADER} if name.endswith(".csv") else {""})
    places = sorted((hit["page"], hit["start"], hit["stop"]) for hit in hits)
    assert all(first[1] < second[1] or first[0] < second[0] for first, second in pairwise(places))
