"""Documents out: lists, pages, text, chunks, bytes, reasons; and what can be done to them."""

import pytest

from tests.web.conftest import Api

TEXT = "# The mill\n\nThe turbine was repaired in March.\n\n## Water\n\nThe weir holds back the river Aach.\n"
ODD = "räder/größe “x”; y.txt"
ODD_PATH = "r%C3%A4der%2Fgr%C3%B6%C3%9Fe%20%E2%80%9Cx%E2%80%9D%3B%20y.txt"

RANGES: list[tuple[str, int, slice | None, str | None]] = [
    ("bytes=0-0", 206, slice(0, 1), "bytes 0-0/1000"),
    ("bytes=10-19", 206, slice(10, 20), "bytes 10-19/1000"),
    ("bytes=990-", 206, slice(990, 1000), "bytes 990-999/1000"),
    ("bytes=990-5000", 206, slice(990, 1000), "bytes 990-999/1000"),
    ("bytes=-10", 206, slice(990, 1000), "bytes 990-999/1000"),
    ("bytes=-5000", 206, slice(0, 1000), "bytes 0-999/1000"),
    ("bytes=1000-", 416, None, "bytes */1000"),
    ("bytes=-0", 416, None, "bytes */1000"),
    ("bytes=9999999999999999999-", 416, None, "bytes */1000"),
    ("bytes=5-4", 200, slice(0, 1000), None),
    ("bytes=0-1,5-6", 200, slice(0, 1000), None),
    ("bytes=-", 200, slice(0, 1000), None),
    ("lines=1-2", 200, slice(0, 1000), None),
    ("nonsense", 200, slice(0, 1000), None),
]


@pytest.fixture(autouse=True)
async def mill_collection(api: Api) -> None:
    await api.make("mill")


async def test_a_ready_document(api: Api) -> None:
    async with api.working():
        path = (await api.put("mill.md?metadata=%7B%22year%22%3A2024%7D", TEXT.encode())).headers["Location"]
        shown = await api.over(int(path.rpartition("/")[2]))
    assert shown["status"] == "ready", shown["error"]
    assert shown["media_type"] == "text/markdown"
    assert (shown["live_version"], shown["gaps"], shown["metadata"]) == (1, [], {"year": 2024})

    text = await api.get(f"{path}/text")
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "turbine was repaired" in text.body.decode()
    [page] = (await api.get(f"{path}/pages")).json["items"]
    assert page["number"] == 1
    assert "weir" in page["text"]
    chunks = (await api.get(f"{path}/chunks")).json["items"]
    assert [each["number"] for each in chunks] == list(range(shown["chunks"]))
    assert all(each["text"] == page["text"][each["start"] : each["stop"]] for each in chunks)
    why = (await api.get(f"{path}/why")).json
    assert why["state"] == "ready"
    assert "mill.md" in why["sentence"]
    events = [each["event"] for each in (await api.get(f"{path}/history")).json]
    assert events == ["accepted", "ready"]

    again = await api.ask("POST", f"{path}/retry")
    assert (again.status, again.json["type"]) == (409, "urn:penstock:wrong-state")
    deleted = await api.ask("DELETE", path)
    assert (deleted.status, deleted.json["status"]) == (202, "deleted")
    for part in ("text", "pages", "chunks", "content"):
        assert (await api.get(f"{path}/{part}")).status == 404, part
    assert (await api.get(path)).json["status"] == "deleted"


async def test_cancel_and_retry(api: Api) -> None:
    path = (await api.put("a.txt")).headers["Location"]
    cancelled = await api.ask("POST", f"{path}/cancel")
    assert (cancelled.status, cancelled.json["status"]) == (202, "failed")
    assert "cancel" in (await api.get(f"{path}/why")).json["sentence"]
    assert (await api.ask("POST", f"{path}/cancel")).status == 409
    again = await api.ask("POST", f"{path}/retry")
    assert (again.status, again.json["status"]) == (202, "queued")
    assert (await api.ask("POST", f"{path}/retry")).status == 409


async def test_a_queued_document_says_why(api: Api) -> None:
    path = (await api.put("a.txt")).headers["Location"]
    why = (await api.get(f"{path}/why")).json
    assert why["because"] == "no worker"
    assert why["evidence"]


async def test_lists(api: Api) -> None:
    await api.make("other")
    numbers = [(await api.put(f"{number}.txt")).json["id"] for number in range(5)]
    other = (await api.put("a.txt", collection="other")).json["id"]
    await api.ask("POST", f"/api/documents/{numbers[0]}/cancel")
    await api.ask("DELETE", f"/api/documents/{numbers[1]}")

    async def listed(query: str) -> list[int]:
        return [each["id"] for each in (await api.get(f"/api/documents?{query}")).json["items"]]

    assert await listed("") == [numbers[0], *numbers[2:], other]
    assert await listed("collection=mill") == [numbers[0], *numbers[2:]]
    assert await listed("status=failed") == numbers[:1]
    assert await listed("status=deleted") == [numbers[1]]
    assert await listed("parent=1") == []
    assert (await api.get("/api/documents?collection=none")).status == 404
    seen, after = [], 0
    while after is not None:
        page = (await api.get(f"/api/documents?limit=2&after={after}")).json
        seen += [each["id"] for each in page["items"]]
        after = page["next"]
    assert seen == [numbers[0], *numbers[2:], other]


async def test_by_name(api: Api) -> None:
    number = (await api.put(ODD_PATH)).json["id"]
    found = await api.get(f"/api/collections/mill/documents/{ODD_PATH}")
    assert (found.json["id"], found.json["name"]) == (number, ODD)
    assert (await api.get("/api/collections/mill/documents/none.txt")).status == 404
    await api.make("other")
    await api.put("mill/x.txt", collection="other")
    assert (await api.get("/api/collections/mill/documents/x.txt")).status == 404


async def test_download(api: Api) -> None:
    content = b"<script>alert(1)</script>" * 40_000
    path = (await api.put(ODD_PATH, content)).headers["Location"]
    whole = await api.get(f"{path}/content")
    assert (whole.status, whole.body) == (200, content)
    assert whole.headers["Content-Type"] == "application/octet-stream"
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in whole.headers["Content-Security-Policy"]
    assert whole.headers["Content-Disposition"] == (
        "attachment; filename=\"gr__e _x_; y.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%E2%80%9Cx%E2%80%9D%3B%20y.txt"
    )


async def test_ranges(api: Api) -> None:
    content = bytes(number % 256 for number in range(1000))
    path = (await api.put("a.bin", content)).headers["Location"]
    for wanted, status, part, told in RANGES:
        answer = await api.get(f"{path}/content", headers={"Range": wanted})
        assert (answer.status, answer.headers.get("Content-Range")) == (status, told), wanted
        if part is not None:
            assert answer.body == content[part], wanted


async def test_an_empty_document_can_be_downloaded(api: Api) -> None:
    path = (await api.put("empty.txt", b"")).headers["Location"]
    answer = await api.get(f"{path}/content")
    assert (answer.status, answer.body) == (200, b"")
    assert (await api.get(f"{path}/content", headers={"Range": "bytes=0-"})).status == 416


async def test_numbers_of_nothing(api: Api) -> None:
    numbers = ["0", "-1", "x", "1.5", "9" * 30, str(2**63), "1%20or%201=1", "%F0%9F%99%82", "7"]
    for number in numbers:
        for part in ("", "/text", "/pages", "/chunks", "/content", "/why", "/history"):
            answer = await api.get(f"/api/documents/{number}{part}")
            assert answer.status == 404, (number, part)
            assert answer.headers["Content-Type"] == "application/problem+json"
