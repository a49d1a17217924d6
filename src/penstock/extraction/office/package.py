"""Zip archives as containers of parts: DOCX, XLSX, PPTX, OpenDocument, EPUB, or a plain archive.

Nothing in an archive is trusted. Its directory may lie about the sizes of parts, so a caller weighs it before it gives the
file to a library that unpacks it: parts that overlap, expand beyond `limits.expansion`, or are longer than declared are
`Suspicious`. `identify_zip` names the format; `relations` lists the parts that a part of OOXML refers to.
"""

import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from penstock.errors import Corrupt, Encrypted, Suspicious, TooMuch, Unsupported
from penstock.extraction.office.xmltree import parse_xml

_OOXML = "application/vnd.openxmlformats-officedocument."
DOCX = _OOXML + "wordprocessingml.document"
XLSX = _OOXML + "spreadsheetml.sheet"
PPTX = _OOXML + "presentationml.presentation"
XLSB = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
VSDX = "application/vnd.ms-visio.drawing"
_ODF = "application/vnd.oasis.opendocument."
ODT, ODS, ODP, ODG = _ODF + "text", _ODF + "spreadsheet", _ODF + "presentation", _ODF + "graphics"
EPUB = "application/epub+zip"
ZIP = "application/zip"
IWORK = "application/vnd.apple.iwork"
STAROFFICE = "application/vnd.sun.xml.writer"

LOCKED = "encrypted: a password is needed"
HARMLESS = 64 * 2**20  # bytes: an archive that unpacks to no more is not a bomb, however well it was packed
_PIECE = 65_536
_LARGEST = 64 * 2**20  # bytes of a list of relations
_BEST_RATIO = 1_032  # of deflate
# Errors of the standard library for damaged archives; an unknown packing is a RuntimeError.
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError)


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    file.seek(0)
    try:
        return zipfile.ZipFile(file)
    except BROKEN as error:
        raise Corrupt(
            "damaged: its zip directory is missing or broken, perhaps because the file was cut off"
        ) from error


class Package:
    """Parts by name, each read within bounds."""

    def __init__(self, file: BinaryIO, arguments: Mapping[str, Any]) -> None:
        self._file = file
        self._zip = open_zip(file)
        self.size = file.seek(0, 2)
        limits = arguments.get("limits", {})
        self.expansion = int(limits.get("expansion", 200))
        self.allowed = max(HARMLESS, self.expansion * self.size)
        self.all = [
            entry for entry in self._zip.infolist() if not entry.filename.endswith("/")
        ]  # a name may be there twice
        self.entries = {entry.filename: entry for entry in self.all}
        self.names = list(self.entries)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def read(self, name: str, most: int | None = None) -> bytes:
        """The bytes of a part; an absent one is empty."""
        return b"".join(self.pieces(name, most)) if name in self.entries else b""

    def pieces(self, part: str | zipfile.ZipInfo, most: int | None = None) -> Iterator[bytes]:
        """A part in pieces; more than `most` bytes (or than the whole archive may expand to) are `TooMuch`."""
        bound = self.allowed if most is None else most
        entry = self.entries[part] if isinstance(part, str) else part
        name = entry.filename
        if entry.flag_bits & 1:
            raise Encrypted(LOCKED)
        read = 0
        try:
            with self._zip.open(entry) as unpacked:
                while piece := unpacked.read(_PIECE):
                    read += len(piece)
                    if read > bound:
                        raise TooMuch(f"The part {name[:100]!r} is larger than {bound:,} bytes when it is unpacked.")
                    yield piece
        except BROKEN as error:
            raise Corrupt(f"damaged: its part {name[:100]!r} cannot be unpacked") from error

    def weigh(self) -> None:
        """Refuse a bomb before a library unpacks the whole archive."""
        entries = self.all
        if any(entry.flag_bits & 1 for entry in entries):
            raise Encrypted(LOCKED)
        if sum(entry.compress_size for entry in entries) > self.size:
            raise Suspicious("a zip bomb: its parts overlap, so that the same bytes would be unpacked many times")
        self._refuse_above(sum(entry.file_size for entry in entries))
        if self.size * _BEST_RATIO > HARMLESS:
            self._refuse_above(sum(self._unpacked(entry) for entry in entries))

    def _refuse_above(self, unpacked: int) -> None:
        if unpacked > self.allowed:
            raise Suspicious(
                f"a zip bomb: {self.size:,} bytes would become {unpacked:,}, more than {self.expansion} times as much "
                "(limits.expansion)"
            )

    def _unpacked(self, entry: zipfile.ZipInfo) -> int:
        """The true size. Python's reader stops at the declared one, other libraries do not."""
        if entry.compress_type != zipfile.ZIP_DEFLATED:
            return entry.file_size
        self._file.seek(max(0, entry.header_offset))
        header = self._file.read(30)
        if not header.startswith(b"PK\3\4") or len(header) < 30:
            raise Corrupt("damaged: its zip directory points to the wrong places")
        self._file.seek(sum(struct.unpack("<HH", header[26:30])), 1)
        return _inflated(self._file, entry.compress_size, self.allowed)


def _inflated(file: BinaryIO, packed: int, most: int) -> int:
    inflate, total = zlib.decompressobj(-15), 0
    try:
        while packed > 0 and total <= most and not inflate.eof:
            piece = file.read(min(_PIECE, packed))
            if not piece:
                break
            packed -= len(piece)
            while piece and total <= most and not inflate.eof:
                total += len(inflate.decompress(piece, 2**20))
                piece = inflate.unconsumed_tail
    except zlib.error as error:
        raise Corrupt("damaged: one of its parts cannot be unpacked") from error
    return total


# -- formats ----------------------------------------------------------------------------------------------------------------

_MAIN_PARTS = (
    ("wordprocessingml.document.main+xml", DOCX),
    ("wordprocessingml.template.main+xml", DOCX),
    ("ms-word.document.macroenabled.main+xml", DOCX),
    ("ms-word.template.macroenabledtemplate.main+xml", DOCX),
    ("ms-excel.sheet.binary.macroenabled.main", XLSB),
    ("spreadsheetml.sheet.main+xml", XLSX),
    ("spreadsheetml.template.main+xml", XLSX),
    ("ms-excel.sheet.macroenabled.main+xml", XLSX),
    ("ms-excel.template.macroenabled.main+xml", XLSX),
    ("ms-excel.addin.macroenabled.main+xml", XLSX),
    ("presentationml.presentation.main+xml", PPTX),
    ("presentationml.slideshow.main+xml", PPTX),
    ("presentationml.template.main+xml", PPTX),
    ("ms-powerpoint.presentation.macroenabled.main+xml", PPTX),
    ("ms-powerpoint.slideshow.macroenabled.main+xml", PPTX),
    ("ms-visio.drawing", VSDX),
)
# Parts that identify a format when the list of content types is broken or absent.
_TYPICAL_PARTS = (("word/document.xml", DOCX), ("xl/workbook.xml", XLSX), ("ppt/presentation.xml", PPTX))
_SCRAMBLED_FONTS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")
_METHOD = re.compile(rb"""EncryptionMethod[^>]*Algorithm=["']([^"']+)""")


def identify_zip(archive: zipfile.ZipFile) -> str:
    names = set(archive.namelist())
    found = _by_mimetype(archive, names) or _by_content_types(archive, names) or _by_names(names)
    if found == EPUB:
        _refuse_protected_book(archive, names)
    if found.startswith(_ODF):
        _refuse_encrypted_parts(archive)
    return found or ZIP


def _read(archive: zipfile.ZipFile, name: str, most: int = 1_000_000) -> bytes:
    """Empty for a part that cannot be unpacked. RuntimeError is also raised for an unknown packing, so the flag decides."""
    try:
        if archive.getinfo(name).flag_bits & 1:
            raise Encrypted(LOCKED)
        with archive.open(name) as part:
            return part.read(most)
    except (KeyError, *BROKEN):
        return b""


def _by_mimetype(archive: zipfile.ZipFile, names: set[str]) -> str:
    if "mimetype" not in names:
        return ""
    mimetype = _read(archive, "mimetype", 200).decode("latin-1").strip().lower()
    for kind in (ODT, ODS, ODP, ODG):
        if mimetype.startswith(kind):  # templates and masters, too
            return kind
    if mimetype.startswith("application/vnd.sun.xml."):
        return STAROFFICE
    return EPUB if mimetype == EPUB else ""


def _by_content_types(archive: zipfile.ZipFile, names: set[str]) -> str:
    types = next((name for name in names if name.lower() == "[content_types].xml"), "")
    if not types:
        return ""
    text = _read(archive, types).decode("utf-8", "replace").lower()
    for part, media_type in _MAIN_PARTS:
        if part in text:
            return media_type
    if "fixedrepresentation" in text:
        raise Unsupported("This is an XPS document, which cannot be read here: print it to PDF.")
    return ""


def _by_names(names: set[str]) -> str:
    for part, media_type in _TYPICAL_PARTS:
        if part in names:
            return media_type
    if "META-INF/container.xml" in names:
        return EPUB
    if (
        "Index/Document.iwa" in names
        or "Index.zip" in names
        or ("index.apxl" in names or ("index.xml" in names and "buildVersionHistory.plist" in names))
    ):
        return IWORK
    if "AndroidManifest.xml" in names:
        raise Unsupported("This is an Android program, not a document.")
    if "META-INF/MANIFEST.MF" in names and any(name.endswith(".class") for name in names):
        raise Unsupported("This is a Java program, not a document.")
    return ""


def _refuse_protected_book(archive: zipfile.ZipFile, names: set[str]) -> None:
    """Scrambled fonts are harmless; any other encryption is a shop's lock."""
    methods = _METHOD.findall(_read(archive, "META-INF/encryption.xml")) if "META-INF/encryption.xml" in names else []
    if any(method not in _SCRAMBLED_FONTS for method in methods):
        raise Encrypted("encrypted: the book is protected by rights management (DRM), only its seller can open it")


def _refuse_encrypted_parts(archive: zipfile.ZipFile) -> None:
    if b"encryption-data" in _read(archive, "META-INF/manifest.xml"):
        raise Encrypted(LOCKED)


# -- relations --------------------------------------------------------------------------------------------------------------


class Relation(NamedTuple):
    """A reference from one part of a package to another."""

    id: str
    kind: str
    target: str


def relations(package: Package, part: str) -> Iterator[Relation]:
    """The relations of a part in the order of the file, without those that lead out of the package."""
    folder, name = posixpath.split(part)
    listed = f"{folder}/_rels/{name}.rels"
    if listed not in package:
        return
    for node in parse_xml(package.read(listed, _LARGEST), listed).elements():
        if node.attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join(folder, node.attributes.get("Target", "")))
            yield Relation(node.attributes.get("Id", ""), node.attributes.get("Type", ""), target.lstrip("/"))
