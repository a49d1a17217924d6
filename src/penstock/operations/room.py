"""Of `doctor`: is there room left where things are written?

The blob folder, the database's volume where it is on this machine, and the scratch folder of the readers. A bucket and another
machine's disk say nothing before they are full. The SQL is in room.sql.
"""

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
COMMANDS = {
    "blobs": "export PENSTOCK_BLOBS__FOLDER=/…  # on a larger disk, with the files moved there; then restart",
    "database": "export PENSTOCK_HOME=/…  # on a larger disk, with the folder moved there while everything is stopped",
    "scratch": "export TMPDIR=/…  # on a larger disk; then restart the workers",
}


async def examine_room(session: Session, settings: Settings, *, least_free: int = LEAST_FREE) -> list[Finding]:
    places = {"scratch": Path(tempfile.gettempdir())}
    if not settings.blobs.url:
        places["blobs"] = settings.blobs.folder or settings.home / "blobs"
    data = await sql.data_folder.value(session)
    if data:
        places["database"] = Path(data)
    return [finding for what, folder in sorted(places.items()) for finding in _examine(what, folder, least_free)]


def _examine(what: str, folder: Path, least_free: int) -> Iterator[Finding]:
    if what == "database" and not folder.is_dir():  # in another container, which has another disk
        return
    there = next(place for place in (folder, *folder.parents) if place.exists())
    disk = shutil.disk_usage(there)
    if disk.free >= least_free and (disk.free >= SMALL_PART * disk.total or disk.free >= MUCH):
        return
    name = {"blobs": "documents", "database": "the database", "scratch": "the readers of documents"}[what]
    said = (
        f"The disk of {name} is nearly full: {disk.free / 2**20:,.0f} MB of {disk.total / 2**20:,.0f} MB are "
        f"free at {folder}. When it is "
        "full, uploads are refused and jobs are tried again later; nothing is lost. Make room, or move it."
    )
    yield Finding(
        "disk-full", said, COMMANDS[what], {"what": what, "folder": str(folder), "free": disk.free, "total": disk.total}
    )
