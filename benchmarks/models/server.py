"""A server of models that takes its time: `python -m benchmarks.models.server SECONDS`. It prints its port, and counts.

It answers every call after so many seconds, however many there are. `GET /counts` tells when each call was answered, and how
many were under way at once at most; `DELETE /counts` forgets it.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks.cost import clock
from benchmarks.stage import ROOT, SideFailed

COMPLETION = json.dumps(
    {
        "object": "chat.completion",
        "model": "slow",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Nobody is there."}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 4, "total_tokens": 104},
    }
)
DIMENSIONS = 64
VECTOR = [1.0] * DIMENSIONS


class Counting:
    """What was asked of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.forget()

    def forget(self) -> None:
        self.answered: list[float] = []  # when
        self.texts = self.inside = self.most = 0

    async def complete(self, request: web.Request) -> web.Response:
        await request.read()
        await self._take_time()
        return web.Response(text=COMPLETION, content_type="application/json")

    async def embed(self, request: web.Request) -> web.Response:
        texts = (await request.json())["input"]
        self.texts += len(texts)
        await self._take_time()
        return web.json_response({"data": [{"index": place, "embedding": VECTOR} for place in range(len(texts))]})

    async def _take_time(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.inside -= 1
        self.answered.append(clock())

    async def tell(self, request: web.Request) -> web.Response:
        return web.json_response({"answered": self.answered, "texts": self.texts, "most": self.most})

    async def begin(self, request: web.Request) -> web.Response:
        self.forget()
        return web.Response()


class ModelServer:
    """The process, as the benchmark sees it."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def begin(self) -> None:
        async with aiohttp.ClientSession() as http, http.delete(f"http://127.0.0.1:{self._port}/counts"):
            return

    async def counts(self) -> dict[str, Any]:
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{self._port}/counts") as answer:
            told: dict[str, Any] = await answer.json()
            return told


@asynccontextmanager
async def model_server(seconds: float) -> AsyncIterator[ModelServer]:
    """In a process of its own: it must not share a loop with whoever asks it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.models.server", str(seconds)), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        if not line:
            raise SideFailed("the server of the models did not start")
        yield ModelServer(int(line))
    finally:
        process.terminate()
        await process.wait()


async def main(seconds: float) -> None:
    counting = Counting(seconds)
    application = web.Application(client_max_size=64 * 2**20)
    application.router.add_post("/v1/chat/completions", counting.complete)
    application.router.add_post("/v1/embeddings", counting.embed)
    application.router.add_get("/counts", counting.tell)
    application.router.add_delete("/counts", counting.begin)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
