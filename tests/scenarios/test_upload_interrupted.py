"""An upload that does not come to its end leaves nothing that anybody sees, and nothing for ever."""

import asyncio
import signal
from datetime import timedelta

from penstock.blobs import collect
from tests.scenarios.library import Library
from tests.scenarios.made import story


async def left_behind(library: Library) -> list[str]:
    return [str(path) for path in (library.home / "blobs").rglob("*") if path.is_file()]


async def assert_collected(library: Library) -> None:
    product = library.product
    await collect(product.app.database, product.store, timedelta(microseconds=1))
    assert await left_behind(library) == []


async def test_the_client_dies_in_the_middle(library: Library) -> None:
    await library.serve()
    host, port = library.address.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"PUT /api/collections/papers/documents/half.txt HTTP/1.1\r\nHost: {host}\r\nContent-Length: 8000000\r\n\r\n"
    writer.write(head.encode() + b"x" * 4_000_000)
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    status, _ = await library.put("whole.txt", story(100))
    assert status == 202, "the API goes on"
    await library.until("select count(*) = 1 from penstock.documents")
    assert await library.states() == {"whole.txt": "queued"}
    assert await library.connection.fetchval("select count(*) from penstock.blobs") == 1
    async with asyncio.timeout(10):
        while len(await left_behind(library)) > 1:  # noqa: ASYNC110  the API notices the end of its client
            await asyncio.sleep(0.05)


async def test_the_api_is_killed_after_the_blob_and_before_the_row(library: Library) -> None:
    serving = await library.serve(PENSTOCK_TEST_FAILPOINTS="step:accept=kill")
    lost = await asyncio.gather(library.put("lost.txt", story(5_000)), return_exceptions=True)
    assert isinstance(lost[0], Exception), "the client is told nothing, so it must ask again"
    assert await serving.end() == -signal.SIGKILL
    assert await library.connection.fetchval("select count(*) from penstock.documents") == 0
    assert len(await left_behind(library)) == 1
    await assert_collected(library)

    await library.serve()
    status, _ = await library.put("lost.txt", story(5_000))
    assert status == 202
    await library.hire()
    await library.until_over()
    assert await library.states() == {"lost.txt": "ready"}
    assert await library.violations() == []
