"""A folder as a source: files are taken when they are completely written.

A file is complete when nothing of it has changed for `settle`, by the clock of this process, because that of a network drive
may be wrong. It is hashed first, then compared with the inbox, and new content goes into the blob store, so that several
workers, or one that starts again, store nothing twice. Files that were taken are remembered by their stat while the process
lives. watchfiles reports changes at once; where that is missing or fails, the folder is polled every `poll_every` anyway.
"""

import asyncio
import errno
import logging
import os
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from penstock.blobs import StoredBlob
from penstock.documents import Overtaken, SourceMessage, numbered
from penstock.errors import BodyTooLarge
from penstock.sources.files import FileChanged, FolderItem, folder_items, hash_file, item_at, name_filter, pieces, walk
from penstock.sources.source import MessageOutcome, SourceCheck, SourceContext, Trouble, poll_forever, summarise
from penstock.telemetry import log

TOGETHER = 256 * 2**20  # bytes that are stored before a batch is received
POLL_AGAIN_AFTER = 30.0  # seconds of taking
PATIENCE = 60.0  # seconds in which a file that cannot be opened may become readable
MOST_LOGGED = 1000  # paths that may not be read
REST_FACTOR, LONGEST_REST = 10, 60.0  # a poll that took a second is followed by ten without one
DONE, FAILED = "done", "failed"
OURS = (DONE, FAILED)
UNLINKED = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}  # hard links are not possible here


@dataclass(frozen=True, slots=True)
class OutboxFolders:
    """The folders `done` and `failed` of a source. Files keep their path below, and overwrite nothing."""

    top: Path
    wanted: Callable[[str], bool]
    packets: bool

    def put_away(self, outcome: MessageOutcome) -> None:
        """Move what a message came from; one that was failed and is ready now moves on."""
        name, _, mark = outcome.message_id.rpartition("@")
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return
        done, failed = self.top / DONE, self.top / FAILED
        if outcome.status == "ready":
            if self._is_there(self.top, name, mark):
                self._move(self.top / name, done, name)
            elif self._is_there(failed, name, mark):
                self._move(failed / name, done, name)
                _reason_of(failed / name).unlink(missing_ok=True)
        elif self._is_there(self.top, name, mark):
            moved = self._move(self.top / name, failed, name)
            if moved != self.top / name:
                _write_reason(moved, outcome.reason)
        elif self._is_there(failed, name, mark):
            _write_reason(
                failed / name, outcome.reason
            )  # the process was stopped in between, or the reason is another one

    def _is_there(self, top: Path, name: str, mark: str) -> bool:
        try:
            item = item_at(top, name, self.wanted, packet=self.packets)
            return item is not None and item.has(mark, top)
        except FileChanged:  # just now: what it becomes is another message
            return False
        except OSError as error:  # an unreadable file must not hold up the others
            log.warning("a file is left where it is, because it cannot be read", file=ascii(name), error=error.strerror)
            return False

    def _move(self, source: Path, folder: Path, name: str) -> Path:
        target, number = folder / name, 1
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # a file has the name of its folder
            log.warning("a file is left where it is, because its place is taken", file=str(source), place=str(target))
            return source
        while not _moved(source, target):
            number += 1
            target = folder / numbered(name, number)
        return target


def _moved(source: Path, target: Path) -> bool:
    """False if the name is taken. A rename would overwrite a file that comes at the same moment; a link does not."""
    try:
        if source.is_dir():
            return _moved_plainly(source, target)
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        if not source.samefile(target):  # else we were stopped after the link
            return False
    except OSError as error:
        if error.errno not in UNLINKED:
            raise
        return _moved_plainly(source, target)
    source.unlink()
    return True


def _moved_plainly(source: Path, target: Path) -> bool:
    if os.path.lexists(target):
        return False
    shutil.move(source, target)
    return True


def _reason_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.reason.txt")


def _write_reason(path: Path, reason: str) -> None:
    with suppress(FileNotFoundError):
        _reason_of(path).write_text(f"{reason}\n", encoding="utf-8", errors="replace")


@dataclass(slots=True)
class SeenItem:
    """An item as it was seen last."""

    item: FolderItem
    due: float  # not to be taken before
    since: float
    taken: bool = False


class FolderSource:
    """One folder. Its state is what was seen by this process; the inbox knows what was taken."""

    def __init__(self, context: SourceContext) -> None:
        if context.chosen.folder is None:
            raise Trouble(f"sources.{context.name}.folder is not set: a folder needs it.")
        self.context = context
        self.top = context.chosen.folder
        self._packets = context.chosen.makes == "packet"
        self._moves = context.chosen.afterwards == "move"
        self._wanted = name_filter(context.chosen.pattern)
        self._outbox = OutboxFolders(self.top, self._wanted, self._packets)
        self._settle = context.chosen.settle.total_seconds()
        self._seen: dict[str, SeenItem] = {}
        self._wake = asyncio.Event()
        self._polled = False
        self._rested_until = 0.0
        self._said: set[str] = set()  # paths that cannot be read, each logged once
        self._start = random.random()  # noqa: S311  workers begin at different places, and seldom meet

    async def run(self) -> None:
        await self.context.position()
        watching = asyncio.create_task(self._watch(), name=f"watch {self.top}")
        try:
            await poll_forever(self, self.context)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def close(self) -> None:
        """Nothing is open between two polls."""

    async def check(self) -> SourceCheck:
        """The files that were not taken yet, of the first batch that is not known; files are hashed to find them."""
        found = await asyncio.to_thread(self._list)
        since = asyncio.get_running_loop().time()
        items = [SeenItem(item, since, since) for item in found]
        while items:
            batch = self._portion(items)
            items = items[len(batch) :]
            messages = [message for seen in batch if (message := await self._read(seen)) is not None]
            if news := await self.context.news(messages):
                return summarise(news, more=bool(items))
        return SourceCheck(0)

    async def tell(self, outcomes: Sequence[MessageOutcome]) -> None:
        if not self._moves:
            return
        if not await asyncio.to_thread(self.top.is_dir):
            raise self._missing()
        for outcome in outcomes:
            await asyncio.to_thread(self._outbox.put_away, outcome)

    # -- polling --------------------------------------------------------------------------------------------------------

    async def poll(self) -> bool:
        """Read the folder, and take what is complete; whether there is more than that."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._polled = True
        self._wake.clear()
        found = await asyncio.to_thread(self._list)
        now = loop.time()
        self._rested_until = now + min(REST_FACTOR * (now - began), LONGEST_REST)
        self._compare(found, now)
        due = [seen for seen in self._seen.values() if not seen.taken and seen.due <= now]
        turn = int(self._start * len(due))
        due = due[turn:] + due[:turn]
        while due:
            batch = self._portion(due)
            due = due[len(batch) :]
            await self._take(batch)
            if due and (loop.time() - now > POLL_AGAIN_AFTER or not await self.context.has_room()):
                return True
        return False

    async def rest(self, seconds: float) -> None:
        """Until a change is notified, or something that was seen may be complete."""
        if not self._polled:  # the inbox is full: nothing could be taken
            await asyncio.sleep(seconds)
        self._polled = False
        now = asyncio.get_running_loop().time()
        soonest = min((seen.due for seen in self._seen.values() if not seen.taken), default=now + seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.01, min(seconds, soonest - now))):
                await self._wake.wait()
        await asyncio.sleep(max(0.0, self._rested_until - asyncio.get_running_loop().time()))

    def _list(self) -> list[FolderItem]:
        try:
            files = walk(self.top, wanted=self._wanted, without=OURS, closed=self._say_closed)
            return folder_items(files, packets=self._packets)
        except FileNotFoundError:
            raise self._missing() from None
        except OSError as error:
            raise Trouble(
                f"The folder {self.top} of source {self.context.name} cannot be read ({error.strerror}): let the account of "
                f"the worker read it, or correct sources.{self.context.name}.folder."
            ) from None

    def _say_closed(self, path: str, error: OSError) -> None:
        if path not in self._said and len(self._said) < MOST_LOGGED:
            self._said.add(path)
            log.warning(
                "a file or folder cannot be read",
                source=self.context.name,
                path=ascii(path),
                error=error.strerror,
            )

    def _missing(self) -> Trouble:
        return Trouble(
            f"The folder {self.top} of source {self.context.name} does not exist: create or mount it, or correct "
            f"sources.{self.context.name}.folder."
        )

    def _compare(self, found: Sequence[FolderItem], now: float) -> None:
        """Unchanged items stay known, changed ones begin again, and those that are gone are forgotten."""
        seen = {}
        for item in found:
            known = self._seen.get(item.name)
            same = known is not None and known.item == item
            seen[item.name] = known if known and same else SeenItem(item, now + self._settle, now)
        self._seen = seen

    def _portion(self, due: Sequence[SeenItem]) -> Sequence[SeenItem]:
        size = 0
        for place, seen in enumerate(due[: self.context.chosen.batch]):
            size += seen.item.size
            if size > TOGETHER:
                return due[: max(1, place)]
        return due[: self.context.chosen.batch]

    async def _watch(self) -> None:
        try:
            from watchfiles import awatch
        except ImportError:
            log.info("install penstock[folder] to be notified of new files at once", source=self.context.name)
            return
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs every change
        try:
            async for _ in awatch(self.top, watch_filter=None):
                self._wake.set()
        except Exception as error:  # noqa: BLE001  no inotify, no more watches, a network drive: polling goes on without it
            log.warning("a folder is polled, because it cannot be watched", source=self.context.name, error=str(error))

    # -- taking ---------------------------------------------------------------------------------------------------------

    async def _take(self, batch: Sequence[SeenItem]) -> None:
        ready = [(seen, message) for seen in batch if (message := await self._read(seen)) is not None]
        news = {message.id for message in await self.context.news([message for _, message in ready])}
        brought = []
        for seen, message in ready:
            stored: list[StoredBlob] | None = []
            if message.id in news and not message.poison:
                stored = await self._store(seen.item, message)
            if stored is None:
                self._later(seen, self._settle)
            elif message.id in news:
                brought.append(SourceMessage(message.id, message.payload, stored, message.poison))
        if brought:
            await self._receive(brought)
        now = asyncio.get_running_loop().time()
        for seen, _ in ready:
            seen.taken = seen.due <= now  # else it was put off

    async def _read(self, seen: SeenItem) -> SourceMessage | None:
        """Its message; None if it is not complete, or cannot be read as yet."""
        item = seen.item
        if reason := item.reason(self.context.settings):
            return item.refusal(reason)
        try:
            digests = [await asyncio.to_thread(hash_file, self.top, each) for each in item.files]
        except FileChanged:
            self._later(seen, self._settle)
        except OSError as error:
            patient = asyncio.get_running_loop().time() - seen.since < PATIENCE
            self._later(seen, self.context.chosen.poll_every.total_seconds() if patient else PATIENCE)
            if not patient and isinstance(error, PermissionError):
                return item.refusal(
                    f"{item.name} cannot be read ({error.strerror}): let the account of the worker read it; it is then taken."
                )
            if not patient:
                log.warning("a file cannot be read", source=self.context.name, file=ascii(item.name), error=str(error))
        else:
            return item.message(digests)
        return None

    async def _store(self, item: FolderItem, message: SourceMessage) -> list[StoredBlob] | None:
        """All of its bytes; None if it was changed meanwhile, and then nothing is kept."""
        stored: dict[bytes, StoredBlob] = {}  # equal files of a packet once
        digests = []
        try:
            for each in item.files:
                kept = await self.context.store.write(pieces(self.top, each), most=self.context.settings.limits.bytes)
                digests.append(kept.digest)
                if stored.setdefault(kept.digest, kept) is not kept:
                    await self.context.store.remove(kept.key)
            if item.message(digests).id == message.id:
                return list(stored.values())
        except (FileChanged, BodyTooLarge):
            log.info("a file was changed while it was taken", source=self.context.name, file=ascii(item.name))
        for kept in stored.values():
            await self.context.store.remove(kept.key)
        return None

    def _later(self, seen: SeenItem, seconds: float) -> None:
        seen.due = asyncio.get_running_loop().time() + max(seconds, 0.1)

    async def _receive(self, messages: Sequence[SourceMessage]) -> None:
        """A folder has no position; its turn counts what came. Order does not matter: an overtaken worker tries again."""
        while True:
            position = await self.context.position()
            try:
                await self.context.receive(messages, position=position, onward=position.value)
            except Overtaken:
                continue
            return


def open_source(context: SourceContext) -> FolderSource:
    """The folder of the settings; nothing is read yet."""
    return FolderSource(context)
