"""Findings about storage: disks that are nearly full, and a blob folder or bucket that cannot be written to.

The disks are those of the blob folder, of the scratch folder of the sandbox processes, and of the database if it runs on this
machine. A bucket is probed by writing a few bytes. A folder is only inspected: writing to it would leave sub-folders owned
by the account that ran the command, which may be root. The readiness of a process uses the same functions.
"""

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from penstock.blobs import open_store, probe
from penstock.database import Session, statements
from penstock.errors import BadSetting, JobFailure, Refused
from penstock.operations.doctor.finding import Finding
from penstock.settings import Settings
from penstock.telemetry import mask

sql = statements(__file__)

LEAST_FREE = 256 * 2**20  # bytes, whatever the disk
SMALL_PART, MUCH = 0.05, 20 * 2**30  # less than 5 % of a disk is little, unless that is still much
BUCKET = "export PENSTOCK_BLOBS__OPTIONS='name=value …'  # or blobs.url, blobs.endpoint; then restart"
FOLDER = "export PENSTOCK_BLOBS__FOLDER=/…  # a folder that this account may write to; then restart"
NAMES = {"blobs": "documents", "database": "the database", "scratch": "the sandbox processes"}


async def examine_disks(session: Session, settings: Settings, *, least_free: int = LEAST_FREE) -> list[Finding]:
    data_folder = await find_data_folder(session)
    return await asyncio.to_thread(examine_places, settings, data_folder, least_free=least_free)


async def find_data_folder(session: Session) -> str | None:
    """The folder of the database, if it is on this machine and we may know it."""
    found: str | None = await sql.data_folder.value(session)
    return found


def examine_places(
    settings: Settings, data_folder: str | None, *, documents: bool = True, least_free: int = LEAST_FREE
) -> list[Finding]:
    """The disks that this process uses; those of documents only if it stores or reads any."""
    places = {"database": Path(data_folder)} if data_folder else {}
    if documents:
        places["scratch"] = Path(tempfile.gettempdir())
    if documents and not settings.blobs.url:
        places["blobs"] = _blob_folder(settings)
    return [
        finding for what, folder in sorted(places.items()) for finding in _examine(what, folder, settings, least_free)
    ]


def _examine(what: str, folder: Path, settings: Settings, least_free: int) -> Iterator[Finding]:
    if what == "database" and not folder.is_dir():  # in another container, which has another disk
        return
    try:
        disk = shutil.disk_usage(_existing(folder))
    except OSError as error:
        said = f"The disk of {NAMES[what]} cannot be read at {folder}: {error.strerror}."
        yield Finding("storage-away", said, f"df -h {shlex.quote(str(folder))}", {"what": what}, subject=what)
        return
    if disk.free >= least_free and (disk.free >= SMALL_PART * disk.total or disk.free >= MUCH):
        return
    said = (
        f"The disk of {NAMES[what]} is nearly full: {disk.free / 2**20:,.0f} MB of {disk.total / 2**20:,.0f} MB are "
        f"free at {folder}. When it is full, uploads are refused and jobs are retried later; nothing is lost. Penstock does "
        "not free space: remove what is not needed there, enlarge the disk, or use a folder of another one:"
    )
    evidence = {"what": what, "folder": str(folder), "free": disk.free, "total": disk.total}
    yield Finding("disk-full", said, _move(what, folder, settings), evidence, subject=what)


def _move(what: str, folder: Path, settings: Settings) -> str:
    """The command that moves to another folder, `/…`, which the operator chooses."""
    if what == "scratch":
        return "export TMPDIR=/…  # on a larger disk; then restart the workers"
    moved, place = (folder, "PENSTOCK_BLOBS__FOLDER") if what == "blobs" else (settings.home, "PENSTOCK_HOME")
    if what == "blobs" or settings.database_url is None:
        # The folder is made with the first document.
        copy = f"cp -a {shlex.quote(str(moved))}/. /… && " if moved.exists() else ""
        return f"{copy}export {place}=/…  # /… is on a larger disk; while everything is stopped"
    return f"df -h {shlex.quote(str(folder))}  # its owner moves the data_directory of the server"


async def examine_blobs(settings: Settings) -> list[Finding]:
    """Whether the folder or bucket for documents can be written to."""
    if not settings.blobs.url:
        folder = _blob_folder(settings)
        if trouble := _trouble(_existing(folder)):
            said = f"Documents cannot be stored: {trouble}"
            return [Finding("blobs-unwritable", said, FOLDER, {"folder": str(folder)})]
        return []
    try:
        await probe(open_store(settings))
    except (BadSetting, Refused, JobFailure) as error:
        said = f"Documents cannot be stored: {mask(str(error))}"
        return [Finding("blobs-unwritable", said, BUCKET, {"url": settings.blobs.url})]
    return []


def _trouble(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder."
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this account may not write into {folder}."
    return ""


def _blob_folder(settings: Settings) -> Path:
    return settings.blobs.folder or settings.home / "blobs"


def _existing(folder: Path) -> Path:
    """The folder, or the nearest parent that exists: a folder is created with the first document."""
    return next(place for place in (folder, *folder.parents) if place.exists())
