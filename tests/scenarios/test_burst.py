"""Far more searches than the server can do, all at once: some are answered and right, the others are told to come again."""

import asyncio

import aiohttp
import pytest

from tests.sample_documents import story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

AT_ONCE = 300
OPEN = {"PENSTOCK_RATES__SEARCH": "off", "PENSTOCK_RATES__PER_ADDRESS": "off"}  # as if they came from everywhere
QUESTION = {"q": "zither", "mode": "words"}


async def test_search_in_a_burst(product_processes: ProductProcesses) -> None:
    await product_processes.add(
        {"mill.txt": b"The zither of the miller was tuned in March.", "story.txt": story(5_000)}
    )
    await product_processes.start_worker()
    await product_processes.until_over()
    await product_processes.start_api(**OPEN, PENSTOCK_RATES__SEARCHES_AT_ONCE="2")
    found = await product_processes.get("/api/search?q=zither&mode=words")
    expected = [hit["name"] for hit in found["hits"]]
    assert expected == ["mill.txt"]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def search() -> int:
            async with http.get(f"{product_processes.address}/api/search", params=QUESTION) as answer:
                told = await answer.json(content_type=None)
            if answer.status == 200:
                assert [hit["name"] for hit in told["hits"]] == expected
            else:
                assert int(answer.headers["Retry-After"]) >= 1
                assert "rates.searches_at_once" in told["detail"]
            return answer.status

        for _ in range(3):
            async with asyncio.TaskGroup() as burst:
                searches = [burst.create_task(search()) for _ in range(AT_ONCE)]
                burst.create_task(product_processes.get("/health/ready"))
            statuses = [each.result() for each in searches]
            assert set(statuses) == {200, 503}
            assert statuses.count(200) >= 2

        # As soon as the burst is over there is nothing left of it.
        assert [await search() for _ in range(5)] == [200] * 5
