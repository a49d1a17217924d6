"""A limit over worker processes, counted at the server that it protects."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from penstock.engine import Kind
from tests.polling import until
from tests.scenarios.worker_processes import WorkerProcesses

pytestmark = pytest.mark.slow


async def anything(ctx: Any) -> None:
    """Stands for handlers that are declared in the sample jobs."""


call, call_alone = Kind("call", anything), Kind("call_alone", anything)


class Server:
    """Counts who is inside, by process."""

    def __init__(self) -> None:
        self.address = ""
        self.inside: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.most = 0

    async def answer(self, request: web.Request) -> web.Response:
        pid = request.match_info["pid"]
        self.inside[pid] += 1
        self.calls[pid] += 1
        self.most = max(self.most, self.inside.total())
        await asyncio.sleep(0.03)
        self.inside[pid] -= 1
        return web.Response()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    site = web.Application()
    site.router.add_get("/{pid}", made.answer)
    runner = web.AppRunner(site)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    [address] = runner.addresses
    made.address = f"http://127.0.0.1:{address[1]}"
    yield made
    await runner.cleanup()


async def test_never_more_than_the_limit_and_freed_when_a_worker_is_killed(
    worker_processes: WorkerProcesses, server: Server
) -> None:
    doomed, other = [await worker_processes.start(SAMPLE_JOBS_SERVICE=server.address) for _ in range(2)]
    await worker_processes.client.enqueue_many([each() for _ in range(250) for each in (call, call_alone)])
    await until(lambda: all(server.calls[str(hand.pid)] > 30 for hand in (doomed, other)))
    doomed.kill()
    killed_at = time.monotonic()
    await until(lambda: server.inside[str(other.pid)] == 5, within=10)
    assert time.monotonic() - killed_at < 5, "by the lock, long before the lease of 15 s ends"
    await worker_processes.until_over()
    assert server.most == 5, "all of it is used, and never more"
    assert await worker_processes.charged() == 0
    assert len(await worker_processes.history()) == 500
