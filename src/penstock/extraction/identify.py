"""Which format a file has, by its content.

The name is only a hint between formats that are all plain text (a Markdown file is a text file). What is recognised as
something that nobody reads, as encrypted, or as empty ends here, with a sentence that says what it is.
"""

from typing import BinaryIO

from penstock.errors import Encrypted, NothingInside, Unsupported
from penstock.extraction import signature
from penstock.extraction.office import compound
from penstock.extraction.office.oldoffice import identify_compound
from penstock.extraction.office.package import LOCKED, open_zip
from penstock.extraction.office.parts import identify_zip
from penstock.extraction.plain.encoding import decode, wide_encoding
from penstock.extraction.plain.textkind import identify_text

SAMPLE = 65_536


def identify(file: BinaryIO, name: str) -> str:
    """The media type; the file is left at its beginning."""
    try:
        return _identify(file, name)
    finally:
        file.seek(0)


def _identify(file: BinaryIO, name: str) -> str:
    size = file.seek(0, 2)
    if size == 0:
        raise NothingInside("The file is empty: it has 0 bytes.")
    file.seek(max(0, size - SAMPLE))
    tail = file.read(SAMPLE)
    file.seek(0)
    head = file.read(SAMPLE)
    if head.startswith(compound.MAGIC):
        return identify_compound(file)
    if head.startswith((b"PK\3\4", b"PK\5\6", b"PK\7\x08")):
        return identify_zip(open_zip(file))
    words = signature.refusal(head)
    if words:
        raise Unsupported(f"This is {words}{'' if ';' in words else ', not a document'}.")
    known = signature.known_type(head, tail)
    if known:
        return known
    if is_text(head):
        return _text(head, tail, name)
    if b"PK\5\6" in tail:  # a zip archive behind something else, as self-extracting ones are
        return identify_zip(open_zip(file))
    if not any(head) and not any(tail):
        raise Unsupported("The file holds only zero bytes: it was not written to its end, or not sent whole.")
    raise Unsupported("Its format is not known: it is neither text nor a kind of document that can be read here.")


def is_text(sample: bytes) -> bool:
    """No zeros and hardly any control characters, or UTF-16 or UTF-32."""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff", b"\xef\xbb\xbf")) or wide_encoding(sample):
        return True
    controls = sum(sample.count(byte) for byte in (*range(9), *range(14, 27), *range(28, 32), 127))
    return controls <= max(len(sample) * 0.005, min(4, len(sample) * 0.05))  # a few in a short text


def _text(head: bytes, tail: bytes, name: str) -> str:
    text = decode(head)
    if text.lstrip().startswith("-----BEGIN PGP MESSAGE-----"):
        raise Encrypted(LOCKED)
    return identify_text(text, decode(tail[-256:]), name)
