"""The floor of a pickup: a listener's callback in another process. The sender inserts a row too, as every enqueue must.

Without that row PostgreSQL does not wait for the disk at COMMIT: `bare` shows how much that is.
"""

import asyncio

import asyncpg

from benchmarks.systems import raw


class Side(raw.Side):
    async def work(self, concurrency: int) -> None:
        listener = await asyncpg.connect(self.url)
        await listener.add_listener("floor", lambda *heard: self.entered(int(heard[-1]), 1))
        await asyncio.Event().wait()
