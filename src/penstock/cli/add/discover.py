"""Finds the files below the arguments of `penstock add`, and names them by their relative paths.

Hidden files and what is not a regular file are left out. A folder that links lead to twice is walked once. No file is opened:
the upload finds out whether it can be read.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import BadSetting


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine, and the name that its document gets."""

    path: Path
    name: str
    size: int


@dataclass
class FoundFiles:
    """The files to add, the paths that are skipped on purpose, and the paths that could not be read."""

    files: list[LocalFile] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)  # path, reason
    faults: list[tuple[str, str]] = field(default_factory=list)
    _named: dict[str, Path] = field(default_factory=dict)

    def add(self, path: Path, name: str, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            self.left_out.append((str(path), "not a file"))
        elif name in self._named:
            self.faults.append((str(path), f"it would get the same name as {self._named[name]}: add them one by one"))
        else:
            self._named[name] = path
            self.files.append(LocalFile(path, name, found.st_size))


def discover(arguments: Sequence[Path]) -> FoundFiles:
    """Everything below the arguments, in the order of the names. A path that does not exist is refused before any work."""
    into = FoundFiles()
    seen: set[tuple[int, int]] = set()
    for argument in arguments:
        try:
            found = argument.stat()
        except OSError as error:
            raise BadSetting(f"Cannot add {printable(argument)}: {_reason(error)}.") from None
        if stat.S_ISDIR(found.st_mode):
            _walk(argument, "", found, seen, into)
        else:
            into.add(argument, Path(os.path.abspath(argument)).name, found)  # noqa: PTH100  a link keeps its own name
    return into


def _walk(top: Path, below: str, found: os.stat_result, seen: set[tuple[int, int]], into: FoundFiles) -> None:
    """Add a folder and its contents, without recursion: a tree may be deeper than Python's stack."""
    waiting = [(top, below, found)]
    while waiting:
        folder, prefix, itself = waiting.pop()
        if (itself.st_dev, itself.st_ino) in seen:
            into.left_out.append((str(folder), "folder already added"))
            continue
        seen.add((itself.st_dev, itself.st_ino))
        folders = []
        for path, name in _entries(folder, prefix, into):
            try:
                entry = path.stat()
            except OSError as error:
                into.faults.append((str(path), _reason(error)))
                continue
            if stat.S_ISDIR(entry.st_mode):
                folders.append((path, f"{name}/", entry))
            else:
                into.add(path, name, entry)
        waiting += reversed(folders)


def _entries(folder: Path, prefix: str, into: FoundFiles) -> Iterator[tuple[Path, str]]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  names are wanted
    except OSError as error:
        into.faults.append((str(folder), _reason(error)))
        return
    for name in names:
        if name.startswith("."):
            into.left_out.append((str(folder / name), "hidden"))
        else:
            yield folder / name, prefix + name


def _reason(error: OSError) -> str:
    return "links that lead to each other" if error.errno == errno.ELOOP else (error.strerror or str(error)).lower()


def printable(text: object) -> str:
    """A printable form of a path or a reason: names need not be text, and must not command the terminal."""
    known = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return (
        known
        if known.isprintable()
        else "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in known)
    )
