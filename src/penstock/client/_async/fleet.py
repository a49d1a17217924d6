"""`client.fleet`: workers, limits and schedules, for who runs them."""

import builtins

from penstock.client._async.wire import AsyncWire
from penstock.client.decoding import decode, decode_list
from penstock.client.fleet_results import LimitState, Run, Schedule, Worker


class AsyncFleet:
    """Who works, and what runs by the clock."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def workers(self, *, gone_within: int = 3600) -> builtins.list[Worker]:
        """Who works, and who left in so many seconds."""
        return decode_list(Worker, await self._wire.ask("GET", "/api/workers", query={"gone_within": gone_within}))

    async def limits(self) -> builtins.list[LimitState]:
        """The limits and their breakers."""
        return decode_list(LimitState, await self._wire.ask("GET", "/api/limits"))

    async def close_breaker(self, limit: str) -> LimitState:
        """Let calls through again without waiting for a probe."""
        return decode(LimitState, await self._wire.ask("POST", "/api/limits/{limit}/close", at={"limit": limit}))

    async def schedules(self) -> builtins.list[Schedule]:
        """What runs by which rule."""
        return decode_list(Schedule, await self._wire.ask("GET", "/api/schedules"))

    async def run_schedule(self, name: str, *, share: str | None = None) -> Run:
        """Put one job of it in now."""
        at = {"schedule": name}
        return decode(Run, await self._wire.ask("POST", "/api/schedules/{schedule}/run", at=at, query={"share": share}))

    async def pause_schedule(self, name: str, *, share: str | None = None) -> Schedule:
        """Let it fire no more."""
        at = {"schedule": name}
        answer = await self._wire.ask("POST", "/api/schedules/{schedule}/pause", at=at, query={"share": share})
        return decode(Schedule, answer)

    async def resume_schedule(self, name: str, *, share: str | None = None) -> Schedule:
        """Go on with the next tick."""
        at = {"schedule": name}
        answer = await self._wire.ask("POST", "/api/schedules/{schedule}/resume", at=at, query={"share": share})
        return decode(Schedule, answer)

    async def remove_schedule(self, name: str, *, share: str | None = None) -> None:
        """Remove one that was added by a call or is retired."""
        await self._wire.ask("DELETE", "/api/schedules/{schedule}", at={"schedule": name}, query={"share": share})
