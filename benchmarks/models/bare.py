"""A client that asks a model and does nothing else: `python -m benchmarks.models.bare URL CALLS IN_FLIGHT`.

The prompt comes by the standard input.
"""

import asyncio
import sys

import aiohttp
import uvloop


async def main(url: str, calls: int, in_flight: int) -> None:
    body = {"model": "slow", "messages": [{"role": "user", "content": sys.stdin.read()}], "max_tokens": 4096}
    numbers = iter(range(calls))

    async def ask(http: aiohttp.ClientSession) -> None:
        for _ in numbers:
            async with http.post(f"{url}/chat/completions", json=body) as answer:
                await answer.json()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        await asyncio.gather(*(ask(http) for _ in range(in_flight)))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))  # as a worker does
