"""One file kills every worker that takes it: it ends as failed, with that reason, and all others become ready."""

import asyncio

from tests.scenarios.library import Library
from tests.scenarios.made import story


async def test_the_guilty_file_dies_alone(library: Library) -> None:
    innocent = {f"good-{number}.txt": story(300, number) for number in range(12)}
    await library.add({"poison.txt": story(300), **innocent})
    workers = 0
    while "queued" in (await library.states()).values():
        hand = await library.hire(module="tests.scenarios.poisoned", ready=False)
        workers += 1
        assert workers < 8, await library.states()
        async with asyncio.timeout(60):
            while hand.running and "queued" in (await library.states()).values():  # noqa: ASYNC110  its end has no event
                await asyncio.sleep(0.05)
    assert workers > 2, "it is believed only when it kills while it runs alone, and twice"
    states = await library.states()
    assert states.pop("poison.txt") == "failed"
    assert set(states.values()) == {"ready"}
    error = await library.connection.fetchval(
        "select error ->> 'message' from penstock.documents where state = 'failed'"
    )
    assert "worker" in error
    assert await library.violations() == []
