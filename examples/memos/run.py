"""Memos from a conversation, in a temporary home: `.venv/bin/python examples/memos/run.py`.

People talk about a mill. What is worth remembering becomes memos: one that says the same as another is merged into it, one that
contradicts another supersedes it, and each knows its messages. The model is the stand-in of examples/models, which follows a
few rules and is no model. Exit code 1 when anything comes out otherwise than it says here.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from penstock.memos import Memo, MemoQuestion, Message, find_memos, find_stream, list_memos, post
from penstock.product import Product

SERVER = Path(__file__).parents[1] / "models/server.py"
STREAM = "mill"
FIRST = [
    ("Ann", "Good morning! Did you sleep well?"),
    ("Bob", "Thanks. The sluice gate is made of oak, by the way."),
    ("Ann", "We decided to repair the weir on Monday."),
    ("Bob", "Carla prefers to be called in the morning."),
]
THEN = [
    ("Ann", "The gate of the sluice is made of oak wood."),
    ("Bob", "We decided to repair the weir on Thursday, since it rains."),
    ("Ann", "See you!"),
]
QUESTION = "when do we repair the weir?"
WITHIN = 55.0  # seconds


class Unexpected(Exception):
    """A result differs from what the example promises."""


async def main(home: Path) -> None:
    async with model_server() as address:
        llms = {"main": {"url": address, "model": "stand-in"}}
        settings = {"home": home, "llms": llms, "memos": {"check_every": "1s"}, "log": {"level": "error"}}
        async with Product(role="worker", **settings) as product:
            stop = asyncio.Event()
            work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots))
            try:
                async with asyncio.timeout(WITHIN):
                    await tell_story(product)
            finally:
                stop.set()
                await work


async def tell_story(product: Product) -> None:
    await say(product, FIRST, first=1)
    await until_read(product)
    show("After the first messages", await memos(product))
    await say(product, THEN, first=len(FIRST) + 1)
    await until_read(product)
    found = await memos(product)
    show("After the next ones", found)
    check_memos(found)
    [best, *_] = await find_memos(
        product.app.database, product.models, MemoQuestion(QUESTION, "default", k=3), product.settings.memos
    )
    print(f"\n{QUESTION}\n  {best.text}  (said by {best.messages[0].author} in message {best.messages[0].number})")
    check("Thursday" in best.text, "the answer is not the newest one")


async def say(product: Product, talk: list[tuple[str, str]], *, first: int) -> None:
    """Twice, as senders do: the same message again is the same message."""
    messages = [Message(f"m{number}", text, author) for number, (author, text) in enumerate(talk, first)]
    for _ in range(2):
        async with product.app.transaction() as tx:
            posted = await post(tx, STREAM, messages, tenant="default", most=1000)
    check(posted.new == 0, "a message came twice")
    print(f"\n{len(messages)} messages are in the stream {STREAM}.")


async def until_read(product: Product) -> None:
    """Until memos have been made of all messages."""
    find = partial(find_stream, name=STREAM, tenant="default")
    while (await product.app.database.pool.repeat(find)).waiting:  # noqa: ASYNC110  it is in the database
        await asyncio.sleep(0.1)


async def memos(product: Product) -> list[Memo]:
    return await product.app.database.pool.repeat(list_memos, tenant="default", every=True)


# -- results --------------------------------------------------------------------------------------------------------


def show(when: str, found: list[Memo]) -> None:
    print(f"{when}:")
    for each in found:
        became = (
            f" into {each.merged_into}"
            if each.merged_into
            else f" by {each.superseded_by}"
            if each.superseded_by
            else ""
        )
        numbers = ", ".join(str(message.number) for message in each.messages)
        print(f"  {each.id}. {each.state + became:<16} {each.kind:<10} {each.text}  [{numbers}]")


def check_memos(found: list[Memo]) -> None:
    states = [each.state for each in found]
    check(states == ["live", "superseded", "live", "merged", "live"], f"the memos are {', '.join(states)}")
    oak, monday, _, wood, thursday = found
    check(wood.merged_into == oak.id, "the oak was not merged")
    check([message.number for message in oak.messages] == [2, 5], "the oak has other messages")
    check(monday.superseded_by == thursday.id, "Thursday does not supersede Monday")


def check(as_promised: bool, otherwise: str) -> None:
    if not as_promised:
        raise Unexpected(otherwise)


@asynccontextmanager
async def model_server() -> AsyncIterator[str]:
    """The stand-in for a model, on a free port; its address."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert server.stdout is not None  # noqa: S101  it is a pipe
        yield (await server.stdout.readline()).decode().strip()
    finally:
        server.terminate()
        await server.wait()


@contextmanager
def temporary_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="penstock-memos-"))
    home.chmod(0o711)  # for root: the server runs as another user, and needs access
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    began = time.monotonic()
    try:
        with temporary_home() as place:
            asyncio.run(main(place))
    except (Unexpected, TimeoutError) as error:
        sys.exit(f"The example failed: {error or f'it took more than {WITHIN:.0f} s'}.")
    print(f"\nIt took {time.monotonic() - began:.0f} s. Its folder is removed.")
