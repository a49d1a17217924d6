"""NOTIFY and nothing else: no row, so its COMMIT does not wait for the disk. Faster than any enqueue can be."""

from benchmarks.cost import clock
from benchmarks.systems import notify


class Side(notify.Side):
    async def enqueue_stamped(self, number: int) -> float:
        async with self.connection.transaction():
            await self.connection.execute("select pg_notify('floor', $1)", str(number))
            return clock()
