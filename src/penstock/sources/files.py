"""Files of a folder, read safely: no link leads out of the folder, and no file is read while it changes.

Hidden files and folders, and links, are left out. A file is known by its stat; when it is opened, the stat must be the same
before the first byte and after the last, or it is `FileChanged`. A `FolderItem` is what becomes one message: a file, or for
packets a folder directly below with all its files. Everything but `pieces` blocks, and runs in threads.
"""

import asyncio
import errno
import hashlib
import json
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from penstock.documents import DIGEST, SourceMessage, check_document_name
from penstock.errors import BadValue
from penstock.settings import Settings
from penstock.text import storable

PIECE = 2**20
HIDDEN = (".", "~$")  # the second is what Office writes next to an open document
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE, errno.ENXIO}  # or a link, or something else by now


class FileChanged(Exception):
    """The file has changed since it was seen."""


class SafeFile(NamedTuple):
    """A file as it was seen."""

    path: str  # below the folder, with / between
    size: int
    modified: int  # nanoseconds
    changed: int  # the same, also of its name, owner and rights: one that becomes readable is another file
    inode: int


def walk(
    top: Path,
    below: str = "",
    *,
    wanted: Callable[[str], bool],
    without: Collection[str] = (),
    closed: Callable[[str, OSError], None] = lambda _path, _error: None,
) -> Iterator[SafeFile]:
    """All files below a folder, but for the folders `without` directly below it; raises only what concerns the first one.

    `closed` is called for what cannot be read further down.
    """
    folders = [below]
    while folders:
        folder = folders.pop()
        try:
            entries = os.scandir(top / folder)
        except OSError as error:
            if folder == below:
                raise
            if error.errno not in GONE:
                closed(folder, error)
            continue
        with entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.name.startswith(HIDDEN) or path in without:
                    continue
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif entry.is_file(follow_symlinks=False) and wanted(entry.name):
                        yield safe_file(path, entry.stat(follow_symlinks=False))
                except OSError as error:
                    if error.errno not in GONE:
                        closed(path, error)


def safe_file(path: str, seen: os.stat_result) -> SafeFile:
    return SafeFile(path, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)


def name_filter(pattern: str) -> Callable[[str], bool]:
    """Whether a name is wanted, by patterns with commas between; scanners write .PDF, so capital letters are the same."""
    patterns = [part.strip().lower() for part in pattern.split(",") if part.strip()] or ["*"]
    return lambda name: any(fnmatchcase(name.lower(), each) for each in patterns)


def open_file(top: Path, seen: SafeFile) -> int:
    """A descriptor of exactly this file; no step of its path follows a link."""
    *folders, name = seen.path.split("/")
    at = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            deeper = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = deeper
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError as error:
        if error.errno in GONE:
            raise FileChanged(seen.path) from None
        raise
    finally:
        os.close(at)
    try:
        check_file(file, seen)
    except BaseException:
        os.close(file)
        raise
    return file


def check_file(file: int, seen: SafeFile) -> None:
    now = os.fstat(file)
    if not stat.S_ISREG(now.st_mode) or safe_file(seen.path, now) != seen:
        raise FileChanged(seen.path)


def hash_file(top: Path, seen: SafeFile) -> bytes:
    """The digest of all of it, as it was seen."""
    file = open_file(top, seen)
    digest = hashlib.sha256()
    try:
        while piece := os.read(file, PIECE):
            digest.update(piece)
        check_file(file, seen)
    finally:
        os.close(file)
    return digest.digest()


async def pieces(top: Path, seen: SafeFile) -> AsyncIterator[bytes]:
    """The bytes of a file, as it was seen; `FileChanged` comes after the last one, so that a store keeps nothing of it."""
    file = await asyncio.to_thread(open_file, top, seen)
    try:
        while piece := await asyncio.to_thread(os.read, file, PIECE):
            yield piece
        await asyncio.to_thread(check_file, file, seen)
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class FolderItem:
    """Files that are taken together."""

    name: str
    files: Sequence[SafeFile]  # in the order of their names
    packet: bool

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)

    def reason(self, settings: Settings) -> str:
        """Why it cannot be taken; empty if it can."""
        try:
            check_document_name(self.name)
        except BadValue as error:
            return f"The {'folder' if self.packet else 'file'} cannot be taken under its name. {error}"
        if len(self.files) > (most := settings.packet.documents) and self.packet:
            return f"The folder has {len(self.files):,} files, more than {most:,} (packet.documents): split it, or raise that."
        large = next((each for each in self.files if each.size > settings.limits.bytes), None)
        if large:
            return (
                f"{large.path} has {large.size:,} bytes, more than {settings.limits.bytes:,}, the most for one document "
                "(limits.bytes): split it, or raise the limit."
            )
        return ""

    def message(self, digests: Sequence[bytes]) -> SourceMessage:
        """With its ctime, which no program can set: content that was here before, and has come back, is another message, even
        if a backup has restored it with its old mtime."""
        payload: dict[str, Any] = {"name": self.name, "changed": max(each.changed for each in self.files)}
        if self.packet:
            payload["documents"] = [
                {"name": storable(name), DIGEST: digest.hex()}
                for name, digest in zip(self._inner(), digests, strict=True)
            ]
        else:
            payload[DIGEST] = digests[0].hex()
        return SourceMessage(f"{self.name}@{self.mark(digests)}", payload)

    def refusal(self, reason: str) -> SourceMessage:
        name = storable(self.name)
        return SourceMessage(f"{name}@{self.unread_mark()}", {"name": name}, poison=storable(reason))

    def mark(self, digests: Sequence[bytes]) -> str:
        if not self.packet:
            return digests[0].hex()
        listing = [[storable(name), digest.hex()] for name, digest in zip(self._inner(), digests, strict=True)]
        return hashlib.sha256(json.dumps(listing).encode()).hexdigest()

    def unread_mark(self) -> str:
        seen = [[storable(each.path), each.size, each.modified] for each in self.files]
        return f"unread-{hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:32]}"

    def has(self, mark: str, top: Path) -> bool:
        """Whether it is what was taken under this mark; reads it. Blocks."""
        if mark.startswith("unread-"):
            return mark == self.unread_mark()
        return mark == self.mark([hash_file(top, each) for each in self.files])

    def _inner(self) -> list[str]:
        return [each.path[len(self.name) + 1 :] for each in self.files]


def folder_items(files: Iterable[SafeFile], *, packets: bool) -> list[FolderItem]:
    """In the order of their names. A file next to the folders of packets belongs to none."""
    if not packets:
        return [FolderItem(each.path, (each,), packet=False) for each in sorted(files, key=lambda each: each.path)]
    found: dict[str, list[SafeFile]] = {}
    for each in files:
        folder, slash, _ = each.path.partition("/")
        if slash:
            found.setdefault(folder, []).append(each)
    return [
        FolderItem(name, tuple(sorted(found[name], key=lambda each: each.path)), packet=True) for name in sorted(found)
    ]


def item_at(top: Path, name: str, wanted: Callable[[str], bool], *, packet: bool) -> FolderItem | None:
    """The one of this name, if it is there. Blocks."""
    try:
        if not packet:
            return FolderItem(name, (safe_file(name, (top / name).lstat()),), packet=False)
        found = folder_items(walk(top, name, wanted=wanted), packets=True)
    except OSError:
        return None
    return found[0] if found else None
