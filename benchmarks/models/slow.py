"""A server of models that takes its time: `python -m benchmarks.models.slow SECONDS`. It prints its port, and counts.

It answers every call after so many seconds, however many there are; who asks for memos gets one of each message. `GET
/counts` tells when each call was answered, and how many were under way at once at most; `DELETE /counts` forgets it.
"""

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

from benchmarks.cost import clock
from benchmarks.models.server import DIMENSIONS

VECTOR = [1.0] * DIMENSIONS


def completion(text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 4, "total_tokens": 104}
    return {"object": "chat.completion", "model": "slow", "choices": [choice], "usage": usage}


COMPLETION = json.dumps(completion("Nobody is there."))


def remember(asked: dict[str, Any]) -> dict[str, Any]:
    """Each message is a memo, word by word, and no two memos are alike."""
    lines = [json.loads(line) for line in asked["messages"][-1]["content"].split("\n")[1:-1]]
    if "verdicts" in asked["response_format"]["json_schema"]["schema"]["properties"]:
        return {"verdicts": [{"pair": line["pair"], "verdict": "different"} for line in lines]}
    numbered = [line for line in lines if "number" in line]
    told = {"kind": "fact", "confidence": 0.9}
    return {"memos": [told | {"text": line["text"], "messages": [line["number"]]} for line in numbered]}


class Counting:
    """What was asked of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.forget()

    def forget(self) -> None:
        self.answered: list[float] = []  # when
        self.texts = self.inside = self.most = 0

    async def complete(self, request: web.Request) -> web.Response:
        asked = await request.json()
        await self._take_time()
        if "response_format" not in asked:
            return web.Response(text=COMPLETION, content_type="application/json")
        return web.json_response(completion(json.dumps(remember(asked))))

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
