"""Many clients at once: one name is one document, one content is one blob."""

import asyncio

import pytest

from tests.sample_documents import story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow


async def test_the_same_file_by_twenty_clients(product_processes: ProductProcesses) -> None:
    await product_processes.start_api()
    content = story(5_000)
    answers = await asyncio.gather(*(product_processes.put("report.txt", content) for _ in range(20)))
    assert sorted(status for status, _ in answers) == [202] + [409] * 19
    [accepted] = [answer for status, answer in answers if status == 202]
    assert {answer["existing"] for status, answer in answers if status == 409} == {accepted["id"]}
    assert accepted["served"] is False
    assert "no worker is running" in accepted["message"]
    await product_processes.start_worker()
    await product_processes.until_over()
    assert await product_processes.states() == {"report.txt": "ready"}
    assert await product_processes.violations() == []


async def test_the_same_content_under_twenty_names(product_processes: ProductProcesses) -> None:
    await product_processes.start_api()
    content = story(5_000)
    answers = await asyncio.gather(*(product_processes.put(f"copy-{number}.txt", content) for number in range(20)))
    assert {status for status, _ in answers} == {202}
    assert await product_processes.connection.fetchval("select count(*) from penstock.blobs") == 1
    kept = [path for path in (product_processes.home / "blobs").rglob("*") if path.is_file()]
    assert len(kept) == 1, "what was uploaded beside it is gone"
    await product_processes.start_worker()
    await product_processes.until_over()
    assert set((await product_processes.states()).values()) == {"ready"}
    assert await product_processes.violations() == []
