"""The task "convert": whatever the file is, it becomes a PDF, and what was lost on the way is said.

It is sent as the one part `converted.pdf`. A PDF stays as it is, unless it has to be repaired; images become pages; Office
files are drawn by LibreOffice where it is installed; of all else, the text is set on pages.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, BinaryIO

from penstock.errors import Corrupt, Unsupported
from penstock.extraction import signature
from penstock.extraction.draft import clean
from penstock.extraction.identify import identify
from penstock.extraction.office import libreoffice, oldoffice, outlook, parts
from penstock.extraction.office.package import Package
from penstock.extraction.paper.checked import check_pdf, name_missing
from penstock.extraction.paper.pdffile import PdfFile
from penstock.extraction.paper.scratch import Reply, pieces_of, scratch_file
from penstock.extraction.plain import mail, textkind
from penstock.extraction.plain.encoding import decode
from penstock.extraction.rawbytes import whole
from penstock.extraction.read import READERS, read_document
from penstock.extraction.reading import Gap

NAME = "converted.pdf"
_ARCHIVES = {signature.ZIP, signature.TAR, signature.GZIP}
_TEXTS = {"text/plain", textkind.MARKDOWN}
_NOT_DRAWN = {parts.EPUB, oldoffice.MSG}  # LibreOffice has no filter for them
_ZIPPED = {parts.DOCX, parts.XLSX, parts.XLSB, parts.PPTX, parts.ODT, parts.ODS, parts.ODP, parts.ODG, parts.VSDX}


def convert(file: BinaryIO, arguments: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """What a box runs for the task "convert"."""
    media_type = identify(file, str(arguments.get("name", "")))
    if media_type in _ARCHIVES:
        raise Unsupported("An archive cannot be a part of a packet: send its files one by one.")
    if media_type == textkind.MBOX:
        raise Unsupported("A mailbox cannot be a part of a packet: send its mails one by one.")
    if media_type == signature.PDF:
        return _send_pdf(file, arguments, reply)
    if media_type == "image/svg+xml" or not media_type.startswith("image/"):
        return _send_office_or_text(file, media_type, arguments, reply)
    return _send_pictures(file, media_type, arguments, reply)


def _send_pdf(file: BinaryIO, arguments: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    with check_pdf(file, arguments) as checked:
        reply.part({"name": NAME}, pieces_of(checked.file))
        return _told(signature.PDF, checked.pages, checked.gaps, "pdf")


def _send_pictures(file: BinaryIO, media_type: str, arguments: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    from penstock.extraction.paper.picture import write_pictures

    with scratch_file() as target:
        written = PdfFile(target)
        gaps = write_pictures(file, media_type, written, arguments)
        written.finish()
        reply.part({"name": NAME}, pieces_of(target))
    return _told(media_type, len(written.kids), gaps, "image")


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
                return _send_office(
                    libreoffice.convert(library, file, str(arguments.get("name", ""))), media_type, arguments, reply
                )
            except Corrupt:
                gaps.append(Gap(None, "set as plain text: LibreOffice cannot convert it"))
    return _send_text(file, media_type, arguments, reply, gaps)


def _send_office(drawn: bytes, media_type: str, arguments: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    with check_pdf(io.BytesIO(drawn), arguments) as checked:
        reply.part({"name": NAME}, pieces_of(checked.file))
        return _told(media_type, checked.pages, checked.gaps, "office")


def _send_text(
    file: BinaryIO, media_type: str, arguments: Mapping[str, Any], reply: Reply, gaps: list[Gap]
) -> dict[str, Any]:
    from penstock.extraction.paper.typeset import write_texts

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
    return _told(media_type, len(written.kids), gaps, "text")


def _form_feeds(file: BinaryIO, arguments: Mapping[str, Any]) -> Iterator[str]:
    """The pages of a text as a printer would see them; readers take them for mere lines."""
    for text in decode(whole(file, arguments)).split("\f"):
        tidy = clean(text).strip("\n")
        if tidy.strip():
            yield tidy


def _attached(file: BinaryIO, media_type: str) -> Iterator[str]:
    if media_type == textkind.MAIL:
        yield from (name for name, _ in mail.attachments(mail.parse(file)))
    elif media_type == oldoffice.MSG:
        yield from (name for name, _ in outlook.attachments(file))


def _told(media_type: str, pages: int, gaps: list[Gap], how: str) -> dict[str, Any]:
    return {"media_type": media_type, "pages": pages, "gaps": [asdict(gap) for gap in gaps], "how": how}
