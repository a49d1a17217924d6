"""A folder as a source: files are taken when they are completely written.

A file is complete when nothing of it has changed for `settle`; no clock but our own counts, because that of a network drive may
go wrong. It is hashed first, then compared with the inbox, and what is new goes into the blob store: so that many workers, or
one that starts again, store nothing twice. What was taken is remembered by its stamp while the process lives. A change is heard
of at once by watchfiles; where that is missing or fails, the folder is looked through every `poll_every` as it is anyway.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.blobs import Stored
from penstock.documents import Message, Overtaken
from penstock.errors import BodyTooLarge
from penstock.sources.look import Changed, hash_leaf, name_filter, pieces, walk
from penstock.sources.parcel import Parcel, parcels
from penstock.sources.shelf import OURS, Shelf
from penstock.sources.source import Desk, Fate, Trouble, keep_asking
from penstock.telemetry import log

TOGETHER = 256 * 2**20  # bytes that are stored before a batch is received
LOOK_AGAIN_AFTER = 30.0  # seconds of taking
PATIENCE = 60.0  # seconds in which a file that cannot be opened may become readable
MOST_SAID = 1000
SHARE, LONGEST_REST = 10, 60.0  # a look that took a second is followed by ten without one


@dataclass(slots=True)
class Seen:
    """What is known of a parcel."""

    parcel: Parcel
    due: float  # not to be taken before
    since: float
    taken: bool = False


class FolderSource:
    """One folder. Its state is what was seen by this process; the inbox knows what was taken."""

    def __init__(self, desk: Desk) -> None:
        if desk.chosen.folder is None:
            raise Trouble(f"sources.{desk.name}.folder is not set. A folder cannot be used without it.")
        self.desk = desk
        self.top = desk.chosen.folder
        self._packets = desk.chosen.makes == "packet"
        self._moves = desk.chosen.afterwards == "move"
        self._wanted = name_filter(desk.chosen.pattern)
        self._shelf = Shelf(self.top, self._wanted, self._packets)
        self._settle = desk.chosen.settle.total_seconds()
        self._seen: dict[str, Seen] = {}
        self._wake = asyncio.Event()
        self._looked = False
        self._rested_until = 0.0
        self._said: set[str] = set()  # what may not be looked at, each once
        self._start = random.random()  # noqa: S311  workers begin at different places, and seldom meet

    async def run(self) -> None:
        await self.desk.position()
        watching = asyncio.create_task(self._watch(), name=f"watch {self.top}")
        try:
            await keep_asking(self, self.desk)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def close(self) -> None:
        """Nothing is open between two looks."""

    async def tell(self, fates: Sequence[Fate]) -> None:
        if not self._moves:
            return
        if not await asyncio.to_thread(self.top.is_dir):
            raise self._missing()
        for fate in fates:
            await asyncio.to_thread(self._shelf.put_away, fate)

    # -- looking --------------------------------------------------------------------------------------------------------

    async def poll(self) -> bool:
        """Look through the folder, and take what is complete; whether there is more than that."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._looked = True
        self._wake.clear()
        found = await asyncio.to_thread(self._look)
        now = loop.time()
        self._rested_until = now + min(SHARE * (now - began), LONGEST_REST)
        self._compare(found, now)
        due = [seen for seen in self._seen.values() if not seen.taken and seen.due <= now]
        turn = int(self._start * len(due))
        due = due[turn:] + due[:turn]
        while due:
            batch = self._portion(due)
            due = due[len(batch) :]
            await self._take(batch)
            if due and (loop.time() - now > LOOK_AGAIN_AFTER or not await self.desk.has_room()):
                return True
        return False

    async def rest(self, seconds: float) -> None:
        """Until a change is heard of, or something that was seen may be complete."""
        if not self._looked:  # the inbox is full: nothing that is heard of could be taken
            await asyncio.sleep(seconds)
        self._looked = False
        now = asyncio.get_running_loop().time()
        soonest = min((seen.due for seen in self._seen.values() if not seen.taken), default=now + seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.01, min(seconds, soonest - now))):
                await self._wake.wait()
        await asyncio.sleep(max(0.0, self._rested_until - asyncio.get_running_loop().time()))

    def _look(self) -> list[Parcel]:
        try:
            leaves = walk(self.top, wanted=self._wanted, without=OURS, closed=self._say_closed)
            return parcels(leaves, packets=self._packets)
        except FileNotFoundError:
            raise self._missing() from None
        except OSError as error:
            raise Trouble(
                f"The folder {self.top} of the source {self.desk.name} cannot be looked through ({error.strerror}): let the "
                f"account of the worker read it, or correct sources.{self.desk.name}.folder."
            ) from None

    def _say_closed(self, path: str, error: OSError) -> None:
        if path not in self._said and len(self._said) < MOST_SAID:
            self._said.add(path)
            log.warning(
                "something in a folder may not be looked at",
                source=self.desk.name,
                path=ascii(path),
                error=error.strerror,
            )

    def _missing(self) -> Trouble:
        return Trouble(
            f"The folder {self.top} of the source {self.desk.name} is not there: make or mount it, or correct "
            f"sources.{self.desk.name}.folder."
        )

    def _compare(self, found: Sequence[Parcel], now: float) -> None:
        """What is as it was stays known; what has changed begins anew; what has gone is forgotten."""
        seen = {}
        for parcel in found:
            known = self._seen.get(parcel.name)
            same = known is not None and known.parcel == parcel
            seen[parcel.name] = known if known and same else Seen(parcel, now + self._settle, now)
        self._seen = seen

    def _portion(self, due: Sequence[Seen]) -> Sequence[Seen]:
        size = 0
        for place, seen in enumerate(due[: self.desk.chosen.batch]):
            size += seen.parcel.size
            if size > TOGETHER:
                return due[: max(1, place)]
        return due[: self.desk.chosen.batch]

    async def _watch(self) -> None:
        try:
            from watchfiles import awatch
        except ImportError:
            log.info("install penstock[folder] to hear of new files at once", source=self.desk.name)
            return
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it tells of every change
        try:
            async for _ in awatch(self.top, watch_filter=None):
                self._wake.set()
        except Exception as error:  # noqa: BLE001  no inotify, no more watches, a network drive: looks go on without it
            log.warning("a folder is looked through, and not watched", source=self.desk.name, error=str(error))

    # -- taking ---------------------------------------------------------------------------------------------------------

    async def _take(self, batch: Sequence[Seen]) -> None:
        ready = [(seen, message) for seen in batch if (message := await self._read(seen)) is not None]
        news = {message.id for message in await self.desk.news([message for _, message in ready])}
        brought = []
        for seen, message in ready:
            stored: list[Stored] | None = []
            if message.id in news and not message.poison:
                stored = await self._store(seen.parcel, message)
            if stored is None:
                self._later(seen, self._settle)
            elif message.id in news:
                brought.append(Message(message.id, message.payload, stored, message.poison))
        if brought:
            await self._receive(brought)
        now = asyncio.get_running_loop().time()
        for seen, _ in ready:
            seen.taken = seen.due <= now  # else it was put off

    async def _read(self, seen: Seen) -> Message | None:
        """Its message; None if it is not complete, or cannot be read as yet."""
        parcel = seen.parcel
        if reason := parcel.reason(self.desk.settings):
            return parcel.refusal(reason)
        try:
            digests = [await asyncio.to_thread(hash_leaf, self.top, each) for each in parcel.leaves]
        except Changed:
            self._later(seen, self._settle)
        except OSError as error:
            patient = asyncio.get_running_loop().time() - seen.since < PATIENCE
            self._later(seen, self.desk.chosen.poll_every.total_seconds() if patient else PATIENCE)
            if not patient and isinstance(error, PermissionError):
                return parcel.refusal(
                    f"{parcel.name} cannot be read ({error.strerror}): let the account of the worker read it; it is then taken."
                )
            if not patient:
                log.warning("a file cannot be read", source=self.desk.name, file=ascii(parcel.name), error=str(error))
        else:
            return parcel.message(digests)
        return None

    async def _store(self, parcel: Parcel, message: Message) -> list[Stored] | None:
        """All of its bytes; None if it was changed meanwhile, and then nothing is kept."""
        stored: dict[bytes, Stored] = {}  # equal files of a packet once
        digests = []
        try:
            for each in parcel.leaves:
                kept = await self.desk.store.write(pieces(self.top, each), most=self.desk.settings.limits.bytes)
                digests.append(kept.digest)
                if stored.setdefault(kept.digest, kept) is not kept:
                    await self.desk.store.remove(kept.key)
            if parcel.message(digests).id == message.id:
                return list(stored.values())
        except (Changed, BodyTooLarge):
            log.info("a file was changed while it was taken", source=self.desk.name, file=ascii(parcel.name))
        for kept in stored.values():
            await self.desk.store.remove(kept.key)
        return None

    def _later(self, seen: Seen, seconds: float) -> None:
        seen.due = asyncio.get_running_loop().time() + max(seconds, 0.1)

    async def _receive(self, messages: Sequence[Message]) -> None:
        """A folder has no position; its turn counts what came. The order is nobody's: who was overtaken goes again."""
        while True:
            position = await self.desk.position()
            try:
                await self.desk.receive(messages, position=position, onward=position.value)
            except Overtaken:
                continue
            return


def open_source(desk: Desk) -> FolderSource:
    """A folder that the settings name. Nothing is looked at yet."""
    return FolderSource(desk)
