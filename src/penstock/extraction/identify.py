"""Identifies the format of a file by its content, whatever its name says.

`identify` returns a media type or raises `Unsupported` with the reason. `known_type` names the formats that the first bytes
prove; `refusal` names those that are recognised but cannot be read. The type of a zip archive, an OLE2 file and a text follows
from their content (office/package.py, office/compound.py, text_formats/text.py).
"""

import re
from typing import BinaryIO

from penstock.errors import Encrypted, NothingInside, Unsupported
from penstock.extraction.office import compound
from penstock.extraction.office.compound import identify_compound
from penstock.extraction.office.package import LOCKED, identify_zip, open_zip
from penstock.extraction.text_formats.encoding import decode, wide_encoding
from penstock.extraction.text_formats.text import identify_text

PDF = "application/pdf"
RTF = "application/rtf"
GZIP = "application/gzip"
TAR = "application/x-tar"

SAMPLE = 65_536  # bytes at both ends that are examined
_READABLE = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"II+\0", "image/tiff"),
    (0, b"MM\0+", "image/tiff"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"{\\rtf", RTF),
    (0, b"\x1f\x8b\x08", GZIP),
    (257, b"ustar", TAR),
)

_SOUND, _FILM, _FONT = "a sound recording", "a video", "a font"
_UNREADABLE = (
    (0, b"\x7fELF", "a Linux program"),
    (0, b"\xfe\xed\xfa\xce", "a macOS program"),
    (0, b"\xfe\xed\xfa\xcf", "a macOS program"),
    (0, b"\xce\xfa\xed\xfe", "a macOS program"),
    (0, b"\xcf\xfa\xed\xfe", "a macOS program"),
    (0, b"\xca\xfe\xba\xbe", "a compiled program (Java or macOS)"),
    (0, b"\0asm", "a WebAssembly program"),
    (0, b"dex\n03", "an Android program"),
    (0, b"L\0\0\0\x01\x14\x02\0", "a Windows shortcut"),
    (0, b"ID3", _SOUND),
    (0, b"fLaC", _SOUND),
    (0, b"OggS", _SOUND),
    (0, b"MThd", "a MIDI file"),
    (0, b"FORM", "a sound recording or an old Amiga file"),
    (0, b"\x1aE\xdf\xa3", _FILM),
    (0, b"FLV\x01", _FILM),
    (0, b"\0\0\x01\xba", _FILM),
    (0, b"\0\0\x01\xb3", _FILM),
    (0, b"0&\xb2u\x8ef\xcf\x11", "a Windows Media file"),
    (0, b"wOFF", _FONT),
    (0, b"wOF2", _FONT),
    (0, b"OTTO", _FONT),
    (0, b"\0\1\0\0\0", _FONT),
    (0, b"ttcf", _FONT),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (4, b"Standard Jet DB", "an Access database"),
    (4, b"Standard ACE DB", "an Access database"),
    (0, b"PAR1", "a Parquet table"),
    (0, b"!BDN", "an Outlook mailbox (PST): export its messages as EML or MSG"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: unpack it and add its files"),
    (0, b"Rar!\x1a\x07", "a RAR archive: unpack it and add its files"),
    (0, b"BZh", "a bzip2 archive: unpack it and add its files"),
    (0, b"\xfd7zXZ\0", "an xz archive: unpack it and add its files"),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive: unpack it and add its files"),
    (0, b"MSCF", "a Windows cabinet archive: unpack it and add its files"),
    (0, b"!<arch>\n", "a package or a library of programs"),
    (0, b"\xed\xab\xee\xdb", "an RPM package"),
    (0x8001, b"CD001", "a disk image"),
    (0, b"8BPS", "a Photoshop drawing: export it as PDF or PNG"),
    (0, b"AC10", "an AutoCAD drawing: export it as PDF"),
    (0, b"AT&TFORM", "a DjVu document: convert it to PDF"),
    (0, b"\0\0\1\0", "an icon"),
    (0, b"gimp xcf", "a GIMP drawing: export it as PDF or PNG"),
    (0, b"\xff\x0a", "a JPEG XL image: convert it to PNG or JPEG"),
    (0, b"ITSF", "a Windows help file (CHM): convert it to HTML"),
    (60, b"BOOKMOBI", "a Kindle book: convert it to EPUB"),
    (60, b"TEXtREAd", "a Palm book: convert it to EPUB"),
    (0, b"-----BEGIN PGP MESSAGE-----", ""),  # refused by `identify` as encrypted
)
_CONVERTIBLE = (
    (0, b"\xffWPC", "application/vnd.wordperfect"),
    (0, b"\xdb\xa5", "application/x-word-2"),
    (0, b"\x31\xbe\0\0", "application/x-mswrite"),
    (0, b"\x32\xbe\0\0", "application/x-mswrite"),
)
_PDF_HEADER = re.compile(rb"%PDF-\d")
_PDF_SIGNS = (b"startxref", b" obj", b"/Type", b"endobj", b"trailer")


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
    words = refusal(head)
    if words:
        raise Unsupported(f"This is {words}{'' if ':' in words else ', not a document'}.")
    known = known_type(head, tail)
    if known:
        return known
    if is_text(head):
        return _text(head, tail, name)
    if b"PK\5\6" in tail:  # a zip archive after something else, as in self-extracting ones
        return identify_zip(open_zip(file))
    if not any(head) and not any(tail):
        raise Unsupported("The file has only zero bytes: it was not written or sent completely.")
    raise Unsupported("The format of the file is unknown: it is neither text nor a supported kind of document.")


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


def known_type(head: bytes, tail: bytes) -> str:
    """The media type that the first bytes prove, or an empty text."""
    for at, magic, media_type in (*_READABLE, *_CONVERTIBLE):
        if head[at : at + len(magic)] == magic:
            return media_type
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    if head.startswith(b"BM") and len(head) > 26 and head[6:10] == b"\0\0\0\0" and head[14:18][1:] == b"\0\0\0":
        return "image/bmp"
    return _pdf(head, tail)


def _pdf(head: bytes, tail: bytes) -> str:
    """Readers take a header within the first kilobyte; a text that only talks about PDF has none of the rest."""
    found = _PDF_HEADER.search(head[:1100])
    if found and (found.start() == 0 or any(sign in head or sign in tail for sign in _PDF_SIGNS)):
        return PDF
    return ""


def refusal(head: bytes) -> str:
    """The name of a format that cannot be read, such as "a Windows program", or an empty text."""
    for at, magic, words in _UNREADABLE:
        if words and head[at : at + len(magic)] == magic and _is_binary(head):
            return words
    if head.startswith(b"MZ") and b"\0" in head[:64]:
        return "a Windows program"
    if head.startswith(b"RIFF") and head[8:12] in {b"WAVE", b"AVI "}:
        return _SOUND if head[8:12] == b"WAVE" else _FILM
    if head[4:8] == b"ftyp":
        return "a HEIF or AVIF image: convert it to PNG or JPEG" if _still(head) else _FILM
    if head[:2] in {b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xf1", b"\xff\xf9"} and _is_binary(head):
        return _SOUND
    return ""


def _still(head: bytes) -> bool:
    return head[8:12] in {b"heic", b"heix", b"hevc", b"mif1", b"msf1", b"avif", b"avis"}


def _is_binary(head: bytes) -> bool:
    """Words like FORM or ID3 may begin a text, too."""
    return any(byte < 9 or 13 < byte < 32 for byte in head[:4096])
