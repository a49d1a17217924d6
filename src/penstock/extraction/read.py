"""The task "read": find out what a file is, and hand it to the reader of that format."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, BinaryIO

from penstock.errors import Unsupported
from penstock.extraction.draft import refuse_pages
from penstock.extraction.identify import identify
from penstock.extraction.oldoffice import DOC, HANGUL, MSG, PPT, PUBLISHER, VISIO, WORDPERFECT, WORKS, XLS
from penstock.extraction.parts import DOCX, EPUB, IWORK, ODG, ODP, ODS, ODT, PPTX, STAROFFICE, VSDX, XLSB, XLSX
from penstock.extraction.reading import Gap, Reading
from penstock.extraction.signature import GZIP, TAR, ZIP
from penstock.extraction.textkind import MBOX

_EMPTY = "no text in it, although it is not empty"

# Media type -> (module, function, whether it is told the media type). Modules are imported when the first such file comes.
READERS: dict[str, tuple[str, str, bool]] = {
    "application/pdf": ("pdf", "read_pdf", False),
    **{f"image/{kind}": ("image", "read_image", True) for kind in ("png", "jpeg", "tiff", "bmp", "webp", "gif")},
    "text/plain": ("text", "read_text", True),
    "text/markdown": ("text", "read_text", True),
    "text/csv": ("separated", "read_separated", True),
    "text/tab-separated-values": ("separated", "read_separated", True),
    "application/json": ("notebook", "read_json", True),
    "application/x-ndjson": ("notebook", "read_json", True),
    "application/x-ipynb+json": ("notebook", "read_json", True),
    "text/html": ("web", "read_html", False),
    "application/xml": ("xmltext", "read_xml", True),
    "image/svg+xml": ("xmltext", "read_xml", True),
    "message/rfc822": ("mail", "read_mail", False),
    MSG: ("outlook", "read_outlook", False),
    **dict.fromkeys(
        [DOCX, XLSX, XLSB, ODT, ODS, EPUB, DOC, XLS, PPT, HANGUL, "application/rtf"], ("office", "read_office", True)
    ),
    **dict.fromkeys([PPTX, ODP, ODG], ("presentation", "read_slides", True)),
    **dict.fromkeys([ZIP, TAR, GZIP, MBOX], ("archive", "read_archive", True)),
    **dict.fromkeys(
        [
            VISIO,
            VSDX,
            PUBLISHER,
            WORKS,
            WORDPERFECT,
            STAROFFICE,
            IWORK,
            "application/x-word-2",
            "application/x-mswrite",
        ],
        ("libreoffice", "read_converted", True),
    ),
}


def read(file: BinaryIO, arguments: dict[str, Any], reply: object) -> dict[str, Any]:
    """What a box runs for the task "read"."""
    return read_document(file, arguments).encode()


def read_document(file: BinaryIO, arguments: Mapping[str, Any]) -> Reading:
    media_type = identify(file, str(arguments.get("name", "")))
    module, function, told = READERS.get(media_type, ("", "", False))
    if not module:
        raise Unsupported(f"Files of the type {media_type} cannot be read here.")
    reader = getattr(import_module(f"penstock.extraction.{module}"), function)
    reading: Reading = reader(file, media_type, arguments) if told else reader(file, arguments)
    return _within_limits(reading, arguments)


def _within_limits(reading: Reading, arguments: Mapping[str, Any]) -> Reading:
    refuse_pages(len(reading.pages) + len(reading.scanned), arguments)
    if not reading.scanned and not reading.gaps and not any(page.text.strip() for page in reading.pages):
        return Reading(reading.media_type, (), (), reading.title, reading.facts, [Gap(None, _EMPTY)])
    return reading
