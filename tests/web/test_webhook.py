"""Messages of webhooks: signed or refused alike, kept once, and answered in time."""

import asyncio
import json
import time
from typing import Any

import pytest

from penstock import client as api_client
from penstock.client import sign_message
from tests.web.api_server import raw
from tests.web.conftest import Answer, Api

SECRET, OTHER = "a long secret", "another secret"
ORDERS = {"type": "webhook", "secret": SECRET, "collection": "papers", "largest": "64kB", "tenant": "acme"}


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    strict = {"type": "webhook", "secret": OTHER, "on_change": "error", "waiting": 3, "largest": "1kB"}
    folder = {"type": "folder", "folder": "/tmp"}
    sources = {"orders": ORDERS, "strict": strict, "files": folder}
    return {"sources": sources, "api__require_key": True, "rates__per_address": "off", "rates__write": "off"}


async def post(
    api: Api, body: Any, message_id: str = "", *, source: str = "orders", secret: str = SECRET, **more: Any
) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = sign_message(secret, message_id, content, timestamp=more.pop("timestamp", None))
    headers |= {"Content-Type": "application/json"} | more.pop("headers", {})
    return await api.ask("POST", f"/api/inbox/{source}", data=content, headers=headers)


async def rows(api: Api) -> list[Any]:
    query = "select * from penstock.inbox order by id"
    return await api.product.app.database.pool.repeat(lambda session: session.fetch(query))


async def until_taken(api: Api) -> Any:
    """The one message, when its job has ended."""
    async with asyncio.timeout(20):
        while True:
            [row] = await rows(api)
            if row["state"] != "waiting":
                return row
            await asyncio.sleep(0.05)


async def test_a_signed_message_is_kept_once(api: Api) -> None:
    order = {"name": "order-1.txt", "content": "VGhlIHNsdWljZSBnYXRl"}
    first = await post(api, order, "order-1")
    assert (first.status, first.json["created"], first.json["status"]) == (202, True, "waiting")
    again = await post(api, order, "order-1")
    assert (again.status, again.json) == (202, {**first.json, "created": False})
    [row] = await rows(api)
    assert (row["message_id"], row["tenant"], row["repeats"], row["id"]) == (
        "order-1",
        "acme",
        1,
        first.json["message"],
    )
    async with api.working():
        row = await until_taken(api)
    assert (row["state"], row["document_id"]) == ("taken", first.json["message"])
    assert (await post(api, order, "order-1")).json["status"] == "taken"


async def test_its_number_may_be_in_the_body(api: Api) -> None:
    assert (await post(api, {"id": 4711})).status == 202
    assert (await post(api, {"id": "ignored"}, "Größe")).status == 202
    assert [row["message_id"] for row in await rows(api)] == ["4711", "Größe"]
    nameless = await post(api, {"no": "number"})
    assert (nameless.status, "Penstock-Message-Id" in nameless.json["detail"]) == (422, True)


async def test_what_is_not_signed_well_is_refused_alike(api: Api) -> None:
    """Whoever has no secret learns nothing, not even which sources there are."""
    body, now = b'{"id": 1}', int(time.time())
    good = sign_message(SECRET, "m", body)
    no = "v1=" + "0" * 64
    wrong: dict[str, dict[str, str]] = {
        "nothing": {},
        "no signature": {**good, "Penstock-Signature": ""},
        "no version": {**good, "Penstock-Signature": good["Penstock-Signature"][3:]},
        "another": {**good, "Penstock-Signature": no},
        "in capitals": {**good, "Penstock-Signature": "v1=" + good["Penstock-Signature"][3:].upper()},
        "another secret": sign_message(OTHER, "m", body),
        "another body": sign_message(SECRET, "m", b'{"id": 2}'),
        "another number": {**good, "Penstock-Message-Id": "n"},
        "another time": {**good, "Penstock-Timestamp": str(now - 1)},
        "too old": sign_message(SECRET, "m", body, timestamp=now - 301),
        "too new": sign_message(SECRET, "m", body, timestamp=now + 400),
        "no time": {**sign_message(SECRET, "m", body), "Penstock-Timestamp": "soon"},
        "a key": {**good, "Penstock-Signature": "", "Authorization": "Bearer pk_aaaaaaaa_" + "A" * 43},
        "letters": {**good, "Penstock-Signature": "v1=\u00e4"},
    }
    answers = {}
    for label, headers in wrong.items():
        answer = await api.ask("POST", "/api/inbox/orders", data=body, headers=headers)
        answers[label] = (answer.status, answer.body)
    for source in ("nothing", "files", "strict", "orders%20"):
        answer = await api.ask("POST", f"/api/inbox/{source}", data=body, headers=good)
        answers[source] = (answer.status, answer.body)
        larger = await api.ask("POST", f"/api/inbox/{source}", data=b"x" * 3000, headers=good)
        answers[f"{source}, more"] = (larger.status, larger.body)
    assert len(set(answers.values())) == 1, answers
    assert next(iter(answers.values()))[0] == 401
    assert await rows(api) == []
    for skew in (-280, 280):  # from now on, and with room for a slow machine
        assert (await post(api, {"id": skew}, timestamp=int(time.time()) + skew)).status == 202


async def test_other_addresses_there_need_a_key(api: Api) -> None:
    for method, path in (("GET", "/api/inbox/orders"), ("POST", "/api/inbox"), ("POST", "/api/inbox/orders/x")):
        assert (await api.ask(method, path)).status == 401, path


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"id": ', {}, 400),
        (b"[1]", {}, 400),
        (b'{"id": NaN}', {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"[" * 50_000, {}, 400),
        (b'{"id": 1}', {"Content-Type": "text/plain"}, 415),
        (b'{"id": 1}', {"Content-Type": "application/cloudevents+json; charset=utf-8"}, 202),
        (b'{"id": 1}', {"Content-Encoding": "gzip"}, 415),
        (b'{"id": 1, "a\\u0000b": "\\ud800\\u0000"}', {}, 202),
        (json.dumps({"id": "x" * 5000}).encode(), {}, 202),
        (json.dumps({"id": True}).encode(), {}, 422),
    ],
)
async def test_malformed(api: Api, body: bytes, headers: dict[str, str], status: int) -> None:
    answer = await post(api, body, headers=headers)
    assert answer.status == status, answer.body
    assert len(await rows(api)) == (1 if status == 202 else 0)


async def test_too_large_is_refused_before_it_is_received(api: Api) -> None:
    big = b'{"id": 1, "x": "' + b"x" * 70_000 + b'"}'
    assert (await post(api, big)).status == 413
    inner = b'{"id": 1, "x": "' + b"x" * 2000 + b'"}'
    assert (await post(api, inner, source="strict", secret=OTHER)).status == 413, "signed, and more than its own limit"
    head = b"POST /api/inbox/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n"
    assert b" 413 " in await raw(api.port, head, b"x" * 100_000, half_close=True)
    chunked = b"POST /api/inbox/orders HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [b"%x\r\n%s\r\n" % (16_000, b"x" * 16_000)] * 6
    assert b" 413 " in await raw(api.port, chunked, *pieces)
    assert await rows(api) == []


async def test_other_content_is_a_version_or_refused(api: Api) -> None:
    assert (await post(api, {"v": 1}, "a")).json["created"]
    changed = await post(api, {"v": 2}, "a")
    assert (changed.status, changed.json["created"]) == (202, True)
    [row] = await rows(api)
    assert row["number"] == 2
    assert (await post(api, {"v": 1}, "a", source="strict", secret=OTHER)).status == 202
    refused = await post(api, {"v": 2}, "a", source="strict", secret=OTHER)
    assert (refused.status, "other content" in refused.json["detail"]) == (409, True)
    assert (await post(api, {"v": 1}, "a", source="strict", secret=OTHER)).status == 202


async def test_a_full_inbox_asks_for_patience(api: Api) -> None:
    answers: list[Answer] = []
    async with asyncio.timeout(20):
        while not answers or answers[-1].status == 202:
            answers.append(await post(api, {}, f"m{len(answers)}", source="strict", secret=OTHER))
    assert (answers[-1].status, "Retry-After" in answers[-1].headers) == (429, True)
    assert len(answers) > 3


async def test_many_at_once_are_one(api: Api) -> None:
    answers = await asyncio.gather(*(post(api, {"v": 1}, "same") for _ in range(20)))
    assert {answer.status for answer in answers} == {202}
    assert sum(answer.json["created"] for answer in answers) == 1
    [row] = await rows(api)
    assert row["repeats"] == 19


async def test_by_the_client(api: Api) -> None:
    async with api_client.AsyncClient(f"http://127.0.0.1:{api.port}") as client:
        first = await client.inbox.send("orders", {"x": "ä"}, secret=SECRET, message_id="m-1")
        again = await client.inbox.send("orders", {"x": "ä"}, secret=SECRET, message_id="m-1")
        assert (first.created, again.created, first.message == again.message) == (True, False, True)
        assert (await client.inbox.send("orders", {"id": "Größe"}, secret=SECRET)).created
        with pytest.raises(ValueError, match="put such a number into the message"):
            await client.inbox.send("orders", {}, secret=SECRET, message_id="Größe")
        with pytest.raises(api_client.BadKey):
            await client.inbox.send("orders", {"id": 1}, secret="no")
