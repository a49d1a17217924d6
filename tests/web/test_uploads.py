"""Documents in: raw and as forms, with everything that a sender may do wrong."""

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.polling import until
from tests.web.api_server import raw
from tests.web.conftest import MOST, Answer, Api


@pytest.fixture(autouse=True)
async def mill_collection(api: Api) -> None:
    await api.make("mill")


def head(name: str, size: str) -> bytes:
    return f"PUT /api/collections/mill/documents/{name} HTTP/1.1\r\nHost: localhost\r\n{size}\r\n\r\n".encode()


async def post(api: Api, *parts: tuple[str, str | None, bytes], query: str = "", **headers: str) -> Answer:
    form = aiohttp.FormData(default_to_multipart=True, quote_fields=False)
    for name, file_name, content in parts:
        form.add_field(name, io.BytesIO(content) if file_name else content.decode(), filename=file_name)
    return await api.ask("POST", f"/api/collections/mill/documents{query}", data=form, headers=headers)


async def test_a_document_is_accepted(api: Api) -> None:
    content = b"The wheel turns." * 10_000
    answer = await api.put("reports/2024.txt?uploaded_by=ada", io.BytesIO(content))
    assert answer.status == 202
    told = answer.json
    assert answer.headers["Location"] == f"/api/documents/{told['id']}"
    assert told["status"] == "queued"
    assert told["created"] is True
    assert told["served"] is False
    assert "no worker is running" in told["message"]
    assert told["digest"] == hashlib.sha256(content).hexdigest()
    shown = (await api.get(answer.headers["Location"])).json
    assert (shown["name"], shown["collection"], shown["size"]) == ("reports/2024.txt", "mill", len(content))
    assert (shown["uploaded_by"], shown["status"], shown["version"]) == ("ada", "queued", 1)


async def test_served_is_true_while_a_worker_runs(api: Api) -> None:
    async with api.working():
        await until_served(api)


async def until_served(api: Api) -> None:
    async with asyncio.timeout(10):
        for number in range(10_000):
            told = (await api.put(f"{number}.txt", b"x")).json
            if told["served"]:
                assert told["message"] == "accepted"
                return
            await asyncio.sleep(0.05)


async def test_the_same_name_again(api: Api) -> None:
    first = (await api.put("a.txt", b"one")).json
    again = await api.put("a.txt", b"two")
    assert again.status == 409
    assert again.headers["Content-Type"] == "application/problem+json"
    assert again.json["existing"] == first["id"]
    assert again.json["type"] == "urn:penstock:name-taken"
    replaced = await api.put("a.txt?replace=true", b"two")
    assert replaced.status == 202
    assert (replaced.json["id"], replaced.json["version"], replaced.json["created"]) == (first["id"], 2, True)
    unchanged = await api.put("a.txt?replace=true", b"two")
    assert (unchanged.status, unchanged.json["unchanged"], unchanged.json["version"]) == (202, True, 2)


async def test_twenty_at_once(api: Api) -> None:
    answers = await asyncio.gather(*(api.put("a.txt", b"%d" % number) for number in range(20)))
    assert sorted(answer.status for answer in answers) == [202] + [409] * 19
    [accepted] = [answer.json["id"] for answer in answers if answer.status == 202]
    assert {answer.json["existing"] for answer in answers if answer.status == 409} == {accepted}
    assert await api.names() == ["a.txt"]


async def test_metadata_by_query_and_header(api: Api) -> None:
    first = await api.put("a.txt?metadata=%7B%22year%22%3A%202024%7D")
    second = await api.put("b.txt", headers={"X-Penstock-Metadata": json.dumps({"who": "Ada"})})
    assert (await api.get(first.headers["Location"])).json["metadata"] == {"year": 2024}
    assert (await api.get(second.headers["Location"])).json["metadata"] == {"who": "Ada"}


async def test_metadata_that_cannot_be(api: Api) -> None:
    for text in ("[1]", "nonsense", '{"a": NaN}', "[" * 60_000, '{"a": "\\u0000"}', '{"a": "\\ud800"}'):
        answer = await post(api, ("metadata", None, text.encode()), ("file", "a.txt", b"x"))
        assert answer.status == 422, answer.body[:300]
    assert await api.names() == []


async def test_idempotency(api: Api) -> None:
    key = {"Idempotency-Key": "k1"}
    first = await api.put("a.txt", b"one", headers=key)
    again = await api.put("a.txt", b"one", headers=key)
    assert (first.status, again.status, again.json["id"]) == (202, 202, first.json["id"])
    assert (await api.put("a.txt", b"other", headers=key)).status == 422
    assert await api.names() == ["a.txt"]


REFUSED = [
    "..%2Fa",
    "a%2F..%2Fb",
    "%2Fetc%2Fpasswd",
    "a%5Cb",
    "a%00b",
    "a%0Ab",
    "%FF",
    "",
    "x" * 5000,
    "%F0%9F%99%82" * 300,
]
TAKEN = {
    "%F0%9F%99%82.txt": "🙂.txt",
    "a%E2%80%AEfdp.exe": "afdp.exe",
    "100%25.txt": "100%.txt",
    "a%3Fb%23c.txt": "a?b#c.txt",
    "a/b/c": "a/b/c",
}


async def test_names(api: Api) -> None:
    for name in REFUSED:
        answer = await api.put(name)
        assert answer.status == 422, (name, answer.body)
        assert answer.json["detail"]
    for name in TAKEN:
        answer = await api.put(name)
        assert answer.status == 202, (name, answer.body)
    assert await api.names() == list(TAKEN.values())


async def test_no_such_collection(api: Api) -> None:
    assert (await api.put("a.txt", collection="none")).status == 404
    assert api.blobs() == []


async def test_bodies_that_are_not_the_document(api: Api) -> None:
    assert (await api.put("a.txt", headers={"Content-Encoding": "gzip"})).status == 415
    assert (await api.put("a.txt", headers={"Content-Range": "bytes 0-4/10"})).status == 400
    assert await api.names() == []


async def test_too_large(api: Api) -> None:
    announced = await api.put("a.bin", io.BytesIO(b"x" * (MOST + 1)))
    assert (announced.status, announced.json["title"]) == (413, "Body too large")

    async def content() -> AsyncIterator[bytes]:
        for _ in range(MOST // 100_000 + 1):
            yield b"x" * 100_000

    assert (await api.put("a.bin", content())).status == 413
    assert (await api.put("b.bin", io.BytesIO(b"x" * MOST))).status == 202
    assert await api.names() == ["b.bin"]
    assert len(api.blobs()) == 1


async def test_a_sender_that_goes_leaves_nothing(api: Api) -> None:
    assert await raw(api.port, head("a.txt", "Content-Length: 2000000"), b"x" * 1_500_000, half_close=True) == b""
    await until(lambda: not api.blobs())
    assert await api.names() == []
    assert (await api.put("a.txt")).status == 202


async def test_a_body_longer_than_announced_leaves_nothing(api: Api) -> None:
    answer = await raw(api.port, head("a.txt", "Content-Length: 5") + b"hello and a lot more\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    await until(lambda: not api.blobs())
    assert await api.names() == []


async def test_a_waiting_upload_holds_no_connection(api: Api) -> None:
    """More slow uploads than the pool has connections, and everything else goes on."""
    writers = []
    for number in range(6):
        _, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(head(f"{number}.txt", "Content-Length: 100") + b"x")
        await writer.drain()
        writers.append(writer)
    async with asyncio.timeout(5):
        assert (await api.put("quick.txt")).status == 202
        assert await api.names() == ["quick.txt"]
    for writer in writers:
        writer.write(b"x" * 99)
        writer.close()


@pytest.mark.parametrize("setting_overrides", [{"limits__waiting": 2}])
async def test_a_full_queue(api: Api) -> None:
    answers = [await api.put(f"{number}.txt") for number in range(6)]
    refused = [answer for answer in answers if answer.status != 202]
    assert refused, "the queue never got full"
    assert {answer.status for answer in refused} == {429}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)


# -- forms ----------------------------------------------------------------------------------------------------------


async def test_a_form_with_one_file_is_answered_like_a_put(api: Api) -> None:
    answer = await post(api, ("metadata", None, b'{"a": 1}'), ("file", "é 🙂.txt", b"hello"))
    assert answer.status == 202
    assert answer.json["name"] == "é 🙂.txt"
    shown = (await api.get(answer.headers["Location"])).json
    assert (shown["metadata"], shown["size"]) == ({"a": 1}, 5)
    assert (await post(api, ("file", "é 🙂.txt", b"hello"))).status == 409


async def test_each_file_of_a_form_stands_for_itself(api: Api) -> None:
    await api.put("b.txt", b"was here")
    answer = await post(api, *(("file", f"{name}.txt", b"x" * 100_000) for name in "abc"))
    assert answer.status == 207
    assert [(each["name"], each["code"]) for each in answer.json] == [("a.txt", 202), ("b.txt", 409), ("c.txt", 202)]
    assert answer.json[1]["problem"]["existing"] > 0
    assert sorted(await api.names()) == ["a.txt", "b.txt", "c.txt"]
    assert (await post(api, ("f", "d.txt", b"x"), ("f", "e.txt", b"x"))).status == 202


async def test_a_form_again_with_its_key(api: Api) -> None:
    files = [("file", "a.txt", b"a"), ("file", "b.txt", b"b")]
    first = await post(api, *files, **{"Idempotency-Key": "f"})
    again = await post(api, *files, **{"Idempotency-Key": "f"})
    assert first.status == again.status == 202
    assert [each["document"]["id"] for each in first.json] == [each["document"]["id"] for each in again.json]


async def test_a_file_of_a_form_that_is_too_large(api: Api) -> None:
    answer = await post(api, ("file", "a.txt", b"x"), ("file", "b.bin", b"x" * (MOST + 1)), ("file", "c.txt", b"x"))
    assert [(each["name"], each["code"]) for each in answer.json] == [("a.txt", 202), ("b.bin", 413)]
    assert await api.names() == ["a.txt"]


NO_FORMS = [
    ("text/plain", b"hello"),
    ("multipart/form-data", b"hello"),
    ("multipart/form-data; boundary=b", b"hello"),
    ("multipart/form-data; boundary=b", b"--b--\r\n"),
    (
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nhel',
    ),
]


async def test_what_is_no_form(api: Api) -> None:
    for content_type, body in NO_FORMS:
        headers = {"Content-Type": content_type}
        answer = await api.ask("POST", "/api/collections/mill/documents", data=body, headers=headers)
        assert (answer.status, answer.json["status"]) == (400, 400), body
    assert await api.names() == []
    await until(lambda: not api.blobs())
