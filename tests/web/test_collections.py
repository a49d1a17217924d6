"""Collections by HTTP."""

from tests.web.conftest import Api

SETTING_OVERRIDES: list[object] = [
    {},
    {"name": ""},
    {"name": 7},
    {"name": None},
    {"name": "a/b"},
    {"name": "x" * 5000},
    {"name": "a\0b"},
    {"name": "\ud800"},
    {"name": "a", "chunk_size": 1},
    {"name": "a", "chunk_size": "many"},
    {"name": "a", "chunk_size": 10**30},
    {"name": "a", "chunk_overlap": 900},
    {"name": "a", "model": "../x"},
    {"name": "a", "colour": "red"},
    {"name": "a", "\ud800": "red"},
    [],
    "a",
]


async def test_make_show_change_delete(api: Api) -> None:
    made = await api.ask("POST", "/api/collections", json={"name": "water mill", "chunk_size": 500})
    assert made.status == 201
    assert made.headers["Location"] == "/api/collections/water%20mill"
    assert (made.json["name"], made.json["chunk_size"], made.json["model"]) == ("water mill", 500, "static")
    await api.put("a.txt", collection="water%20mill")

    shown = (await api.get(made.headers["Location"])).json
    assert shown["statuses"] == {"queued": 1, "processing": 0, "ready": 0, "failed": 0, "deleted": 0}

    changed = await api.ask("PATCH", made.headers["Location"], json={"name": "mill", "ocr_language": "de"})
    assert changed.status == 200
    assert (changed.json["id"], changed.json["name"], changed.json["ocr_language"]) == (made.json["id"], "mill", "de")
    assert changed.json["chunk_size"] == 500
    assert (await api.get(made.headers["Location"])).status == 404

    deleted = await api.ask("DELETE", "/api/collections/mill")
    assert (deleted.status, deleted.json["deleted"], bool(deleted.json["restorable_until"])) == (202, 1, True)
    assert (await api.get("/api/collections/mill")).status == 404
    assert await api.names() == []
    restored = await api.ask("POST", "/api/collections/mill/restore")
    assert (restored.status, restored.json["id"]) == (202, made.json["id"])
    assert len(await api.names()) == 1
    deleted = await api.ask("DELETE", "/api/collections/mill?now=true")
    assert (deleted.status, deleted.json) == (202, {"deleted": 1, "restorable_until": None})
    answer = await api.ask("POST", "/api/collections/mill/restore")
    assert (answer.status, "cannot be restored any more" in answer.json["detail"]) == (409, True)


async def test_a_taken_name(api: Api) -> None:
    first = await api.ask("POST", "/api/collections", json={"name": "mill"})
    again = await api.ask("POST", "/api/collections", json={"name": "mill"})
    assert (again.status, again.json["existing"]) == (409, first.json["id"])
    await api.make("other")
    renamed = await api.ask("PATCH", "/api/collections/other", json={"name": "mill"})
    assert (renamed.status, renamed.json["existing"]) == (409, first.json["id"])


async def test_wishes_that_cannot_be(api: Api) -> None:
    for body in SETTING_OVERRIDES:
        answer = await api.ask("POST", "/api/collections", json=body)
        assert answer.status == 422, (body, answer.body)
        assert answer.json["detail"]
    assert (await api.get("/api/collections")).json["items"] == []


async def test_bodies_that_are_no_json(api: Api) -> None:
    for body in (b"", b"{", b'{"name": ', b"[" * 100_000, b"\xff\xfe", b'{"name": "a"}x'):
        answer = await api.ask("POST", "/api/collections", data=body, headers={"Content-Type": "application/json"})
        assert answer.status in {400, 422}, body
        assert answer.json["status"] == answer.status


async def test_pages_of_a_list(api: Api) -> None:
    names = [f"c{number}" for number in range(5)]
    for name in reversed(names):
        await api.make(name)
    seen, after = [], ""
    while after is not None:
        page = (await api.get(f"/api/collections?limit=2&after={after}")).json
        assert len(page["items"]) <= 2
        seen += [each["name"] for each in page["items"]]
        after = page["next"]
    assert seen == names
