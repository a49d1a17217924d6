"""`client.jobs`: for who runs the fleet."""

from penstock.client._async.wire import AsyncWire
from penstock.client.decoding import decode
from penstock.client.results import Why


class AsyncJobs:
    """Jobs by number."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def why(self, id: int) -> Why:  # noqa: A002
        """Why it is where it is: one sentence, and the evidence."""
        return decode(Why, await self._wire.ask("GET", "/api/jobs/{id}/why", at={"id": id}))
