"""A server of models that takes its time: `python -m benchmarks.models.slow SECONDS`. It prints its port, and counts.

It answers every call after so many seconds, however many there are. `GET /counts` tells when each call was answered, and how
many were under way at once at most; `DELETE /counts` forgets it.
"""

import asyncio
import json
import sys

from aiohttp import web

from benchmarks.cost import clock
from benchmarks.models.server import DIMENSIONS

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
