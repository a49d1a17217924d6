# Made from ../_async/fleet.py by `python -m tests.client.unasync`: change that one.
"""`client.fleet`: workers, limits and schedules, for who runs them."""

import builtins

from penstock.client._sync.wire import Wire
from penstock.client.decoding import decode, decode_list
from penstock.client.fleet_results import LimitState, Run, Schedule, Worker


class Fleet:
    """Who works, and what runs by the clock."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def workers(self, *, gone_within: int = 3600) -> builtins.list[Worker]:
        """Who works, and who left in so many seconds."""
        return decode_list(Worker, self._wire.ask("GET", "/api/workers", query={"gone_within": gone_within}))

    def limits(self) -> builtins.list[LimitState]:
        """The limits and their breakers."""
        return decode_list(LimitState, self._wire.ask("GET", "/api/limits"))

    def close_breaker(self, limit: str) -> LimitState:
        """Let calls through again without waiting for a probe."""
        return decode(LimitState, self._wire.ask("POST", "/api/limits/{limit}/close", at={"limit": limit}))

    def schedules(self) -> builtins.list[Schedule]:
        """What runs by which rule."""
        return decode_list(Schedule, self._wire.ask("GET", "/api/schedules"))

    def run_schedule(self, name: str, *, share: str | None = None) -> Run:
        """Put one job of it in now."""
        at = {"schedule": name}
        return decode(Run, self._wire.ask("POST", "/api/schedules/{schedule}/run", at=at, query={"share": share}))

    def pause_schedule(self, name: str, *, share: str | None = None) -> Schedule:
        """Let it fire no more."""
        at = {"schedule": name}
        answer = self._wire.ask("POST", "/api/schedules/{schedule}/pause", at=at, query={"share": share})
        return decode(Schedule, answer)

    def resume_schedule(self, name: str, *, share: str | None = None) -> Schedule:
        """Go on with the next tick."""
        at = {"schedule": name}
        answer = self._wire.ask("POST", "/api/schedules/{schedule}/resume", at=at, query={"share": share})
        return decode(Schedule, answer)

    def remove_schedule(self, name: str, *, share: str | None = None) -> None:
        """Remove one that was added by a call or is retired."""
        self._wire.ask("DELETE", "/api/schedules/{schedule}", at={"schedule": name}, query={"share": share})
