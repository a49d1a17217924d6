"""Mail (EML): subject, people and date as the first lines, then the text; attachments become documents (archive.py).

The standard library's older interface is used: it accepts every header, where the newer one raises for broken ones.
"""

import email.errors
import email.header
import email.message
import email.parser
import email.policy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from penstock.errors import Encrypted, Suspicious
from penstock.extraction.result import ExtractedDocument, Gap, PageBuilder, TextAllowance, one_line
from penstock.extraction.text_formats.encoding import decode
from penstock.extraction.text_formats.text import MAIL
from penstock.extraction.text_formats.web import declared_charset, write_html

Message: TypeAlias = "email.message.Message[str, str]"
_DEEPEST = 50
_SMALL_IMAGE = 16_384  # bytes: a smaller inline image is a logo or an emoji
_LONGEST_FIELD = 20_000  # characters: the time to decode grows with their square
_FIELDS = ("Subject", "From", "To", "Cc", "Date")
_ENDINGS = {
    "text/html": ".html", "text/plain": ".txt", "text/calendar": ".ics", "text/csv": ".csv", "message/rfc822": ".eml",
    "application/pdf": ".pdf", "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MailParts:
    """The parts of a mail: texts that are shown, and attachments."""

    texts: list[Message]
    attached: list[Message]


def read_mail(file: BinaryIO, arguments: Mapping[str, Any]) -> ExtractedDocument:
    message = parse(file)
    _refuse_encrypted(message)
    parts = dissect(message)
    draft = PageBuilder(TextAllowance(arguments))
    facts = {name.lower(): value for name in _FIELDS if (value := header(message, name))}
    for name, value in facts.items():
        draft.line(f"{name.capitalize()}: {value}")
    before = draft.size
    for part in parts.texts:
        write_part(part, draft)
    reason = "the message has no text, only attachments" if parts.attached else "the message has no text"
    gaps = [] if draft.size > before else [Gap(None, reason)]
    facts = {name: value[:1000] for name, value in facts.items()} | {"members": str(len(parts.attached))}
    page = draft.page(1)
    return ExtractedDocument(MAIL, [page] if page.text else [], title=facts.get("subject", ""), facts=facts, gaps=gaps)


def parse(file: BinaryIO) -> Message:
    file.seek(0)
    try:
        return email.parser.BytesParser(policy=email.policy.compat32).parse(file)
    except RecursionError as error:
        raise Suspicious("The mail nests more mails into each other than any mail program does.") from error


def dissect(message: Message) -> MailParts:
    """The texts to show, one of each group of alternatives, and the attachments, in order."""
    parts = MailParts([], [])
    _dissect(message, parts, 0)
    return parts


def _dissect(part: Message, parts: MailParts, depth: int) -> None:
    if depth > _DEEPEST:
        raise Suspicious(f"The mail nests more than {_DEEPEST} parts into each other.")
    kind = part.get_content_type()
    children = part.get_payload() if part.is_multipart() else None
    if kind == "message/rfc822" and depth:
        parts.attached.append(part)
    elif isinstance(children, list):
        found = [MailParts([], []) for _ in children]
        for child, own in zip(children, found, strict=True):
            if isinstance(child, email.message.Message):
                _dissect(child, own, depth + 1)
        texts = [own.texts for own in found]
        parts.texts.extend(
            _choose(texts) if kind == "multipart/alternative" else [text for own in texts for text in own]
        )
        parts.attached.extend(attached for own in found for attached in own.attached)
    elif kind in ("text/plain", "text/html") and not _is_attached(part):
        parts.texts.append(part)
    elif not _is_decoration(part, kind):
        parts.attached.append(part)


def _choose(choices: list[list[Message]]) -> list[Message]:
    """The plainest of several alternatives that is not blank."""
    spoken = [texts for texts in choices if any(content(text).strip() for text in texts)]
    plain = [texts for texts in spoken if all(text.get_content_type() == "text/plain" for text in texts)]
    return (plain or spoken or [[]])[0]


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or bool(filename(part))


def _is_decoration(part: Message, kind: str) -> bool:
    if kind in ("message/delivery-status", "text/rfc822-headers", "application/pgp-signature", "application/pkcs7-signature",
                "application/x-pkcs7-signature"):  # fmt: skip
        return True
    inline = part.get_content_disposition() != "attachment" and part.get("Content-ID") is not None
    return inline and kind.startswith("image/") and len(content(part)) < _SMALL_IMAGE


def write_part(part: Message, draft: PageBuilder) -> None:
    raw = content(part)
    charset = str(part.get_content_charset() or "")
    if part.get_content_type() == "text/html":
        write_html(decode(raw, charset or declared_charset(raw)), draft)
    else:
        draft.paragraph(decode(raw, charset))


def content(part: Message) -> bytes:
    """The bytes of a part, its transfer encoding decoded as far as possible."""
    try:
        raw = part.get_payload(decode=True)
    except (ValueError, LookupError, AssertionError):
        raw = None
    return raw if isinstance(raw, bytes) else b""


def header(message: Message, name: str) -> str:
    value = message.get(name)
    if value is None:
        return ""
    try:
        pieces = email.header.decode_header(str(value)[:_LONGEST_FIELD])
    except (email.errors.HeaderParseError, ValueError, LookupError):
        return one_line(str(value)[:_LONGEST_FIELD])
    text = "".join(
        piece if isinstance(piece, str) else decode(piece, charset if charset != "unknown-8bit" and charset else "")
        for piece, charset in pieces
    )
    return one_line(text)


def filename(part: Message) -> str:
    try:
        name = part.get_filename()
    except (ValueError, LookupError, TypeError, AttributeError):
        name = None
    if not name:
        return ""
    return "".join(
        piece if isinstance(piece, str) else decode(piece, charset or "")
        for piece, charset in email.header.decode_header(name[:1000])
    )


def attachments(message: Message) -> Iterator[tuple[str, bytes]]:
    for number, part in enumerate(dissect(message).attached, 1):
        kind = part.get_content_type()
        if kind == "message/rfc822":
            inner = part.get_payload() if part.is_multipart() else None
            mail = (
                inner[0] if isinstance(inner, list) and inner and isinstance(inner[0], email.message.Message) else part
            )
            title = filename(part) or header(mail, "Subject") or f"message {number}"
            yield title if title.lower().endswith(".eml") else f"{title}.eml", mail.as_bytes()
        else:
            yield filename(part) or f"attachment {number}{_ENDINGS.get(kind, '')}", content(part)


def _refuse_encrypted(message: Message) -> None:
    kind = message.get_content_type()
    sealed = (
        kind in ("application/pkcs7-mime", "application/x-pkcs7-mime")
        and message.get_param("smime-type") != "signed-data"
    )
    if kind == "multipart/encrypted" or sealed:
        raise Encrypted("encrypted: the message can be read only with the key of its recipient")
