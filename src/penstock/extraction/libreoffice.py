"""Formats that only LibreOffice can read: converted to PDF or OOXML by it when it is installed, else refused with that
reason.

It runs with a profile of its own in a scratch folder that is removed afterwards, so that two conversions do not wait for
each other.
"""

import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from penstock.errors import Corrupt, ResourceLimit, Unsupported
from penstock.extraction.reading import Reading

_PROGRAMS = ("soffice", "libreoffice")
_SECONDS = 60
_NAMES = {
    "application/vnd.visio": "A Visio drawing",
    "application/vnd.ms-visio.drawing": "A Visio drawing",
    "application/x-mspublisher": "A Publisher file",
    "application/vnd.ms-works": "A Works file",
    "application/vnd.wordperfect": "A WordPerfect file",
    "application/vnd.sun.xml.writer": "A StarOffice file",
    "application/vnd.apple.iwork": "An iWork file (Pages, Numbers, Keynote)",
    "application/x-word-2": "A file of Word before version 6",
    "application/x-mswrite": "A file of Windows Write",
}


def read_converted(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    what = _NAMES.get(media_type, f"A file of the type {media_type}")
    if program is None:
        raise Unsupported(
            f"{what} needs LibreOffice, which is not installed here. Install it, or save the file as PDF."
        )
    converted = convert(program, file, str(arguments.get("name", "")))
    from penstock.extraction.pdf import read_pdf

    return replace(read_pdf(io.BytesIO(converted), arguments), media_type=media_type)


def convert(program: str, file: BinaryIO, name: str) -> bytes:
    """The file as PDF."""
    with tempfile.TemporaryDirectory(prefix="office-") as folder:
        source = Path(folder, "source" + Path(name).suffix[:10].lower())
        file.seek(0)
        with source.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        command = [program, "--headless", "--norestore", f"-env:UserInstallation=file://{folder}/profile",
                   "--convert-to", "pdf", "--outdir", folder, str(source)]  # fmt: skip
        environment = {**os.environ, "HOME": folder, "TMPDIR": folder}
        try:
            subprocess.run(
                command, env=environment, timeout=_SECONDS, check=False, capture_output=True, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as error:
            raise ResourceLimit(f"LibreOffice took more than {_SECONDS} seconds to convert it.") from error
        result = source.with_suffix(".pdf")
        if not result.exists():
            raise Corrupt("damaged: LibreOffice cannot open it")
        return result.read_bytes()
