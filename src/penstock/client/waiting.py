"""The two or three things that wait differently in the two flavours, side by side."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

sleep = time.sleep  # the sync client waits in its caller's own thread: it has no loop


async def async_sleep(seconds: float) -> None:
    import asyncio  # 40 ms, which the sync client need not pay

    await asyncio.sleep(seconds)


async def async_off_loop(call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """Reading and writing files, away from the loop."""
    import asyncio

    return await asyncio.to_thread(call, *args, **options)


def off_loop(call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    return call(*args, **options)
