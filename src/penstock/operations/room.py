"""Of `doctor`: is there room left where things are written?

The blob folder, the database's volume where it is on this machine, and the scratch folder of the readers. A bucket and another
machine's disk say nothing before they are full. The SQL is in room.sql.
"""

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from penstock.database import Session, statements
from penstock.operations.finding import Finding
from penstock.settings import Settings

sql = statements(__file__)

LEAST_FREE = 256 * 2**20  # bytes, whatever the disk
SMALL_PART, MUCH = 0.05, 20 * 2**30  # less than 5 % of a disk is little, unless that is still much
NAMES = {"blobs": "documents", "database": "the database", "scratch": "the readers of documents"}


async def examine_room(session: Session, settings: Settings, *, least_free: int = LEAST_FREE) -> list[Finding]:
    places = {"scratch": Path(tempfile.gettempdir())}
    if not settings.blobs.url:
        places["blobs"] = settings.blobs.folder or settings.home / "blobs"
    data = await sql.data_folder.value(session)
    if data:
        places["database"] = Path(data)
    return [
        finding for what, folder in sorted(places.items()) for finding in _examine(what, folder, settings, least_free)
    ]


def _examine(what: str, folder: Path, settings: Settings, least_free: int) -> Iterator[Finding]:
    if what == "database" and not folder.is_dir():  # in another container, which has another disk
        return
    there = next(place for place in (folder, *folder.parents) if place.exists())
    disk = shutil.disk_usage(there)
    if disk.free >= least_free and (disk.free >= SMALL_PART * disk.total or disk.free >= MUCH):
        return
    said = (
        f"The disk of {NAMES[what]} is nearly full: {disk.free / 2**20:,.0f} MB of {disk.total / 2**20:,.0f} MB are "
        f"free at {folder}. When it is full, uploads are refused and jobs are tried again later; nothing is lost. Penstock "
        "makes no room by itself: remove what is not needed there, enlarge the disk, or use a folder of another one:"
    )
    evidence = {"what": what, "folder": str(folder), "free": disk.free, "total": disk.total}
    yield Finding("disk-full", said, _move(what, folder, settings), evidence)


def _move(what: str, folder: Path, settings: Settings) -> str:
    """To a folder `/…`, which is the reader's to choose."""
    if what == "scratch":
        return "export TMPDIR=/…  # on a larger disk; then restart the workers"
    moved, place = (folder, "PENSTOCK_BLOBS__FOLDER") if what == "blobs" else (settings.home, "PENSTOCK_HOME")
    if what == "blobs" or settings.database_url is None:
        copy = (
            f"cp -a {shlex.quote(str(moved))}/. /… && " if moved.exists() else ""
        )  # it is made with the first document
        return f"{copy}export {place}=/…  # /… is on a larger disk; while everything is stopped"
    return f"df -h {shlex.quote(str(folder))}  # the server is not ours: its owner moves its data_directory"
