"""Streams and memos by HTTP."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.memos.memo_model import MemoModel, llms, over
from tests.models.chat import Chat, chatting
from tests.web.conftest import Api


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with chatting() as known:
        yield known


@pytest.fixture
def setting_overrides(chat: Chat) -> dict[str, Any]:
    return {"llms": llms(chat), "memos__check_every": "1s", "memos__waiting": 3}


async def send(api: Api, *messages: Any, stream: str = "mill") -> Any:
    return await api.ask("POST", f"/api/streams/{stream}/messages", json={"messages": list(messages)})


async def test_from_a_message_to_a_memo(api: Api, chat: Chat) -> None:
    """By the schedule, without anybody's help; the answers are those that the page promises."""
    memo_model = MemoModel(chat)
    memo_model.judge = lambda older, newer: "contradicts"
    oak = {"message_id": "1", "author": "Ann", "text": "The sluice gate is made of oak.", "at": "2026-11-17T18:00:00Z"}
    steel = {"message_id": "2", "author": "Bob", "text": "The sluice gate is made of steel."}
    first = await send(api, oak)
    assert (first.status, first.json) == (
        201,
        {"stream": "mill", "messages": [{"message_id": "1", "number": 1, "created": True}], "waiting": 1},
    )
    again = await send(api, oak, steel)
    assert [each["created"] for each in again.json["messages"]] == [False, True]
    conflict = await send(api, oak | {"text": "The sluice gate is made of gold."})
    assert (conflict.status, "other content" in conflict.json["detail"]) == (409, True)
    waiting = (await api.get("/api/streams/mill")).json
    assert (waiting["state"], waiting["waiting"], waiting["last"]) == ("waiting", 2, 2)
    async with api.working(), asyncio.timeout(20):
        while (await api.get("/api/streams/mill")).json["state"] != "idle":  # noqa: ASYNC110  by HTTP
            await asyncio.sleep(0.05)
        await over(api.product)
    live = (await api.get("/api/memos?stream=mill")).json["items"]
    assert [(each["text"], each["state"]) for each in live] == [(steel["text"], "live")]
    both = (await api.get("/api/memos?every=true")).json["items"]
    assert [(each["state"], each["superseded_by"]) for each in both] == [("superseded", both[1]["id"]), ("live", None)]
    assert both[0]["messages"] == [
        {"number": 1, "message_id": "1", "author": "Ann", "at": oak["at"], "text": oak["text"]}
    ]
    found = (await api.get("/api/memos?q=gate+material&k=1")).json
    assert ([each["text"] for each in found["items"]], found["next"]) == ([steel["text"]], None)
    page = (await api.get("/api/memos?every=true&limit=1")).json
    assert page["next"] == both[0]["id"]
    messages = (await api.get("/api/streams/mill/messages?limit=1")).json
    assert (messages["items"][0]["text"], messages["next"]) == (oak["text"], 1)
    assert [each["name"] for each in (await api.get("/api/streams")).json["items"]] == ["mill"]
    assert (await api.ask("DELETE", "/api/streams/mill/messages/2")).status == 204
    assert [each["text"] for each in (await api.get("/api/memos")).json["items"]] == [oak["text"]]
    assert (await api.ask("DELETE", "/api/streams/mill")).status == 204
    assert (await api.get("/api/memos?every=true")).json["items"] == []
    for path in ("/api/streams/mill", "/api/streams/mill/messages", "/api/memos?stream=mill"):
        assert (await api.get(path)).status == 404, path
    assert (await api.ask("DELETE", "/api/streams/mill")).status == 404


async def test_a_stream_that_is_not_read_takes_no_more(api: Api) -> None:
    for number in range(3):
        assert (await send(api, {"message_id": str(number), "text": "x"})).status == 201
    full = await send(api, {"message_id": "4", "text": "x"})
    assert (full.status, full.headers["Retry-After"]) == (429, "30")
    assert (await send(api, {"message_id": "1", "text": "x"})).status == 201, "it came before"
    assert (await send(api, {"message_id": "4", "text": "x"}, stream="ferry")).status == 201


BAD = [
    ("", 422),
    ("[]", 422),
    ("{", 422),
    ('{"messages": []}', 422),
    ('{"messages": [{"text": "x"}]}', 422),
    ('{"messages": [{"message_id": "1"}]}', 422),
    ('{"messages": [{"message_id": "1", "text": ""}]}', 422),
    ('{"messages": [{"message_id": "1", "text": "a\\u0000b"}]}', 422),
    ('{"messages": [{"message_id": "1", "text": "\\ud800"}]}', 422),
    ('{"messages": [{"message_id": "1", "text": "x", "tenant": "rival"}]}', 422),
    ('{"messages": [{"message_id": "1", "text": "x", "at": "soon"}]}', 422),
    (json.dumps({"messages": [{"message_id": "1" * 10_000, "text": "x"}]}), 422),
    (json.dumps({"messages": [{"message_id": "1", "text": "x" * 200_000}]}), 422),
    (json.dumps({"messages": [{"message_id": "1", "text": "x" * 10_000_000}]}), 413),
    (json.dumps({"messages": [{"message_id": str(n), "text": "x"} for n in range(1001)]}), 422),
]


async def test_what_cannot_be_posted(api: Api) -> None:
    for body, status in BAD:
        answer = await api.ask("POST", "/api/streams/mill/messages", data=io.BytesIO(body.encode()))
        assert answer.status == status, (body[:100], answer.body)
        assert answer.json["detail"]
    assert (await api.get("/api/streams")).json["items"] == []


async def test_names_are_taken_as_they_are(api: Api) -> None:
    assert (await send(api, {"message_id": "1", "text": "x"}, stream="caf%C3%A9%20%231")).json["stream"] == "café #1"
    assert (await api.get("/api/streams/caf%C3%A9%20%231")).json["name"] == "café #1"
    for name in ("%0A", "%00", "a%5Cb", "x" * 500):
        assert (await send(api, {"message_id": "1", "text": "x"}, stream=name)).status in {404, 422}
        assert (await api.get(f"/api/streams/{name}")).status in {404, 422}
