"""Looking through a folder, and reading what is in it as it is: no link leads out of it, and no file is read half changed.

Hidden files and folders are left out, and so are links. What was seen of a file is its stamp; whoever opens it finds the same
stamp before the first byte and after the last, or it is `Changed`. All of this blocks, and runs in threads, but for `pieces`.
"""

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

PIECE = 2**20
HIDDEN = (".", "~$")  # the second is what Office writes beside an open document
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE, errno.ENXIO}  # or a link, or something else by now


class Changed(Exception):
    """The file is not what was seen of it."""


class Leaf(NamedTuple):
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
) -> Iterator[Leaf]:
    """All files below a folder, but for the folders `without` directly below it; raises only what concerns the first one.

    `closed` hears of what may not be looked at further down.
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
                        yield leaf(path, entry.stat(follow_symlinks=False))
                except OSError as error:
                    if error.errno not in GONE:
                        closed(path, error)


def leaf(path: str, seen: os.stat_result) -> Leaf:
    return Leaf(path, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino)


def name_filter(pattern: str) -> Callable[[str], bool]:
    """Whether a name is wanted, by patterns with commas between; scanners write .PDF, so capital letters are the same."""
    patterns = [part.strip().lower() for part in pattern.split(",") if part.strip()] or ["*"]
    return lambda name: any(fnmatchcase(name.lower(), each) for each in patterns)


def open_leaf(top: Path, seen: Leaf) -> int:
    """A descriptor of exactly this file; each step down is one that no link can turn."""
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
            raise Changed(seen.path) from None
        raise
    finally:
        os.close(at)
    try:
        check_leaf(file, seen)
    except BaseException:
        os.close(file)
        raise
    return file


def check_leaf(file: int, seen: Leaf) -> None:
    now = os.fstat(file)
    if not stat.S_ISREG(now.st_mode) or leaf(seen.path, now) != seen:
        raise Changed(seen.path)


def hash_leaf(top: Path, seen: Leaf) -> bytes:
    """The digest of all of it, as it was seen."""
    file = open_leaf(top, seen)
    digest = hashlib.sha256()
    try:
        while piece := os.read(file, PIECE):
            digest.update(piece)
        check_leaf(file, seen)
    finally:
        os.close(file)
    return digest.digest()


async def pieces(top: Path, seen: Leaf) -> AsyncIterator[bytes]:
    """The bytes of a file, as it was seen; `Changed` comes after the last one, so that a store keeps nothing of it."""
    file = await asyncio.to_thread(open_leaf, top, seen)
    try:
        while piece := await asyncio.to_thread(os.read, file, PIECE):
            yield piece
        await asyncio.to_thread(check_leaf, file, seen)
    finally:
        os.close(file)
