"""The task "read": identifies the format of a file and calls the reader of that format."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, BinaryIO

from penstock.errors import Unsupported
from penstock.extraction.identify import GZIP, TAR, identify
from penstock.extraction.office.compound import DOC, HANGUL, MSG, PPT, PUBLISHER, VISIO, WORDPERFECT, WORKS, XLS
from penstock.extraction.office.package import (
    DOCX,
    EPUB,
    IWORK,
    ODG,
    ODP,
    ODS,
    ODT,
    PPTX,
    STAROFFICE,
    VSDX,
    XLSB,
    XLSX,
    ZIP,
)
from penstock.extraction.result import ExtractedDocument, Gap, refuse_pages
from penstock.extraction.text_formats.text import MBOX

_EMPTY = "no text in it, although it is not empty"

# Media type -> (module, function, whether it takes the media type). A module is imported for its first file.
READERS: dict[str, tuple[str, str, bool]] = {
    "application/pdf": ("pdf.reader", "read_pdf", False),
    **{f"image/{kind}": ("ocr.image", "read_image", True) for kind in ("png", "jpeg", "tiff", "bmp", "webp", "gif")},
    "text/plain": ("text_formats.text", "read_text", True),
    "text/markdown": ("text_formats.text", "read_text", True),
    "text/csv": ("text_formats.structured", "read_separated", True),
    "text/tab-separated-values": ("text_formats.structured", "read_separated", True),
    "application/json": ("text_formats.structured", "read_json", True),
    "application/x-ndjson": ("text_formats.structured", "read_json", True),
    "application/x-ipynb+json": ("text_formats.structured", "read_json", True),
    "text/html": ("text_formats.web", "read_html", False),
    "application/xml": ("text_formats.structured", "read_xml", True),
    "image/svg+xml": ("text_formats.structured", "read_xml", True),
    "message/rfc822": ("text_formats.mail", "read_mail", False),
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
    """Run the task "read"."""
    return read_document(file, arguments).encode()


def read_document(file: BinaryIO, arguments: Mapping[str, Any]) -> ExtractedDocument:
    media_type = identify(file, str(arguments.get("name", "")))
    module, function, typed = READERS.get(media_type, ("", "", False))
    if not module:
        raise Unsupported(f"Files of the type {media_type} cannot be read here.")
    reader = getattr(import_module(f"penstock.extraction.{module}"), function)
    result: ExtractedDocument = reader(file, media_type, arguments) if typed else reader(file, arguments)
    refuse_pages(len(result.pages) + len(result.scanned), arguments)
    if not result.scanned and not result.gaps and not any(page.text.strip() for page in result.pages):
        return replace(result, pages=(), scanned=(), gaps=[Gap(None, _EMPTY)])
    return result
