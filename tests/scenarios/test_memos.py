"""Workers are killed in every part of a batch, and the model goes away, while people talk on: each message counts once."""

import asyncio
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.engine.limits.exchange import close_breaker
from penstock.memos import Message, post
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.memos.memo_model import MemoModel, llms, working
from tests.models.chat import chatting, cut
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

STREAMS = ("mill", "ferry")
THINGS = ("gate", "weir", "turbine")  # each is now of this colour, now of that one
TALK_EVERY = 0.15  # seconds
# Each victim dies there, in the same streams. A job may lose two workers, one of them as a quarantined job; waiting for the
# model acquits it. Passages: a batch comes to the step `read` again after each answer.
CHAINS = [
    ["step:read", "mid-map", "step:embed", "step:compare"],
    ["mid-checkpoint", "step:read=2", "mid-map=2", "step:save"],
    ["before-count-down", "before-settle", "before-finish", "before-commit"],
    ["after-commit-before-ack", "step:read=3", "before-finish=2"],
]


@pytest.fixture
async def memo_model() -> AsyncIterator[MemoModel]:
    """Remembers each message, and judges by colour: the same thing in the same one, or in another."""
    async with chatting() as chat:
        made = MemoModel(chat)
        made.judge = judge
        yield made


def judge(older: str, newer: str) -> str:
    (thing, colour), (other, another) = (re.findall(r"The (\w+) is (\w+)", text)[0] for text in (older, newer))
    if thing != other:
        return "different"
    return "same" if colour == another else "contradicts"


@pytest.fixture
async def product_processes(
    database_url: DatabaseUrl, tmp_path: Path, memo_model: MemoModel
) -> AsyncIterator[ProductProcesses]:
    connection = await asyncpg.connect(database_url.reveal())
    chosen: dict[str, Any] = {
        "llms": llms(memo_model.chat),
        "memos": {"check_every": "1s", "batch": 4},
        "extraction": {"children": 1},
    }
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}, **chosen) as product:
        made = ProductProcesses(product, connection, database_url)
        made._environ |= {"PENSTOCK_POOL__SIZE": "4", "PENSTOCK_EXTRACTION__CHILDREN": "1"}
        made._environ |= {"PENSTOCK_LLMS__MAIN__URL": memo_model.chat.url, "PENSTOCK_LLMS__MAIN__MODEL": "gpt-tiny"}
        made._environ |= {"PENSTOCK_MEMOS__CHECK_EVERY": "1s", "PENSTOCK_MEMOS__BATCH": "4"}
        try:
            yield made
        finally:
            await made.close()
    await connection.close()


class Talk:
    """People who say something now and then, and repeat themselves, and change their minds."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self.said: dict[str, list[str]] = {name: [] for name in STREAMS}

    async def say(self, stream: str) -> None:
        texts = self.said[stream]
        number = len(texts) + 1
        colour = ("green", "green", "red")[number // 3 % 3]
        texts.append(f"The {THINGS[number % 3]} is {colour}, says message {number} of {stream}.")
        async with self._product.app.transaction() as tx:
            await post(tx, stream, [Message(str(number), texts[-1], "Ann")], tenant="default", most=10**6)

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        enough = asyncio.Event()

        async def talk() -> None:
            while not enough.is_set():
                for stream in STREAMS:
                    await self.say(stream)
                await asyncio.sleep(TALK_EVERY)

        talking = asyncio.create_task(talk())
        try:
            yield
        finally:
            enough.set()  # nobody is interrupted: what was said half would be said or not
            await talking


async def settled(product_processes: ProductProcesses) -> None:
    await product_processes.until("select not exists (select from penstock.streams where last > done)", within=60)
    busy = "select from penstock.jobs join penstock.lanes on lanes.id = lane where kind = 'memo.batch'"
    await product_processes.until(f"select not exists ({busy})", within=30)


async def each_message_counts_once(product_processes: ProductProcesses, talk: Talk) -> None:
    """One memo for each message, made of it, whatever it was merged into or superseded by; one live memo for each thing."""
    for stream, texts in talk.said.items():
        rows = await product_processes.connection.fetch(
            """
            select memo.text, memo.state, memo.id,
              (select array_agg(message.text) from penstock.memo_messages as link join penstock.messages as message
                on message.stream_id = link.stream_id and message.seq = link.seq where link.memo_id = memo.id) as messages
            from penstock.memos as memo join penstock.streams as stream on stream.id = memo.stream_id where stream.name = $1
            """,
            stream,
        )
        assert Counter(row["text"] for row in rows) == Counter(texts), "no memo twice, no message skipped"
        assert all(row["text"] in row["messages"] for row in rows), "each is linked to the message that says it"
        newest = {text.split()[1]: text.split()[3] for text in texts}
        live = {row["text"].split()[1]: row["text"].split()[3] for row in rows if row["state"] == "live"}
        assert len(live) == sum(row["state"] == "live" for row in rows), "one for each thing"
        assert live == newest, "the last word counts"
        messages = "select count(*) from penstock.messages join penstock.streams on id = stream_id where name = $1"
        assert await product_processes.connection.fetchval(messages, stream) == len(texts)
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await product_processes.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"
    assert await product_processes.connection.fetchval("select count(*) from penstock.jobs where state = 'dead'") == 0
    assert await product_processes.violations() == []


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: f"{chain[0]} to {chain[-1]}")
async def test_workers_are_killed_while_people_talk(product_processes: ProductProcesses, chain: list[str]) -> None:
    talk = Talk(product_processes.product)
    for place in chain:
        point, _, passage = place.partition("=")
        async with talk.going_on():
            victim = await product_processes.start_worker(PENSTOCK_TEST_FAILPOINTS=f"{point}=kill@{passage or 1}")
            assert await victim.end(60) == -signal.SIGKILL, (place, victim.logged)
    async with working(product_processes.product):
        await settled(product_processes)
    assert min(map(len, talk.said.values())) > 4
    await each_message_counts_once(product_processes, talk)


async def test_the_model_goes_away_and_comes_back(product_processes: ProductProcesses, memo_model: MemoModel) -> None:
    """Its breaker opens, messages wait, and when it is back all of them are read, in their order."""
    talk = Talk(product_processes.product)
    async with working(product_processes.product):
        async with talk.going_on():
            await product_processes.until("select count(*) > 4 from penstock.memos")
            memo_model.chat.usual = cut
            await product_processes.until("select exists (select from penstock.limits where opened_at is not null)")
            made = await product_processes.connection.fetchval("select count(*) from penstock.memos")
            await product_processes.until(f"select max(last - done) > 8 from penstock.streams where {made} >= 0")
            assert await product_processes.connection.fetchval("select count(*) from penstock.memos") <= made + 8
        memo_model.chat.usual = memo_model.reply
        async with product_processes.product.app.transaction() as tx:
            await tx.execute("update penstock.test_clock set shift = shift + interval '2 minutes'")
            await close_breaker(tx, "llm-main")
        await settled(product_processes)
    await product_processes.connection.execute(
        "update penstock.job_history set failures = 0"
    )  # those of the model are its own
    await each_message_counts_once(product_processes, talk)


async def test_a_stream_is_deleted_while_its_workers_are_killed(product_processes: ProductProcesses) -> None:
    """Nothing of it is left, and the other one is as it was."""
    talk = Talk(product_processes.product)
    async with working(product_processes.product):
        for _ in range(6):
            for stream in STREAMS:
                await talk.say(stream)
        await settled(product_processes)
    await talk.say("mill")  # there is something to read when it is deleted
    old = await product_processes.product.memos.delete_stream("mill", tenant="default")
    for place in ("step:remove-memos", "step:remove-messages"):
        victim = await product_processes.start_worker(PENSTOCK_TEST_FAILPOINTS=f"{place}=kill")
        assert await victim.end(60) == -signal.SIGKILL, (place, victim.logged)
    async with working(product_processes.product):
        await product_processes.until("select not exists (select from penstock.streams where id = $1)", old)
    for table in ("messages", "memos", "memo_messages"):
        left = f"select count(*) from penstock.{table} where stream_id = $1"
        assert await product_processes.connection.fetchval(left, old) == 0, table
    talk.said.pop("mill")
    await each_message_counts_once(product_processes, talk)
