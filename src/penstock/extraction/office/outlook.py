"""Mail of Outlook (MSG): reads subject, people, date, text and attachments from the streams of the compound file.

A message whose only body is packed RTF is read by kreuzberg.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from penstock.errors import Encrypted
from penstock.extraction.office.compound import MSG, CompoundFile
from penstock.extraction.result import ExtractedDocument, Gap, PageBuilder, TextAllowance, one_line
from penstock.extraction.text_formats.encoding import decode
from penstock.extraction.text_formats.web import declared_charset, write_html

# Ids of properties; a stream is named by its id and its type (001f Unicode, 001e bytes of a code page).
_SUBJECT, _BODY, _HTML, _SENDER, _ADDRESS, _TO, _CC = "0037", "1000", "1013", "0c1a", "5d01", "0e04", "0e03"
_LONG_NAME, _SHORT_NAME, _SHOWN_NAME, _CONTENT = "3707", "3704", "3001", "3701"


def read_outlook(file: BinaryIO, arguments: Mapping[str, Any]) -> ExtractedDocument:
    tree = CompoundFile(file)
    draft = PageBuilder(TextAllowance(arguments))
    sender = " ".join(filter(None, [text(tree, _SENDER), f"<{address}>" if (address := text(tree, _ADDRESS)) else ""]))
    facts = {
        "subject": text(tree, _SUBJECT),
        "from": sender,
        "to": text(tree, _TO),
        "cc": text(tree, _CC),
        "date": sent_at(tree),
    }
    facts = {name: one_line(value) for name, value in facts.items() if value.strip()}
    for name, value in facts.items():
        draft.line(f"{name.capitalize()}: {value}")
    before = draft.size
    _write_body(tree, file, draft)
    members = len(tree.folders("__attach_version1.0_"))
    if draft.size == before and any(_is_sealed(name, content) for name, content in attachments(file)):
        raise Encrypted("encrypted: the message can be read only with the key of its recipient")
    reason = "the message has no text, only attachments" if members else "the message has no text"
    facts = {name: value[:1000] for name, value in facts.items()} | {"members": str(members)}
    page = draft.page(1)
    gaps = [] if draft.size > before else [Gap(None, reason)]
    return ExtractedDocument(MSG, [page] if page.text else [], title=facts.get("subject", ""), facts=facts, gaps=gaps)


def _write_body(tree: CompoundFile, file: BinaryIO, draft: PageBuilder) -> None:
    """Write the plain text, else the HTML, else the packed RTF as kreuzberg reads it."""
    plain = text(tree, _BODY)
    if plain.strip():
        draft.paragraph(plain)
        return
    raw = tree.read(f"__substg1.0_{_HTML}0102") or tree.read(f"__substg1.0_{_HTML}001e")
    page = text(tree, _HTML) if not raw else decode(raw, declared_charset(raw))
    if page.strip():
        write_html(page, draft)
        return
    from penstock.extraction.office.reader import paragraphs

    for paragraph in paragraphs(file, MSG):
        draft.paragraph(paragraph)


def text(tree: CompoundFile, number: str, folder: str = "") -> str:
    """A property as text, in Unicode or in the bytes of some code page."""
    wide = tree.read(f"{folder}__substg1.0_{number}001f")
    if wide:
        return wide.decode("utf-16-le", "replace").rstrip("\0")
    narrow = tree.read(f"{folder}__substg1.0_{number}001e").rstrip(b"\0")
    return decode(narrow, code_page(tree)) if narrow else ""


def code_page(tree: CompoundFile) -> str:
    number = _fixed(tree, 0x3FFD0003) or _fixed(tree, 0x3FDE0003)
    return {65001: "utf-8", 28591: "latin-1", 20127: "ascii", 0: ""}.get(
        number & 0xFFFFFFFF, f"cp{number & 0xFFFFFFFF}"
    )


def sent_at(tree: CompoundFile) -> str:
    ticks = _fixed(tree, 0x00390040) or _fixed(tree, 0x0E060040)  # of 100 ns, since 1601
    try:
        sent = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10)
    except OverflowError:
        return ""
    return sent.isoformat(timespec="seconds") if ticks else ""


def _fixed(tree: CompoundFile, tag: int) -> int:
    """A property of fixed size: a record of 16 bytes in a stream with all of them."""
    properties = tree.read("__properties_version1.0", 1_000_000)
    for at in range(32, len(properties) - 15, 16):
        if int.from_bytes(properties[at : at + 4], "little") == tag:
            return int.from_bytes(properties[at + 8 : at + 16], "little")
    return 0


def attachments(file: BinaryIO) -> Iterator[tuple[str, bytes | None]]:
    """Names and bytes of all attachments; None for an object of another program that is not a file."""
    tree = CompoundFile(file)
    for number, folder in enumerate(tree.folders("__attach_version1.0_"), 1):
        inside = folder + "/"
        name = text(tree, _LONG_NAME, inside) or text(tree, _SHORT_NAME, inside) or text(tree, _SHOWN_NAME, inside)
        path = f"{inside}__substg1.0_{_CONTENT}0102"
        yield name or f"attachment {number}", tree.read(path) if path in tree else None


def _is_sealed(name: str, content: bytes | None) -> bool:
    return (
        name.lower().endswith((".pgp-encrypted", ".p7m")) or b"-----BEGIN PGP MESSAGE-----" in (content or b"")[:1000]
    )
