"""Calls of the async or the sync client, whichever is under test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from penstock.client import AsyncClient, Client


class ClientCalls:
    """A client of one flavour; the sync one is called from a thread, because the server is in the loop of the test."""

    def __init__(self, flavour: str, url: str, **options: Any) -> None:
        self.client: Any = (AsyncClient if flavour == "async" else Client)(url, **options)
        self.flavour = flavour

    async def __call__(self, act: Callable[[Any], Any]) -> Any:
        """What the act gives; all of it, if it is an iterator."""
        if self.flavour == "sync":
            return await asyncio.to_thread(lambda: _whole(act(self.client)))
        answer = act(self.client)
        if isinstance(answer, AsyncIterator):
            return [each async for each in answer]
        return await answer if isinstance(answer, Awaitable) else answer

    async def first(self, act: Callable[[Any], Any], count: int, between: Callable[[], Awaitable[Any]]) -> list[Any]:
        """The first items of an iterator; between two of them something is done."""
        items: Any = act(self.client)
        found: list[Any] = []
        while len(found) < count:
            if found:
                await between()
            found.append(await (anext(items) if self.flavour == "async" else asyncio.to_thread(next, items)))
        await (items.aclose() if self.flavour == "async" else asyncio.to_thread(items.close))
        return found

    async def aclose(self) -> None:
        await (self.client.aclose() if self.flavour == "async" else asyncio.to_thread(self.client.close))


def _whole(answer: Any) -> Any:
    return list(answer) if isinstance(answer, Iterator) else answer
