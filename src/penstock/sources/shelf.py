"""Where files go that are done with: `done` or `failed` in their folder, under the path that they had. Nothing is overwritten.

Only what still has the content that was taken is moved, so that doing it again is the same. Beside a failed one lies a file
that says why. All of this blocks, and runs in threads.
"""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from penstock.documents.naming import numbered
from penstock.sources.look import Changed
from penstock.sources.parcel import parcel_at
from penstock.sources.source import Fate
from penstock.telemetry import log

DONE, FAILED = "done", "failed"
OURS = (DONE, FAILED)
UNLINKED = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}  # no hard link to be had here


@dataclass(frozen=True, slots=True)
class Shelf:
    """The two folders of one source."""

    top: Path
    wanted: Callable[[str], bool]
    packets: bool

    def put_away(self, fate: Fate) -> None:
        """Move what a message came from; one that was failed and is ready now moves on."""
        name, _, mark = fate.message_id.rpartition("@")
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            return
        done, failed = self.top / DONE, self.top / FAILED
        if fate.status == "ready":
            if self._is_there(self.top, name, mark):
                self._move(self.top / name, done, name)
            elif self._is_there(failed, name, mark):
                self._move(failed / name, done, name)
                _reason_of(failed / name).unlink(missing_ok=True)
        elif self._is_there(self.top, name, mark):
            moved = self._move(self.top / name, failed, name)
            if moved != self.top / name:
                _write_reason(moved, fate.reason)
        elif self._is_there(failed, name, mark) and not _reason_of(failed / name).exists():
            _write_reason(failed / name, fate.reason)  # we were stopped between the two

    def _is_there(self, top: Path, name: str, mark: str) -> bool:
        try:
            parcel = parcel_at(top, name, self.wanted, packet=self.packets)
            return parcel is not None and parcel.has(mark, top)
        except Changed:  # just now: what it becomes is another message
            return False
        except OSError as error:  # one file that nobody can read any more holds up no others
            log.warning("a file is left where it is, because it cannot be read", file=ascii(name), error=error.strerror)
            return False

    def _move(self, source: Path, shelf: Path, name: str) -> Path:
        target, number = shelf / name, 1
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # a file has the name of its folder
            log.warning("a file is left where it is, because its place is taken", file=str(source), place=str(target))
            return source
        while not _moved(source, target):
            number += 1
            target = shelf / numbered(name, number)
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
