"""An upload that does not come to its end leaves nothing that anybody sees, and nothing for ever."""

import asyncio
import signal
from datetime import timedelta

import pytest

from penstock.blobs import collect
from tests.sample_documents import story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow


async def left_behind(product_processes: ProductProcesses) -> list[str]:
    return [str(path) for path in (product_processes.home / "blobs").rglob("*") if path.is_file()]


async def assert_collected(product_processes: ProductProcesses) -> None:
    product = product_processes.product
    await collect(product.app.database, product.store, timedelta(microseconds=1))
    assert await left_behind(product_processes) == []


async def test_the_client_dies_in_the_middle(product_processes: ProductProcesses) -> None:
    await product_processes.start_api()
    host, port = product_processes.address.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"PUT /api/collections/papers/documents/half.txt HTTP/1.1\r\nHost: {host}\r\nContent-Length: 8000000\r\n\r\n"
    writer.write(head.encode() + b"x" * 4_000_000)
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    status, _ = await product_processes.put("whole.txt", story(100))
    assert status == 202, "the API goes on"
    await product_processes.until("select count(*) = 1 from penstock.documents")
    assert await product_processes.states() == {"whole.txt": "queued"}
    assert await product_processes.connection.fetchval("select count(*) from penstock.blobs") == 1
    async with asyncio.timeout(10):
        while len(await left_behind(product_processes)) > 1:  # noqa: ASYNC110  the API notices the end of its client
            await asyncio.sleep(0.05)


async def test_the_api_is_killed_after_the_blob_and_before_the_row(product_processes: ProductProcesses) -> None:
    serving = await product_processes.start_api(PENSTOCK_TEST_FAILPOINTS="step:accept=kill")
    lost = await asyncio.gather(product_processes.put("lost.txt", story(5_000)), return_exceptions=True)
    assert isinstance(lost[0], Exception), "the client is told nothing, so it must ask again"
    assert await serving.end() == -signal.SIGKILL
    assert await product_processes.connection.fetchval("select count(*) from penstock.documents") == 0
    assert len(await left_behind(product_processes)) == 1
    await assert_collected(product_processes)

    await product_processes.start_api()
    status, _ = await product_processes.put("lost.txt", story(5_000))
    assert status == 202
    await product_processes.start_worker()
    await product_processes.until_over()
    assert await product_processes.states() == {"lost.txt": "ready"}
    assert await product_processes.violations() == []
