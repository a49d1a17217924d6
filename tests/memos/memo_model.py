"""A fake language model that makes memos of messages and judges pairs by functions of the test.

It is behind the real server of tests/models/chat.py, and reads its questions as a model would: from the prompt.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from penstock.memos import Message, post
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.models.chat import Chat, answers

Line = dict[str, Any]


def memo(line: Line, text: str = "", **others: Any) -> Line:
    """Of one message."""
    return {"text": text or line["text"], "kind": "fact", "confidence": 0.9, "messages": [line["number"]]} | others


class MemoModel:
    """Remembers every message word by word, and holds all memos different, until it is told otherwise."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.find: Callable[[list[Line]], list[Line]] = lambda lines: [memo(line) for line in lines]
        self.judge: Callable[[str, str], str] = lambda older, newer: "different"
        self.delay = 0.0
        self.found: list[list[Line]] = []  # the messages of each question
        self.judged: list[tuple[str, str]] = []
        chat.usual = self.reply

    async def reply(self, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        lines = lines_of(asked)
        schema = asked["response_format"]["json_schema"]["schema"]
        await asyncio.sleep(self.delay)
        if "memos" in schema["properties"]:
            numbered = [line for line in lines if "number" in line]
            self.found.append(numbered)
            answer: dict[str, Any] = {"memos": self.find(numbered)}
        else:
            self.judged += [(line["older"], line["newer"]) for line in lines]
            verdicts = [{"pair": line["pair"], "verdict": self.judge(line["older"], line["newer"])} for line in lines]
            answer = {"verdicts": verdicts}
        return await answers(json.dumps(answer))(request, asked)


def lines_of(asked: dict[str, Any]) -> list[Line]:
    """What stands between the marks."""
    mark, *lines, end = asked["messages"][-1]["content"].split("\n")
    assert mark == end
    return [json.loads(line) for line in lines]


def llms(chat: Chat, **others: Any) -> dict[str, Any]:
    return {"main": {"url": chat.url, "model": "gpt-tiny", "permits": 50} | others}


@asynccontextmanager
async def product_of(url: DatabaseUrl, home: Path, chat: Chat | None, **settings: Any) -> AsyncIterator[Product]:
    """The product without a worker. Its schedule rests, for a test wants to know when somebody looks."""
    memos = {"check_every": "1d"} | settings.pop("memos", {})
    chosen: dict[str, Any] = {"pool": {"size": 4, "hold_limit": "2s"}, "extraction": {"children": 1}, "memos": memos}
    chosen |= {"llms": llms(chat)} if chat is not None else {}
    async with Product(database_url=url, home=home, **(chosen | settings)) as product:
        yield product


@asynccontextmanager
async def working(product: Product, *, without: str = "") -> AsyncIterator[None]:
    """A worker in this process, for all queues but `without`."""
    stop = asyncio.Event()
    slots = {queue: count for queue, count in product.slots.items() if queue != without}
    work = asyncio.create_task(product.app.work(stop=stop, concurrency=slots, drain="1s"))
    try:
        yield
    finally:
        stop.set()
        await work


async def say(product: Product, stream: str, *texts: str, first: int = 1, tenant: str = "default") -> None:
    """Messages of Ann and Bob in turns, numbered from `first` on."""
    messages = [Message(f"m{number}", text, ("Ann", "Bob")[number % 2]) for number, text in enumerate(texts, first)]
    async with product.app.database.pool.transaction() as tx:
        await post(tx, stream, messages, tenant=tenant, most=10**6)


async def check(product: Product) -> int:
    """What the schedule does; how many jobs it has ordered."""
    job = await product.app.enqueue(product.app.kinds["memo.batch-check"](), fairness_key="_system")
    ordered: int = await product.app.result(job, timeout="20s")
    return ordered


async def rows(product: Product, query: str, *arguments: Any) -> list[Any]:
    async with product.app.database.pool.session() as session:
        found: list[Any] = await session.fetch(query, *arguments)
        return found


async def read(product: Product, *, within: float = 30) -> None:
    """Look once, and wait until all streams are read to their end, or their jobs are dead."""
    await check(product)
    await over(product, within=within)


async def over(product: Product, *, within: float = 30) -> None:
    """No batch is under way."""
    async with asyncio.timeout(within):
        while await batches_left(product):  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(0.02)


async def batches_left(product: Product) -> bool:
    busy = (
        "select from penstock.jobs join penstock.lanes on lanes.id = lane where kind = 'memo.batch' and state <> 'dead'"
    )
    return bool(await rows(product, busy))


async def until(product: Product, query: str, *, within: float = 20) -> list[Any]:
    """The rows of a query, as soon as there are some."""
    async with asyncio.timeout(within):
        while not (found := await rows(product, query)):  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(0.02)
    return found


async def memos_of(product: Product, stream: str = "mill") -> list[Any]:
    """All memos of a stream: text, state, what replaced it (as text), and the numbers of its messages."""
    return await rows(
        product,
        """
        select memo.text, memo.state, other.text as successor,
          array(select seq from penstock.memo_messages where memo_id = memo.id order by seq) as messages
        from penstock.memos as memo join penstock.streams as stream on stream.id = memo.stream_id
        left join penstock.memos as other on other.id = coalesce(memo.merged_into, memo.superseded_by)
        where stream.name = $1 order by memo.id
        """,
        stream,
    )
