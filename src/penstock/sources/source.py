"""What a source is: something that brings messages until it is stopped, and may want to hear what became of them.

A source holds no lock and no connection of ours while it asks or waits. Any number of workers run the same source: what two of
them bring is one message, by the inbox. What keeps a source from its work is raised as `Trouble`; it is started again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.blobs import Store
from penstock.documents import Inbox, Message, Overtaken, Position, Received
from penstock.errors import PenstockError
from penstock.settings import Settings
from penstock.settings.arriving import SourceSettings


class Trouble(PenstockError):
    """The source cannot be read as things are: a sentence that says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a message: `ready`, or `failed` with a reason."""

    message_id: str
    status: str
    reason: str


@dataclass(frozen=True)
class Desk:
    """What a source needs of its process."""

    name: str
    chosen: SourceSettings
    settings: Settings
    inbox: Inbox
    store: Store
    findings: list[str] = field(default_factory=list)  # what is wrong though the source answers; told until it is gone
    heard: asyncio.Event = field(default_factory=asyncio.Event)  # it has answered at least once

    async def position(self) -> Position:
        return await self.inbox.position(self.name)

    async def receive(
        self, messages: Sequence[Message], *, position: Position | None = None, onward: object = None
    ) -> Received:
        """Keep a batch; `Overtaken` when somebody else has moved the position."""
        return await self.inbox.receive(self.name, messages, position=position, onward=onward)

    async def unknown(self, ids: Sequence[str]) -> list[str]:
        return await self.inbox.unknown(self.name, ids)

    async def news(self, messages: Sequence[Message]) -> list[Message]:
        """Those that never came, or came with other content, if that makes a new version."""
        return await self.inbox.news(self.name, messages)

    async def has_room(self) -> bool:
        return not await self.inbox.is_full(self.name)

    async def room(self) -> int:
        """How many more messages may come."""
        return await self.inbox.room(self.name)

    async def answered(self) -> None:
        """Say that the source is there."""
        await self.inbox.note_poll(self.name, " ".join(self.findings))
        self.heard.set()


class Source(Protocol):
    """One of these for each source and process."""

    async def run(self) -> None:
        """Bring messages until cancelled; raises what keeps it from it."""

    async def tell(self, fates: Sequence[Fate]) -> None:
        """Tell the source what became of its messages; called only for those that want to hear. Again is the same."""

    async def close(self) -> None:
        """Give back what is open."""


class Asked(Protocol):
    """A source that is asked again and again."""

    async def poll(self) -> bool:
        """One look; whether there may be more at once."""

    async def rest(self, seconds: float) -> None:
        """Until something may be new, at most so long."""


async def keep_asking(source: Asked, desk: Desk) -> None:
    """The loop of a source that is asked: at once while there is more, else after a rest; never while the inbox is full."""
    every = desk.chosen.poll_every.total_seconds()
    while True:
        more = False
        if await desk.has_room():
            try:
                more = await source.poll()
            except Overtaken:
                more = True  # somebody else has brought this batch: look what comes behind it
            await desk.answered()
        if not more:
            await source.rest(every)
        await asyncio.sleep(0)
