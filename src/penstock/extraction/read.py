"""The task "read": find out what a file is, and hand it to the reader of that format."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, BinaryIO

from penstock.errors import Unsupported
from penstock.extraction.draft import refuse_pages
from penstock.extraction.identify import identify
from penstock.extraction.office.oldoffice import DOC, HANGUL, MSG, PPT, PUBLISHER, VISIO, WORDPERFECT, WORKS, XLS
from penstock.extraction.office.parts import DOCX, EPUB, IWORK, ODG, ODP, ODS, ODT, PPTX, STAROFFICE, VSDX, XLSB, XLSX
from penstock.extraction.plain.textkind import MBOX
from penstock.extraction.reading import Gap, Reading
from penstock.extraction.signature import GZIP, TAR, ZIP

_EMPTY = "no text in it, although it is not empty"

# Media type -> (module, function, whether it is told the media type). Modules are imported when the first such file comes.
READERS: dict[str, tuple[str, str, bool]] = {
    "application/pdf": ("pdf.reader", "read_pdf", False),
    **{f"image/{kind}": ("ocr.image", "read_image", True) for kind in ("png", "jpeg", "tiff", "bmp", "webp", "gif")},
    "text/plain": ("plain.text", "read_text", True),
    "text/markdown": ("plain.text", "read_text", True),
    "text/csv": ("plain.separated", "read_separated", True),
    "text/tab-separated-values": ("plain.separated", "read_separated", True),
    "application/json": ("plain.notebook", "read_json", True),
    "application/x-ndjson": ("plain.notebook", "read_json", True),
    "application/x-ipynb+json": ("plain.notebook", "read_json", True),
    "text/html": ("plain.web", "read_html", False),
    "application/xml": ("plain.xmltext", "read_xml", True),
    "image/svg+xml": ("plain.xmltext", "read_xml", True),
    "message/rfc822": ("plain.mail", "read_mail", False),
    MSG: ("office.outlook", "read_outlook", False),
    **dict.fromkeys(
        [DOCX, XLSX, XLSB, ODT, ODS, EPUB, DOC, XLS, PPT, HANGUL, "application/rtf"],
        ("office.reader", "read_office", True),
    ),
    **dict.fromkeys([PPTX, ODP, ODG], ("office.presentation", "read_slides", True)),
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
        ("office.libreoffice", "read_converted", True),
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
