"""What is tried again and what is not, and that no wait is without an end; against a server that fails on command."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import client as api
from tests.client.both_clients import ClientCalls
from tests.client.flaky_server import Flaky, Play, answer, cut, half, hang, playing, stuck

DOCUMENT = {"id": 7, "status": "ready"}
ACCEPTED = {"id": 7, "name": "a"}
TAG = "0" * 10


@asynccontextmanager
async def meeting(flavour: str, *script: Play, **options: Any) -> AsyncIterator[tuple[ClientCalls, Flaky]]:
    async with playing(*script) as flaky:
        speaker = ClientCalls(flavour, flaky.url, **options)
        try:
            yield speaker, flaky
        finally:
            await speaker.aclose()


@pytest.mark.parametrize("failure", [cut, half(200, 99, b"{"), *(answer(code) for code in (429, 502, 503, 504))])
async def test_a_question_is_asked_again(flavour: str, failure: Play) -> None:
    async with meeting(flavour, failure, answer(200, DOCUMENT)) as (call, flaky):
        assert (await call(lambda c: c.documents.show(7))).status == "ready"
        assert [each.path for each in flaky.asked] == ["/api/documents/7"] * 2


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 422, 500, 501, 507])
async def test_an_answer_is_an_answer(flavour: str, code: int) -> None:
    async with meeting(flavour, answer(code, {"detail": "Because."})) as (call, flaky):
        with pytest.raises(api.Problem, match="Because") as refusal:
            await call(lambda c: c.documents.show(7))
        assert refusal.value.status == code
        assert isinstance(refusal.value, api.Refused if code < 500 else api.Trouble)
        assert len(flaky.asked) == 1


@pytest.mark.parametrize("failure", [cut, answer(503), answer(429, None, Retry_After="0")])
async def test_a_post_is_never_sent_again(flavour: str, failure: Play) -> None:
    async with meeting(flavour, failure) as (call, flaky):
        with pytest.raises(api.ClientError):
            await call(lambda c: c.documents.retry(7))
        assert len(flaky.asked) == 1


async def test_a_change_is_never_sent_again(flavour: str) -> None:
    async with meeting(flavour, answer(503)) as (call, flaky):
        with pytest.raises(api.Unavailable):
            await call(lambda c: c.collections.change("mill", chunk_size=5))
        assert len(flaky.asked) == 1


async def test_a_file_is_sent_again_under_the_same_key(flavour: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"water" * 200_000)
    in_flight = answer(409, {"type": "urn:penstock:key-in-flight", "detail": "Wait."}, Retry_After="0")
    async with meeting(flavour, cut, in_flight, answer(503), answer(202, ACCEPTED)) as (call, flaky):
        with path.open("rb") as opened:
            opened.seek(5)
            assert (await call(lambda c: c.documents.put("mill", opened))).id == 7
        assert len({each.headers["idempotency-key"] for each in flaky.asked}) == 1
        assert {each.body for each in flaky.asked} == {path.read_bytes()[5:]}
        assert len(flaky.asked) == 4


async def test_a_form_is_sent_again_under_the_same_key(flavour: str) -> None:
    async with meeting(flavour, cut, answer(202, ACCEPTED)) as (call, flaky):
        await call(lambda c: c.documents.post("mill", {"a": b"water"}))
        [first, second] = flaky.asked
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        assert first.body == second.body
        assert b"water" in first.body


async def test_each_upload_has_its_own_key(flavour: str) -> None:
    async with meeting(flavour, answer(202, ACCEPTED), answer(202, ACCEPTED)) as (call, flaky):
        for _ in range(2):
            await call(lambda c: c.documents.put("mill", b"water", "a"))
        assert len({each.headers["idempotency-key"] for each in flaky.asked}) == 2


async def test_a_key_of_somebody_else_in_flight_is_told(flavour: str) -> None:
    async with meeting(flavour, answer(409, {"type": "urn:penstock:key-in-flight"})) as (call, flaky):
        with pytest.raises(api.KeyInFlight):
            await call(lambda c: c.documents.put("mill", b"water", "a", key="theirs"))
        assert len(flaky.asked) == 1


async def test_pieces_are_sent_once(flavour: str) -> None:
    async with meeting(flavour, answer(503)) as (call, flaky):
        with pytest.raises(api.Unavailable):
            await call(lambda c: c.documents.put("mill", iter([b"a", b"b"]), "a"))
        assert [each.body for each in flaky.asked] == [b"ab"]


async def test_deleted_by_the_try_whose_answer_was_lost(flavour: str) -> None:
    async with meeting(flavour, cut, answer(404), answer(404)) as (call, flaky):
        await call(lambda c: c.collections.delete("mill"))
        assert [each.method for each in flaky.asked] == ["DELETE"] * 2
        with pytest.raises(api.NotFound):
            await call(lambda c: c.collections.delete("mill"))


async def test_it_gives_up(flavour: str) -> None:
    async with meeting(flavour, *[answer(503)] * 3, tries=3) as (call, flaky):
        with pytest.raises(api.Unavailable):
            await call(lambda c: c.documents.show(7))
        assert len(flaky.asked) == 3


async def test_a_pause_beyond_the_deadline_is_not_begun(flavour: str) -> None:
    async with meeting(flavour, answer(429, None, Retry_After="90")) as (call, _):
        began = time.monotonic()
        with pytest.raises(api.RateLimited) as limited:
            await call(lambda c: c.documents.show(7))
        assert limited.value.retry_after == 90
        assert time.monotonic() - began < 90


async def test_the_pause_that_was_asked_for_is_made(flavour: str) -> None:
    async with meeting(flavour, answer(503, None, Retry_After="1"), answer(200, DOCUMENT)) as (call, _):
        began = time.monotonic()
        await call(lambda c: c.documents.show(7))
        assert time.monotonic() - began >= 1


@pytest.mark.parametrize("play", [hang, stuck(200, 99, b"{")])
async def test_silence_ends(flavour: str, play: Play) -> None:
    async with meeting(flavour, play, timeout=0.2, tries=1) as (call, _):
        with pytest.raises(api.Unreachable):
            await call(lambda c: c.documents.show(7))


async def test_silence_in_a_download_ends(flavour: str) -> None:
    async with meeting(flavour, stuck(200, 99, b"water"), timeout=0.2, tries=1) as (call, _):
        with pytest.raises(api.Unreachable):
            await call(lambda c: c.documents.content(7))


async def test_a_download_goes_on_where_it_broke_off(flavour: str, tmp_path: Path) -> None:
    async with meeting(
        flavour,
        half(200, 10, b"01234", ETag=TAG),
        answer(503),
        half(206, 5, b"56", ETag=TAG),
        answer(206, b"789", ETag=TAG),
    ) as (call, flaky):
        await call(lambda c: c.documents.download(7, tmp_path / "a"))
        assert (tmp_path / "a").read_bytes() == b"0123456789"
        assert [each.headers.get("range") for each in flaky.asked] == [None, "bytes=5-", "bytes=5-", "bytes=7-"]


async def test_what_was_fetched_is_kept_for_the_next_call(flavour: str, tmp_path: Path) -> None:
    async with meeting(flavour, half(200, 6, b"012"), answer(206, b"345"), tries=1) as (call, flaky):
        with pytest.raises(api.Unreachable):
            await call(lambda c: c.documents.download(7, tmp_path / "a"))
        assert not (tmp_path / "a").exists()
        await call(lambda c: c.documents.download(7, tmp_path / "a"))
        assert (tmp_path / "a").read_bytes() == b"012345"
        assert flaky.asked[1].headers["range"] == "bytes=3-"


async def test_two_contents_are_never_mixed(flavour: str, tmp_path: Path) -> None:
    script = (half(200, 6, b"012", ETag="one"), answer(206, b"xyz", ETag="two"))
    async with meeting(flavour, *script, *script, answer(200, b"abcxyz", ETag="two")) as (call, _):
        with pytest.raises(api.ContentChanged):
            await call(lambda c: c.documents.content(7))
        await call(lambda c: c.documents.download(7, tmp_path / "a"))
        assert (tmp_path / "a").read_bytes() == b"abcxyz"


async def test_wrong_bytes_are_noticed(flavour: str, tmp_path: Path) -> None:
    async with meeting(flavour, *[answer(200, b"wrong", ETag="a" * 64)] * 3) as (call, _):
        with pytest.raises(api.ContentChanged):
            await call(lambda c: c.documents.download(7, tmp_path / "a"))
        assert list(tmp_path.iterdir()) == []


async def test_events_come_back(flavour: str) -> None:
    event = b"event: changed\r\ndata: \r\nretry: 1\r\n\r\n"
    script = (half(200, 999, b": ping\r\n\r\n" + event + b"event: chan"), answer(503), answer(200, event), hang)

    async def nothing() -> None:
        """Only wait for the next one."""

    async with meeting(flavour, *script) as (call, flaky):
        assert len(await call.first(lambda c: c.events(), 2, nothing)) == 2
        assert len(flaky.asked) == 3


async def test_nobody_there(flavour: str) -> None:
    async with playing() as flaky:
        url = flaky.url
    call = ClientCalls(flavour, url, deadline=0.5, key="pk_canary")
    with pytest.raises(api.Unreachable, match=url) as away:
        await call(lambda c: c.documents.show(7))
    assert "canary" not in f"{away.value!r}{call.client!r}{vars(call.client)}"
    await call.aclose()


async def test_the_key_is_sent_and_taken_nowhere_else(flavour: str) -> None:
    async with playing(answer(200, DOCUMENT)) as other, playing(answer(307, b"", Location=other.url)) as flaky:
        call = ClientCalls(flavour, flaky.url, key="pk_canary")
        with pytest.raises(api.Problem, match="not followed"):
            await call(lambda c: c.documents.show(7))
        assert flaky.asked[0].headers["authorization"] == "Bearer pk_canary"
        assert other.asked == []
        await call.aclose()


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"name": 5}', b'"x"', b"\xff", b"[" * 100_000])
async def test_what_is_not_penstock(flavour: str, body: bytes) -> None:
    async with meeting(flavour, answer(200, body), answer(200, body)) as (call, _):
        with pytest.raises(api.BadAnswer):
            await call(lambda c: c.documents.show(7))
        with pytest.raises(api.BadAnswer):
            await call(lambda c: c.documents.list())


async def test_a_gateways_page_is_a_problem(flavour: str) -> None:
    async with meeting(flavour, answer(403, b"<html>no</html>")) as (call, _):
        with pytest.raises(api.NotAllowed, match="address"):
            await call(lambda c: c.documents.show(7))


async def test_not_ready_is_an_answer(flavour: str) -> None:
    async with meeting(flavour, answer(503, {"status": "not ready", "problems": ["No database."]})) as (call, flaky):
        assert (await call(lambda c: c.ready())).problems == ["No database."]
        assert len(flaky.asked) == 1


async def test_events_that_never_begin_end(flavour: str) -> None:
    async with meeting(flavour, answer(200, b""), answer(200, b": ping\n\n"), tries=2) as (call, _):
        with pytest.raises(api.Unreachable, match="before the first"):
            await call(lambda c: c.events())
