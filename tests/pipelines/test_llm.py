"""Questions to language models as jobs, with a worker in this process and a real server that misbehaves on command."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock import Penstock
from penstock.database.pool import PoolState
from penstock.engine import Context, Gap, Kind
from penstock.engine.limits.declare import list_limits
from penstock.engine.limits.exchange import close_breaker
from penstock.errors import BadJob, JobDead, NoModel, QueueFull
from penstock.operations import examine
from penstock.pipelines.llm import LlmRequests
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.web.middleware.errors import refuse
from tests.application import Application, application
from tests.models.chat import Chat, answers, chatting, cut, refuses, slow, stuck
from tests.polling import until

__all__ = ["application"]

ASKING = """
from penstock import Penstock
from penstock.pipelines.llm import LlmRequests

app = Penstock()
llm = LlmRequests(app)
"""
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class LlmApp:
    """An application with language models, and a worker when it is wanted."""

    def __init__(self, url: DatabaseUrl, home: Path, **settings: Any) -> None:
        self.app = Penstock(database_url=url, home=home, pool={"size": 5}, **settings)
        self.completing = LlmRequests(self.app)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        work = asyncio.create_task(self.app.work(stop=stop, concurrency=60, drain="1s"))
        try:
            yield
        finally:
            stop.set()
            await work
            await self.completing.aclose()

    async def row(self, job: int) -> Any:
        async with self.app.database.pool.session() as session:
            return await session.fetchrow("select * from penstock.jobs where id = $1", job)

    async def until_row(self, job: int, **expected: object) -> Any:
        async with asyncio.timeout(15):
            while True:
                row = await self.row(job)
                if row is not None and all(row[key] == value for key, value in expected.items()):
                    return row
                await asyncio.sleep(0.02)

    async def pass_time(self, seconds: float) -> None:
        async with self.app.database.pool.transaction() as tx:
            await tx.execute("update penstock.test_clock set shift = shift + $1", timedelta(seconds=seconds))

    async def feed(self, waiting: int) -> None:
        """Keep so many questions waiting."""
        while True:
            async with self.app.database.pool.session() as session:
                left: int = await session.fetchval("select count(*) from penstock.jobs where state = 'ready'")
            await self.app.enqueue_many([self.completing.call("why?")] * max(0, waiting - left))
            await asyncio.sleep(0.1)

    async def until_level(self, name: str, level: float) -> None:
        async with asyncio.timeout(20):
            while True:
                async with self.app.database.pool.session() as session:
                    if any(limit.name == name and limit.concurrency == level for limit in await list_limits(session)):
                        return
                await asyncio.sleep(0.05)

    async def until_open(self, name: str, trips: int = 1) -> None:
        """Until its breaker has opened so many times in a row."""
        async with asyncio.timeout(15):
            while True:
                async with self.app.database.pool.session() as session:
                    if any(limit.name == name and limit.trips >= trips for limit in await list_limits(session)):
                        return
                await asyncio.sleep(0.02)


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with chatting() as known:
        yield known


def llm(chat: Chat, **others: Any) -> dict[str, Any]:
    return {"url": chat.url, "model": "gpt-tiny", "key": "sk-canary-4711"} | others


async def test_fifty_calls_in_flight_hold_no_connection(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    """Each call takes 300 ms; the pool has 5 connections, and at the moment of the most calls nobody waits for one."""
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat, permits=50)})
    chat.usual = slow(0.3)
    seen: list[PoolState] = []
    chat.entered = lambda: seen.append(llm_app.app.database.pool.state) if chat.inside >= 50 else None
    async with llm_app.app, llm_app.working():
        jobs = await llm_app.app.enqueue_many([llm_app.completing.call(f"question {n}") for n in range(300)])
        for job in jobs:
            assert (await llm_app.app.result(job, timeout="60s"))["text"] == "well"
    assert chat.most == 50
    assert seen
    assert {state.size for state in seen} == {5}
    assert max(state.used for state in seen) <= 3, seen  # the claim, the settler, this test's own look
    assert max(state.waiting for state in seen) == 0
    assert len(chat.asked) == 300


async def test_an_open_breaker_closes_the_lane_and_spends_no_try(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat), "other": llm(chat, model="other")})
    chat.usual = cut
    async with llm_app.app, llm_app.working():
        jobs = await llm_app.app.enqueue_many([llm_app.completing.call("why?", llm="main") for _ in range(30)])
        await llm_app.until_open("llm-main")
        tried = len(chat.asked)
        assert tried < 12
        untouched = [job for job in jobs if (row := await llm_app.row(job))["attempt"] == 0 and row["state"] == "ready"]
        assert len(untouched) >= 30 - tried
        explained = await llm_app.app.why(untouched[-1])
        assert explained.because == "breaker"
        assert "waits for llm-main: its breaker has been open since" in explained.sentence
        assert "cut off its answer" in explained.sentence

        chat.usual = answers("well")
        other = await llm_app.completing.ask("and you?", llm="other")  # its lane is another one
        assert (await llm_app.app.result(other, timeout="10s"))["llm"] == "other"
        assert len(chat.asked) == tried + 1
        async with llm_app.app.database.pool.transaction() as tx:
            await close_breaker(tx, "llm-main")
        for job in jobs:
            assert (await llm_app.app.result(job, timeout="30s"))["text"] == "well"


async def test_a_lone_question_outlasts_an_outage(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    """Nobody else asks, so no answer could tell whose fault it is: the breaker opens, and no try is spent."""
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat, retries=1)})
    chat.usual = refuses(500)
    async with llm_app.app, llm_app.working():
        job = await llm_app.completing.ask("is somebody there?")
        for tries in range(1, 8):  # five until the breaker opens, then two probes
            row = await llm_app.until_row(job, state="later", attempt=tries)
            assert (row["failures"], json.loads(row["error"])["type"]) == (0, "Unavailable")
            if tries >= 5:
                await llm_app.until_open("llm-main", trips=tries - 4)
            if tries == 5:
                other = await llm_app.completing.ask("and for me?")
                explained = await llm_app.app.why(other)
                assert f"Job {other} waits for llm-main: its breaker has been open since" in explained.sentence
                assert "The language model main failed (500)" in explained.sentence
                await llm_app.app.cancel(other)
            if tries == 7:
                chat.usual = answers("back again")
            await llm_app.pass_time(1.2 * 2**tries)
        assert (await llm_app.app.result(job, timeout="20s"))["text"] == "back again"
        async with llm_app.app.database.pool.session() as session:
            assert await session.fetchval("select failures from penstock.job_history where id = $1", job) == 0
    assert len(chat.asked) == 8


async def test_a_question_that_fails_while_others_are_answered_is_given_up(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    """Its first failure may be an outage; after that the others have shown that it is not."""
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat, retries=2)})

    async def picky(request: Any, asked: dict[str, Any]) -> Any:
        reply = refuses(500) if asked["messages"][0]["content"] == "poison" else answers("well")
        return await reply(request, asked)

    chat.usual = picky
    async with llm_app.app, llm_app.working():
        job = await llm_app.completing.ask("poison")
        for tries, charged in ((1, 0), (2, 1), (3, 2)):
            assert (await llm_app.until_row(job, state="later", attempt=tries))["failures"] == charged
            other = await llm_app.completing.ask("and you?")
            assert (await llm_app.app.result(other, timeout="10s"))["text"] == "well"
            await llm_app.pass_time(1.2 * 2**tries)
        row = await llm_app.until_row(job, state="dead")
        assert (row["attempt"], json.loads(row["error"])["type"]) == (4, "Unavailable")


async def test_the_level_falls_with_timeouts_and_rises_again(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat, permits=4, timeout="2s")})
    chat.usual, open_gate = slow(0.05), asyncio.Event()

    async def gated(request: Any, asked: dict[str, Any]) -> Any:
        await open_gate.wait()
        return await slow(0.05)(request, asked)

    async with llm_app.app, llm_app.working():
        feeding = asyncio.create_task(llm_app.feed(20))
        await llm_app.until_level("llm-main", 4)
        chat.next.extend([stuck] * 4)
        chat.usual = gated
        await llm_app.until_level("llm-main", 2)
        assert chat.inside <= 2, "and so are the calls"
        open_gate.set()
        await llm_app.until_level("llm-main", 4)
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def test_a_server_that_asks_for_patience_is_asked_later(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat)})
    chat.next.append(refuses(429, Retry_After="1"))
    async with llm_app.app:
        job = await llm_app.completing.ask("why?")
        async with llm_app.working():
            row = await llm_app.until_row(job, state="later")
            assert (row["failures"], json.loads(row["error"])["class"]) == (0, "RateLimited")
            assert (await llm_app.app.result(job, timeout="10s"))["text"] == "well"


async def test_an_answer_after_its_asker_has_gone_is_found(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat)})
    entered, open_gate = asyncio.Event(), asyncio.Event()
    chat.entered = entered.set

    async def late(request: Any, asked: dict[str, Any]) -> Any:
        await open_gate.wait()
        return await answers("late, and not lost")(request, asked)

    chat.usual = late
    async with llm_app.app, llm_app.working():
        job = await llm_app.completing.ask("why?", unique="why")
        await entered.wait()
        with pytest.raises(TimeoutError):
            await llm_app.app.result(job, timeout="50ms")
        assert await llm_app.completing.ask("why?", unique="why") == job  # who comes again is given the same
        open_gate.set()
        assert (await llm_app.app.result(job, timeout="10s"))["text"] == "late, and not lost"
    assert len(chat.asked) == 1


async def test_a_map_over_questions(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    """One of them dies of its answer, and is a gap; the prompt is in no error."""
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat)})

    async def echo(request: Any, asked: dict[str, Any]) -> Any:
        number = asked["messages"][0]["content"].split()[1]
        return await answers(json.dumps({"n": int(number)} if number != "3" else {}))(request, asked)

    chat.usual = echo

    @llm_app.app.job()
    async def read(ctx: Context) -> list[Any]:
        calls = [llm_app.completing.call(f"number {n} canary", schema=SCHEMA) for n in range(6)]
        found = await ctx.map("ask", calls, gaps="allow")
        return [each.reason if isinstance(each, Gap) else each["value"]["n"] for each in found]

    async with llm_app.app, llm_app.working():
        found = await llm_app.app.result(await llm_app.app.enqueue(read()), timeout="20s")
    assert found[:3] + found[4:] == [0, 1, 2, 4, 5]
    assert "lacks n" in found[3]
    assert "canary" not in str(found)


async def test_a_dead_question_keeps_all_that_was_asked(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat)})
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "prompt-canary"}]
    chat.usual = answers("{}")
    with capture_logs() as lines:
        async with llm_app.app, llm_app.working():
            await die_and_come_again(llm_app, chat, messages)
    assert "attempt failed" in str(lines)
    assert "canary" not in str(lines)


async def die_and_come_again(llm_app: LlmApp, chat: Chat, messages: list[dict[str, str]]) -> None:
    job = await llm_app.completing.ask(messages, schema=SCHEMA, max_tokens=9)
    with pytest.raises(JobDead, match="even on the second attempt: the answer lacks n"):
        await llm_app.app.result(job, timeout="10s")
    row = await llm_app.row(job)
    assert json.loads(row["args"]) == {"messages": messages, "schema": SCHEMA, "max_tokens": 9}
    assert "canary" not in row["error"]
    assert len(chat.asked) == 2

    chat.usual = answers('{"n": 7}')
    await llm_app.app.redrive(job, force=True)
    assert (await llm_app.app.result(job, timeout="10s"))["value"] == {"n": 7}


async def test_too_many_questions_are_refused_to_who_asks(
    database_url: DatabaseUrl, tmp_path: Path, chat: Chat
) -> None:
    llm_app = LlmApp(database_url, tmp_path, llms={"main": llm(chat, waiting=3)})
    async with llm_app.app:
        for _ in range(3):
            await llm_app.completing.ask("why?")
        with pytest.raises(QueueFull, match=r"lane llm\.complete\.main of default in the queue llm is full") as caught:
            await llm_app.completing.ask("why?")
        told = refuse(caught.value)  # as a route of the API that asks would answer
        assert (told.status_code, int(told.headers["Retry-After"]) >= 1) == (429, True)
        await llm_app.completing.ask("why?", fairness_key="another")
    assert chat.asked == []


def declare_reading(llm_app: LlmApp) -> Kind:
    @llm_app.app.job()
    async def read(ctx: Context) -> Any:
        return (await ctx.map("ask", [llm_app.completing.call("why?")]))[0]["text"]

    return read


async def missing(llm_app: LlmApp) -> list[str]:
    return [each.sentence for each in await examine(llm_app.app.settings) if each.name == "no-llm"]


async def test_without_a_model_what_needs_one_says_so(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    """A job that needs one waits, uncharged and named by the doctor, until a worker has one."""
    poor, rich = LlmApp(database_url, tmp_path), LlmApp(database_url, tmp_path, llms={"main": llm(chat)})
    read = declare_reading(poor)
    declare_reading(rich)
    async with poor.app:
        with pytest.raises(NoModel, match=r"No language model is configured: add a table \[llms.NAME\]"):
            await poor.completing.ask("why?")
        async with poor.working():
            assert await missing(poor) == []
            job = await poor.app.enqueue(read())
            row = await poor.until_row(job, state="later")
            assert row["failures"] == 0
            explained = await poor.app.why(job)
            assert "NoModel (RateLimited): No language model is configured" in explained.sentence
            [sentence] = await missing(poor)
            assert f"1 job, of which job {job} is the oldest" in sentence
    async with rich.app, rich.working():
        async with rich.app.database.pool.transaction() as tx:
            await tx.execute("update penstock.test_clock set shift = '61s'")
        assert await rich.app.result(job, timeout="20s") == "well"
        assert await missing(rich) == []


async def test_a_model_that_was_taken_away_is_named(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    poor, rich = LlmApp(database_url, tmp_path), LlmApp(database_url, tmp_path, llms={"main": llm(chat)})
    declare_reading(poor)
    async with rich.app:
        await rich.completing.ask("is somebody there?")
        async with poor.app, poor.working():
            await until_served(poor)
            [sentence] = await missing(poor)
            assert "1 request for main" in sentence


async def until_served(llm_app: LlmApp) -> None:
    def count(session: Any) -> Any:
        return session.fetchval("select count(*) from penstock.workers where gone_at is null")

    async with asyncio.timeout(10):
        while not await llm_app.app.database.pool.repeat(count):  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(0.02)


async def test_which_model_is_asked(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    one = LlmRequests(Penstock(database_url=database_url, home=tmp_path, llms={"far": llm(chat)}))
    assert one.call("x").kind.name == "llm.complete.far"
    with pytest.raises(NoModel, match="'near' is not configured: use one of far"):
        one.call("x", llm="near")
    two = LlmRequests(Penstock(database_url=database_url, home=tmp_path, llms={"a": llm(chat), "b": llm(chat)}))
    with pytest.raises(NoModel, match=r"several language models \(a, b\): name one"):
        two.call("x")
    for wrong in (
        [],
        [{"role": "user"}],
        [{"role": "robot", "content": "x"}],
        " ",
        ["x"],
        [{"role": "user", "content": 1}],
    ):
        with pytest.raises(BadJob):
            one.call(wrong)  # type: ignore[arg-type]
    with pytest.raises(BadJob, match="more than 1,000,000"):
        one.call("x" * 1_000_001)


async def test_the_product_has_slots_for_its_models(database_url: DatabaseUrl, tmp_path: Path, chat: Chat) -> None:
    llms = {"default": llm(chat, permits=3), "other": llm(chat, permits=4)}
    product = Product(database_url=database_url, home=tmp_path, pool={"size": 4}, llms=llms)
    assert product.slots["llm"] == 7
    assert product.llm.call("x").kind.name == "llm.complete.default"
    stop = asyncio.Event()
    async with product:
        work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain="1s"))
        job = await product.llm.ask("why?")
        assert (await product.app.result(job, timeout="20s"))["text"] == "well"
        stop.set()
        await work
    await until(lambda: chat.inside == 0)


async def test_a_killed_worker_s_call_is_made_again(application: Application, chat: Chat) -> None:
    """Real processes, with all logs on: what they print has neither the prompt nor the key."""
    entered = asyncio.Event()
    chat.entered = entered.set
    chat.next.append(stuck)
    application.environ |= {
        "PENSTOCK_LLMS__MAIN__URL": chat.url,
        "PENSTOCK_LLMS__MAIN__MODEL": "gpt-tiny",
        "PENSTOCK_LLMS__MAIN__KEY": "sk-canary-4711",
        "PENSTOCK_LOG__LEVEL": "debug",
    }
    (application.folder / "asking.py").write_text(ASKING)
    first = await application.worker(place="asking:app")
    messages = [{"role": "user", "content": "prompt-canary"}]
    job = await application.enqueue("llm.complete.main", queue="llm", messages=messages)
    await asyncio.wait_for(entered.wait(), 20)
    chat.next.append(refuses(500, {"message": "what is prompt-canary?"}))
    second = await application.worker(place="asking:app")
    first.process.kill()
    assert (await application.client.result(job, timeout="40s"))["text"] == "well"
    second.process.terminate()
    await second.end()
    assert [asked["messages"] for asked in chat.asked] == [messages] * 3
    assert "The language model main failed (500)" in second.printed
    assert "canary" not in first.printed + second.printed
