"""Of `doctor`: can documents be kept? A bucket is asked to keep a few bytes for a moment; at a folder we only look.

Writing into a folder would leave sub-folders that belong to whoever ran the command, which may be root.
"""

import os
from pathlib import Path

from penstock.blobs import open_store, probe
from penstock.errors import BadSetting, JobFailure, Refused
from penstock.operations.finding import Finding
from penstock.settings import Settings
from penstock.telemetry import mask

BUCKET = "export PENSTOCK_BLOBS__OPTIONS='name=value …'  # or blobs.url, blobs.endpoint; then restart"
FOLDER = "export PENSTOCK_BLOBS__FOLDER=/…  # a folder that this account may write to; then restart"


async def examine_blobs(settings: Settings) -> list[Finding]:
    """Whether the place for documents takes them."""
    if not settings.blobs.url:
        folder = settings.blobs.folder or settings.home / "blobs"
        if trouble := _trouble(folder):
            return [Finding("blobs-unwritable", trouble, FOLDER, {"folder": str(folder)})]
        return []
    try:
        await probe(open_store(settings))
    except (BadSetting, Refused, JobFailure) as error:
        said = f"Documents cannot be kept: {mask(str(error))}"
        return [Finding("blobs-unwritable", said, BUCKET, {"url": settings.blobs.url})]
    return []


def _trouble(folder: Path) -> str:
    """Of the folder, or of the one in which it will be made."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        return f"Documents cannot be kept: {there} is not a folder."
    if not os.access(there, os.W_OK | os.X_OK):
        return f"Documents cannot be kept: this account may not write into {there}."
    return ""
