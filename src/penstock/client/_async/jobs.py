"""`client.jobs`: the queue, dead letters and pauses, for who runs the fleet."""

import builtins
from collections.abc import AsyncIterator, Sequence

from penstock.client._async.wire import AsyncWire
from penstock.client.decoding import decode, decode_list
from penstock.client.fleet_results import Cause, Changed, DeadJob, Job, Lane, Pause, Redriving
from penstock.client.results import Why


class AsyncJobs:
    """Jobs by number."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def why(self, id: int) -> Why:  # noqa: A002
        """Why it is where it is: one sentence, and the evidence."""
        return decode(Why, await self._wire.ask("GET", "/api/jobs/{job}/why", at={"job": id}))

    def list(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        share: str | None = None,
        page: int = 100,
    ) -> AsyncIterator[Job]:
        """The live ones."""
        wish = {"state": state, "kind": kind, "queue": queue, "share": share, "limit": page}
        return self._wire.pages("GET", "/api/jobs", Job, query=wish)

    async def show(self, id: int) -> Job:  # noqa: A002
        """One, alive or from the history, with its attempts and why it is where it is."""
        return decode(Job, await self._wire.ask("GET", "/api/jobs/{job}", at={"job": id}))

    async def cancel(self, id: int, *, reason: str = "cancelled by hand") -> Changed:  # noqa: A002
        """Cancel it, and what it has spread; a running one stops with the next beat of its worker."""
        answer = await self._wire.ask("POST", "/api/jobs/{job}/cancel", at={"job": id}, query={"reason": reason})
        return decode(Changed, answer)

    async def lanes(self) -> builtins.list[Lane]:
        """What is ready and waits, the oldest first."""
        return decode_list(Lane, await self._wire.ask("GET", "/api/lanes"))

    async def causes(self, *, most: int = 100) -> builtins.list[Cause]:
        """Why jobs have died, the most frequent first."""
        return decode_list(Cause, await self._wire.ask("GET", "/api/dead", query={"limit": most}))

    async def dead(self, fingerprint: str, *, most: int = 100) -> builtins.list[DeadJob]:
        """The dead jobs of one cause."""
        answer = await self._wire.ask(
            "GET", "/api/dead/{fingerprint}", at={"fingerprint": fingerprint}, query={"limit": most}
        )
        return decode_list(DeadJob, answer)

    async def redrive(
        self,
        *,
        fingerprint: str | None = None,
        kind: str | None = None,
        ids: Sequence[int] = (),
        force: bool = False,
    ) -> Redriving:
        """Have a job give them another chance: one, then ten, then all, until the same failure returns. It does not wait."""
        wish = {"ids": [*ids], "fingerprint": fingerprint, "kind": kind, "force": force}
        return decode(Redriving, await self._wire.ask("POST", "/api/dead/redrive", body=wish))

    async def discard(
        self, *, reason: str, fingerprint: str | None = None, kind: str | None = None, ids: Sequence[int] = ()
    ) -> Changed:
        """Give them up; the reason is kept."""
        wish = {"ids": [*ids], "fingerprint": fingerprint, "kind": kind, "reason": reason}
        return decode(Changed, await self._wire.ask("POST", "/api/dead/discard", body=wish))

    async def pauses(self) -> builtins.list[Pause]:
        """What is held."""
        return decode_list(Pause, await self._wire.ask("GET", "/api/pauses"))

    async def pause(self, what: str, name: str, *, reason: str = "paused by hand") -> Pause:
        """Claim nothing of a queue, kind or share until it is resumed."""
        wish = {"what": what, "name": name, "reason": reason}
        return decode(Pause, await self._wire.ask("POST", "/api/pauses", body=wish))

    async def resume(self, what: str, name: str) -> None:
        """End a pause."""
        await self._wire.ask("DELETE", "/api/pauses/{what}/{name}", at={"what": what, "name": name})
