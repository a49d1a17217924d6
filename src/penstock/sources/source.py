"""The protocol of a source: it brings messages until it is stopped, and may want to know their outcome.

A source holds no lock and no connection of ours while it reads or waits. Any number of workers run the same source: the inbox
keeps a message once. A source that cannot be read raises `Trouble`, and is started again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.blobs import BlobStore
from penstock.documents import Inbox, Overtaken, Position, ReceivedBatch, SourceMessage
from penstock.errors import PenstockError
from penstock.settings import Settings, SourceSettings

EXAMPLES = 5  # ids that a check shows


class Trouble(PenstockError):
    """The source cannot be read as things are: a sentence that says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """The outcome of a message: `ready`, or `failed` with a reason."""

    message_id: str
    status: str
    reason: str


@dataclass(frozen=True)
class SourceContext:
    """The settings of a source, and the parts of the product that it uses."""

    name: str
    chosen: SourceSettings
    settings: Settings
    inbox: Inbox
    store: BlobStore
    findings: list[str] = field(default_factory=list)  # what is wrong although the source answers, until it is fixed

    async def position(self) -> Position:
        return await self.inbox.position(self.name)

    async def peek_position(self) -> Position:
        """The position, for a check: nothing is written."""
        return await self.inbox.peek_position(self.name)

    async def receive(
        self, messages: Sequence[SourceMessage], *, position: Position | None = None, onward: object = None
    ) -> ReceivedBatch:
        """Keep a batch; `Overtaken` when another worker has moved the position."""
        return await self.inbox.receive(self.name, messages, position=position, onward=onward)

    async def unknown(self, ids: Sequence[str]) -> list[str]:
        return await self.inbox.unknown(self.name, ids)

    async def news(self, messages: Sequence[SourceMessage]) -> list[SourceMessage]:
        """Those that never came, or came with other content, if that makes a new version."""
        return await self.inbox.news(self.name, messages)

    async def has_room(self) -> bool:
        return await self.inbox.room(self.name) > 0

    async def room(self) -> int:
        """How many more messages may come."""
        return await self.inbox.room(self.name)

    async def answered(self) -> None:
        await self.inbox.note_poll(self.name, " ".join(self.findings))


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """What a source has that was not taken yet, as far as a check reads."""

    new: int  # messages
    more: bool = False  # there may be others beyond those
    examples: Sequence[str] = ()  # ids of some of the new messages
    findings: Sequence[str] = ()  # what is wrong although the source answers


class Source(Protocol):
    """One of these for each source and process."""

    async def run(self) -> None:
        """Bring messages until cancelled; raises what keeps it from it."""

    async def check(self) -> SourceCheck:
        """Read what would be taken next, and change nothing, here or there; raises what keeps it from it."""

    async def tell(self, outcomes: Sequence[MessageOutcome]) -> None:
        """Report outcomes to the source; called only for those that want that. Idempotent."""

    async def close(self) -> None:
        """Give back what is open."""


class PolledSource(Protocol):
    """A source that is polled."""

    async def poll(self) -> bool:
        """Poll once; whether there may be more at once."""

    async def rest(self, seconds: float) -> None:
        """Until something may be new, at most so long."""


def summarise(messages: Sequence[SourceMessage], *, more: bool, findings: Sequence[str] = ()) -> SourceCheck:
    """The result of a check that found these new messages."""
    return SourceCheck(len(messages), more, [message.id for message in messages[:EXAMPLES]], list(findings))


async def poll_forever(source: PolledSource, context: SourceContext) -> None:
    """Poll a source: at once while there is more, else after a rest; never while the inbox is full."""
    every = context.chosen.poll_every.total_seconds()
    while True:
        more = False
        if await context.has_room():
            try:
                more = await source.poll()
            except Overtaken:
                more = True  # another worker has brought this batch: poll for the next one
            await context.answered()
        if not more:
            await source.rest(every)
        await asyncio.sleep(0)
