"""A model behind an address, on a real server that answers as it is told to."""

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from pydantic import SecretStr

from penstock.errors import Permanent, RateLimited, Transient, Unavailable
from penstock.models.remote import RemoteModel, batches, seconds
from penstock.settings.models import ModelSettings
from penstock.telemetry import mask
from tests.models.endpoint import Server, serve, told
from tests.polling import until

SECRET = "sk-canary-4711"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve() as known:
        yield known


def choose(server: Server, **others: Any) -> ModelSettings:
    chosen = {"url": f"http://127.0.0.1:{server.port}/v1/", "model": "tiny", "dimensions": 3, "key": SECRET}
    return ModelSettings.model_validate(chosen | others)


@pytest.fixture
async def model(server: Server) -> AsyncIterator[RemoteModel]:
    opened = RemoteModel("far", choose(server))
    yield opened
    await opened.aclose()


async def refused(model: RemoteModel, kind: type[Exception]) -> str:
    """The sentence of the error; neither it nor its trace shows the key."""
    with pytest.raises(kind) as caught:
        await model.embed(["a pump"])
    assert type(caught.value) is kind
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(vars(caught.value))
    assert SECRET not in shown
    return str(caught.value)


async def test_texts_become_rows_of_length_one(model: RemoteModel, server: Server) -> None:
    rows = await model.embed(["abc", "", " \n", "abcdefgh"])

    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 0, 1])
    assert rows[3] == pytest.approx(np.array([8, 1, 0]) / np.sqrt(65))
    assert server.asked == [{"model": "tiny", "input": ["abc", "abcdefgh"], "encoding_format": "float"}]
    assert (server.paths, server.keys) == (["/v1/embeddings"], [f"Bearer {SECRET}"])


async def test_no_texts_and_blank_texts_ask_nobody(model: RemoteModel, server: Server) -> None:
    assert (await model.embed([])).shape == (0, 3)
    assert not (await model.embed(["  "])).any()
    assert server.asked == []


async def test_rows_follow_the_index_not_the_order(model: RemoteModel, server: Server) -> None:
    server.gives(lambda body: {"data": told(body)[::-1]})
    rows = await model.embed(["a", "bb", "ccc"])
    assert (rows[:, 0] / rows[:, 1]) == pytest.approx([1, 2, 3])


async def test_requests_are_bounded_by_texts_and_by_characters(server: Server) -> None:
    model = RemoteModel("far", choose(server, batch=3, batch_characters=10, key=None, ask_dimensions=True))
    rows = await model.embed(["aa"] * 4 + ["b" * 25, "cc", "d" * 9])
    await model.aclose()

    assert [[len(text) for text in body["input"]] for body in server.asked] == [[2, 2, 2], [2], [25], [2], [9]]
    assert (rows[:, 0] / rows[:, 1]) == pytest.approx([2, 2, 2, 2, 25, 2, 9])
    assert server.keys == [None] * 5
    assert {body["dimensions"] for body in server.asked} == {3}


def test_batches_keep_every_place() -> None:
    texts = ["x" * (number % 7) for number in range(50)]
    assert [place for batch in batches(texts, range(50), 4, 9) for place in batch] == list(range(50))


class Gate:
    """Lets nobody through until it is opened; then answers, unless a text is bad."""

    def __init__(self, server: Server) -> None:
        self.opened = asyncio.Event()
        self._server = server
        server.reply = self.answer

    async def answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await self.opened.wait()
        if "bad" in body["input"]:
            return web.Response(status=400)
        return await self._server.well(request, body)


async def test_texts_of_several_callers_share_a_request(model: RemoteModel, server: Server) -> None:
    """Small requests have two of the four turns; who comes meanwhile shares the next one. Each gets its own rows."""
    gate = Gate(server)
    calls = [asyncio.create_task(model.embed(["x" * number, "y"])) for number in range(1, 41)]
    await until(lambda: len(server.asked) == 4)
    gate.opened.set()
    for number, call in enumerate(calls, 1):
        rows = await call
        assert (rows[:, 0] / rows[:, 1]) == pytest.approx([number, 1])
    assert sorted(len(body["input"]) for body in server.asked) == [2, 2, 12, 32, 32]


async def test_a_bad_text_is_the_failure_of_its_own_caller(model: RemoteModel, server: Server) -> None:
    gate = Gate(server)
    calls = [asyncio.create_task(model.embed([text])) for text in ("a", "a", "b", "bad", "cc", "gone")]
    await until(lambda: len(server.asked) == 2)
    calls[-1].cancel()
    await asyncio.sleep(0)
    gate.opened.set()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end).__name__ for end in ends] == ["ndarray"] * 3 + ["Permanent", "ndarray", "CancelledError"]
    assert [body["input"] for body in server.asked[2:]] == [["b", "bad", "cc"], ["b"], ["bad"], ["cc"]]


async def test_patience_is_for_all_callers_of_a_request(model: RemoteModel, server: Server) -> None:
    gate = Gate(server)
    calls = [asyncio.create_task(model.embed(["a"])) for _ in range(4)]
    await until(lambda: len(server.asked) == 2)
    server.says(429, Retry_After="7")
    gate.opened.set()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end).__name__ for end in ends[2:]] == ["RateLimited"] * 2
    assert len(server.asked) == 3


async def test_an_outage_is_asked_about_once_more_and_not_by_each(model: RemoteModel, server: Server) -> None:
    gate = Gate(server)
    calls = [asyncio.create_task(model.embed(["a"])) for _ in range(7)]
    await until(lambda: len(server.asked) == 2)
    server.says(502)
    gate.opened.set()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end).__name__ for end in ends[2:]] == ["Unavailable"] * 5
    assert [len(body["input"]) for body in server.asked[2:]] == [5, 1]


async def test_closing_ends_those_who_wait(model: RemoteModel, server: Server) -> None:
    Gate(server)
    calls = [asyncio.create_task(model.embed(["a"])) for _ in range(4)]
    await until(lambda: len(server.asked) == 2)
    await model.aclose()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end).__name__ for end in ends} == {"CancelledError"}


async def test_another_dimension_is_told_with_both_numbers(model: RemoteModel, server: Server) -> None:
    server.gives(lambda body: {"data": [{"index": 0, "embedding": [1.0] * 5}]})
    sentence = await refused(model, Permanent)
    assert "5 dimensions" in sentence
    assert "models.far.dimensions is 3" in sentence


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"data": [{"index": 1, "embedding": [1, 2, 3]}]},
        {"data": [{"index": 0, "embedding": [1, 2, 3]}] * 2},
        {"data": [{"index": True, "embedding": [1, 2, 3]}]},
        {"data": [{"index": 0, "embedding": [1, float("nan"), 3]}]},
        {"data": [{"index": 0, "embedding": [1, float("inf"), 3]}]},
        {"data": [{"index": 0, "embedding": [1, 1e300, 3]}]},
        {"data": [{"index": 0, "embedding": [1, None, 3]}]},
        {"data": [{"index": 0, "embedding": [1, "x", 3]}]},
        {"data": [{"index": 0, "embedding": [1, [2], 3]}]},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [None]},
        {"data": {}},
        {},
        [],
        None,
        "no",
    ],
    ids=repr,
)
async def test_what_is_not_one_vector_per_text_is_refused(model: RemoteModel, server: Server, answer: object) -> None:
    server.gives(lambda body: answer)
    assert (await refused(model, Transient)).startswith("The model far ")


async def test_no_json_is_refused(model: RemoteModel, server: Server) -> None:
    for text in ("", "<html>", '{"data": [', "[" * 50_000):
        server.says(200, text)
        assert "not JSON" in await refused(model, Transient)


async def test_a_half_answer_is_refused(model: RemoteModel, server: Server) -> None:
    async def half(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"data": [')
        assert request.transport is not None
        request.transport.abort()
        return response

    server.reply = half
    assert "cut off" in await refused(model, Unavailable)


async def test_a_huge_answer_is_not_read_to_its_end(model: RemoteModel, server: Server) -> None:
    sent = 0

    async def huge(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 2**30:
            await response.write(b" " * 2**16)
            sent += 2**16
        return response

    server.reply = huge
    assert "more than" in await refused(model, Permanent)
    assert sent < 2**27


async def test_a_server_that_hangs_ends_with_the_deadline(server: Server) -> None:
    async def hang(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server.reply = hang
    model = RemoteModel("far", choose(server, timeout="100ms"))
    assert "in time" in await refused(model, TimeoutError)
    await model.aclose()


async def test_a_server_that_drips_ends_with_the_deadline(server: Server) -> None:
    """Each byte comes soon enough; all of them together do not."""

    async def drip(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    server.reply = drip
    model = RemoteModel("far", choose(server, timeout="200ms"))
    assert "in time" in await refused(model, TimeoutError)
    await model.aclose()


async def test_one_vector_too_few_or_too_many_is_refused(model: RemoteModel, server: Server) -> None:
    for wrong in (slice(1), slice(1, None)):
        server.gives(lambda body, wrong=wrong: {"data": told(body)[wrong]})  # type: ignore[misc]
        with pytest.raises(Transient, match="returned 1 vectors for 2 texts"):
            await model.embed(["a", "bb"])
    server.gives(lambda body: {"data": [*told(body), {"index": 2, "embedding": [1, 2, 3]}]})
    with pytest.raises(Transient, match="for a text that was not sent"):
        await model.embed(["a", "bb"])


async def test_nobody_there_names_the_address(server: Server, unused_tcp_port: int) -> None:
    model = RemoteModel("far", choose(server, url=f"http://127.0.0.1:{unused_tcp_port}"))
    assert f"127.0.0.1:{unused_tcp_port}" in await refused(model, Unavailable)
    await model.aclose()


async def test_patience_is_asked_for_in_seconds_or_by_a_date(model: RemoteModel, server: Server) -> None:
    server.says(429, json.dumps({"error": {"message": "slow down"}}), Retry_After="7")
    with pytest.raises(RateLimited, match="slow down") as caught:
        await model.embed(["a"])
    assert (caught.value.retry_after, caught.value.asked) == (timedelta(seconds=7), True)

    server.says(429)
    with pytest.raises(RateLimited) as caught:
        await model.embed(["a"])
    assert not caught.value.asked

    server.says(503, Retry_After="1")
    await refused(model, RateLimited)


def test_a_retry_after_of_any_form() -> None:
    given = ["3", "0.5", "-4", "1e99", "nan", "soon", "", None, "Mon, 16 Nov 2015 07:28:00 GMT"]
    assert [seconds(text) for text in given] == [3, 0.5, 0, 3600, None, None, None, None, 0]


@pytest.mark.parametrize(
    ("status", "kind"), [(500, Unavailable), (502, Unavailable), (503, Unavailable), (408, Transient)]
)
async def test_a_failure_of_the_server_passes(
    model: RemoteModel, server: Server, status: int, kind: type[Exception]
) -> None:
    server.says(status, "<h1>oops</h1>")
    assert f"({status})" in await refused(model, kind)
    server.reply = server.well
    assert (await model.embed(["a"])).any()


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, "unknown field"), (401, "models.far.key"), (403, "key"), (404, "models.far.url"), (413, "models.far.batch")],
)
async def test_a_refusal_is_final_and_says_what_to_do(
    model: RemoteModel, server: Server, status: int, advice: str
) -> None:
    server.says(status, json.dumps({"error": {"message": f"unknown field,\n\x1b[0m with {SECRET}"}}))
    sentence = await refused(model, Permanent)
    assert advice in sentence
    assert "\n" not in sentence
    assert "\x1b" not in sentence


async def test_a_redirect_does_not_get_the_key(model: RemoteModel, server: Server) -> None:
    server.says(307, Location=f"http://127.0.0.1:{server.port}/elsewhere")
    assert "moved" in await refused(model, Permanent)
    assert server.paths == ["/v1/embeddings"]


async def test_a_server_without_our_key_is_told_apart(server: Server) -> None:
    server.says(401)
    model = RemoteModel("far", choose(server, key=None))
    assert "needs a key" in await refused(model, Permanent)
    await model.aclose()


async def test_no_repr_shows_the_key(model: RemoteModel) -> None:
    await model.embed(["a"])
    shown = repr(model) + repr(vars(model)) + repr(model._settings) + model._settings.model_dump_json()
    assert SECRET not in shown
    assert isinstance(model._settings.key, SecretStr)
    assert mask(f"Bearer {SECRET}") == "Bearer ***", "the log knows it"


async def test_it_opens_again_after_it_was_closed(model: RemoteModel) -> None:
    await model.embed(["a"])
    await model.aclose()
    await model.aclose()
    assert (await model.embed(["a"])).any()
