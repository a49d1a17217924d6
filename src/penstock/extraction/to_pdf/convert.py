"""The task "convert": makes a PDF of any document, and reports what was lost as gaps.

The PDF is sent as the single part `converted.pdf`. A PDF stays as it is, unless it has to be repaired; images become pages;
Office files are drawn by LibreOffice where it is installed; of any other format the text is typeset.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, BinaryIO

from penstock.errors import Corrupt, Unsupported
from penstock.extraction.dispatch import READERS, read_document
from penstock.extraction.identify import GZIP, PDF, TAR, identify
from penstock.extraction.office import libreoffice, outlook
from penstock.extraction.office.compound import MSG
from penstock.extraction.office.package import DOCX, EPUB, ODG, ODP, ODS, ODT, PPTX, VSDX, XLSB, XLSX, ZIP, Package
from penstock.extraction.result import Gap, clean, whole
from penstock.extraction.sandbox.protocol import Reply
from penstock.extraction.text_formats import mail
from penstock.extraction.text_formats.encoding import decode
from penstock.extraction.text_formats.text import MAIL, MARKDOWN, MBOX
from penstock.extraction.to_pdf.pdf_writer import PdfFile, pieces_of, scratch_file
from penstock.extraction.to_pdf.sanitize import check_pdf, name_missing

NAME = "converted.pdf"
_ARCHIVES = {ZIP, TAR, GZIP}
_TEXTS = {"text/plain", MARKDOWN}
_NOT_DRAWN = {EPUB, MSG}  # LibreOffice has no filter for them
_ZIPPED = {DOCX, XLSX, XLSB, PPTX, ODT, ODS, ODP, ODG, VSDX}


def convert(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Run the task "convert"."""
    media_type = identify(file, str(arguments.get("name", "")))
    if media_type in _ARCHIVES:
        raise Unsupported("An archive cannot be a part of a packet: send its files one by one.")
    if media_type == MBOX:
        raise Unsupported("A mailbox cannot be a part of a packet: send its mails one by one.")
    if media_type == PDF:
        return _send_pdf(file, media_type, "pdf", arguments, reply)
    if media_type == "image/svg+xml" or not media_type.startswith("image/"):
        return _send_office_or_text(file, media_type, arguments, reply)
    return _send_pictures(file, media_type, arguments, reply)


def _send_pdf(file: BinaryIO, media_type: str, how: str, arguments: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    with check_pdf(file, arguments) as checked:
        reply.part({"name": NAME}, pieces_of(checked.file))
        return _result(media_type, checked.pages, checked.gaps, how)


def _send_pictures(file: BinaryIO, media_type: str, arguments: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    from penstock.extraction.to_pdf.images import write_pictures

    with scratch_file() as target:
        written = PdfFile(target)
        gaps = write_pictures(file, media_type, written, arguments)
        written.finish()
        reply.part({"name": NAME}, pieces_of(target))
    return _result(media_type, len(written.kids), gaps, "image")


def _send_office_or_text(file: BinaryIO, media_type: str, arguments: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    gaps: list[Gap] = []
    module = READERS.get(media_type, ("", "", False))[0]
    if module.startswith("office.") and media_type not in _NOT_DRAWN:
        library = libreoffice.find_library()
        if library is None:
            gaps.append(Gap(None, "set as plain text: LibreOffice is not installed"))
        else:
            if media_type in _ZIPPED:
                Package(file, arguments).weigh()
            try:
                drawn = libreoffice.convert(library, file, str(arguments.get("name", "")))
                return _send_pdf(io.BytesIO(drawn), media_type, "office", arguments, reply)
            except Corrupt:
                gaps.append(Gap(None, "set as plain text: LibreOffice cannot convert it"))
    return _send_text(file, media_type, arguments, reply, gaps)


def _send_text(
    file: BinaryIO, media_type: str, arguments: Mapping[str, Any], reply: Reply, gaps: list[Gap]
) -> dict[str, Any]:
    from penstock.extraction.to_pdf.typeset import write_texts

    reading = read_document(file, {**arguments, "ocr": False})
    texts = list(_form_feeds(file, arguments)) if media_type in _TEXTS else [page.text for page in reading.pages]
    with scratch_file() as target:
        written = PdfFile(target)
        firsts = write_texts(texts or [""], written, arguments)
        written.finish()
        reply.part({"name": NAME}, pieces_of(target))
    numbers = {page.number: first for page, first in zip(reading.pages, firsts, strict=False)}
    gaps += [Gap(numbers.get(gap.page) if gap.page else None, gap.reason) for gap in reading.gaps]
    gaps += name_missing(list(_attached(file, media_type)), "attachment")
    return _result(media_type, len(written.kids), gaps, "text")


def _form_feeds(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[str]:
    """The pages of a text as a printer separates them; its reader treats form feeds as line ends."""
    for text in decode(whole(file, arguments)).split("\f"):
        tidy = clean(text).strip("\n")
        if tidy.strip():
            yield tidy


def _attached(file: BinaryIO, media_type: str) -> Iterator[str]:
    if media_type == MAIL:
        yield from (name for name, _ in mail.attachments(mail.parse(file)))
    elif media_type == MSG:
        yield from (name for name, _ in outlook.attachments(file))


def _result(media_type: str, pages: int, gaps: list[Gap], how: str) -> dict[str, Any]:
    return {"media_type": media_type, "pages": pages, "gaps": [asdict(gap) for gap in gaps], "how": how}
