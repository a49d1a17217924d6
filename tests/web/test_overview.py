"""Facts that many ask for at once: read once, never older than they may be, and an error reaches the viewers that wait."""

import asyncio

import pytest

from penstock.web.pages.overview import SharedCache


async def test_many_ask_and_one_reads() -> None:
    kept: SharedCache[int] = SharedCache(60.0)
    made = 0

    async def make() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        return made

    assert set(await asyncio.gather(*(kept.get("a", make) for _ in range(20)))) == {1}
    assert (await kept.get("a", make), await kept.get("b", make)) == (1, 2)


async def test_a_stale_answer_is_given_while_the_next_is_made() -> None:
    kept: SharedCache[int] = SharedCache(-1.0, stale=60.0)  # nothing is ever fresh
    gate, made = asyncio.Event(), 0

    async def make() -> int:
        nonlocal made
        await gate.wait()
        made += 1
        return made

    first = asyncio.create_task(kept.get("a", make))
    gate.set()
    assert await first == 1
    gate.clear()
    assert await kept.get("a", make) == 1, "nobody waits for the next one"
    gate.set()
    async with asyncio.timeout(5):
        while await kept.get("a", make) == 1:  # noqa: ASYNC110  it is made by another task
            await asyncio.sleep(0)


async def test_a_reading_that_began_before_a_change_is_not_kept() -> None:
    kept: SharedCache[int] = SharedCache(60.0)
    gate, made = asyncio.Event(), 0

    async def make() -> int:
        nonlocal made
        made += 1
        answer = made
        await gate.wait()
        return answer

    first = asyncio.create_task(kept.get("a", make))
    await asyncio.sleep(0)
    kept.clear()
    second = asyncio.create_task(kept.get("a", make))
    await asyncio.sleep(0)
    gate.set()
    assert (await first, await second, await kept.get("a", make)) == (1, 2, 2)


async def test_an_error_is_not_kept() -> None:
    kept: SharedCache[int] = SharedCache(60.0)

    async def fail() -> int:
        raise ValueError("no")

    async def make() -> int:
        return 7

    with pytest.raises(ValueError, match="no"):
        await kept.get("a", fail)
    assert await kept.get("a", make) == 7
