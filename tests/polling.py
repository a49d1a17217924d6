"""Waiting for what another process or task does, when there is no event to wait for."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], within: float = 10) -> None:
    """Look again and again until the condition holds; TimeoutError if it does not in time."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110  nobody could set an event for us
            await asyncio.sleep(0.01)
