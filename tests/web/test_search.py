"""Search by HTTP: what was put in is found, with its place; wrong questions are refused."""

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
