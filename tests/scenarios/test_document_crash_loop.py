"""One file kills every worker that takes it: it ends as failed, with that reason, and all others become ready."""

import asyncio

import pytest

from tests.sample_documents import story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow


async def test_the_guilty_file_dies_alone(product_processes: ProductProcesses) -> None:
    innocent = {f"good-{number}.txt": story(300, number) for number in range(12)}
    await product_processes.add({"poison.txt": story(300), **innocent})
    workers = 0
    while "queued" in (await product_processes.states()).values():
        hand = await product_processes.start_worker(module="tests.scenarios.crashing_worker", ready=False)
        workers += 1
        assert workers < 8, await product_processes.states()
        async with asyncio.timeout(60):
            while hand.running and "queued" in (await product_processes.states()).values():  # noqa: ASYNC110  its end has no event
                await asyncio.sleep(0.05)
    assert workers > 2, "it is believed only when it kills while it runs alone, and twice"
    states = await product_processes.states()
    assert states.pop("poison.txt") == "failed"
    assert set(states.values()) == {"ready"}
    error = await product_processes.connection.fetchval(
        "select error ->> 'message' from penstock.documents where state = 'failed'"
    )
    assert "worker" in error
    assert await product_processes.violations() == []
