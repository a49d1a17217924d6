"""Where boxes may write: a folder per `Boxes`, in the system's folder for temporary files, with one for each child in it."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from time import time

PREFIX = "penstock-boxes-"


class Scratch:
    """A folder for the scratch folders of one `Boxes`, locked while it is used, so that others remove it after a kill -9."""

    def __init__(self) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            _remove_left(left)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _remove_left(folder: Path) -> None:
    with suppress(OSError):  # in use, somebody else's, or gone
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if (
                os.fstat(lock).st_uid == os.geteuid() and os.fstat(lock).st_mtime < time() - 60
            ):  # one being made has no lock yet
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
