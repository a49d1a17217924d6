"""What a zip archive is: an Office or OpenDocument file, a book, a program, or just an archive."""

import re
import zipfile

from penstock.errors import Encrypted, Unsupported
from penstock.extraction import signature
from penstock.extraction.office.package import BROKEN, LOCKED

_OOXML = "application/vnd.openxmlformats-officedocument."
DOCX = _OOXML + "wordprocessingml.document"
XLSX = _OOXML + "spreadsheetml.sheet"
PPTX = _OOXML + "presentationml.presentation"
XLSB = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
VSDX = "application/vnd.ms-visio.drawing"
_ODF = "application/vnd.oasis.opendocument."
ODT, ODS, ODP, ODG = _ODF + "text", _ODF + "spreadsheet", _ODF + "presentation", _ODF + "graphics"
EPUB = "application/epub+zip"
IWORK = "application/vnd.apple.iwork"
STAROFFICE = "application/vnd.sun.xml.writer"

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
# Parts that tell when the list of content types is broken or absent.
_TELLING = (("word/document.xml", DOCX), ("xl/workbook.xml", XLSX), ("ppt/presentation.xml", PPTX))
_SCRAMBLED_FONTS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")
_METHOD = re.compile(rb"""EncryptionMethod[^>]*Algorithm=["']([^"']+)""")


def identify_zip(archive: zipfile.ZipFile) -> str:
    names = set(archive.namelist())
    found = _by_mimetype(archive, names) or _by_content_types(archive, names) or _by_names(names)
    if found == EPUB:
        _refuse_protected_book(archive, names)
    if found.startswith(_ODF):
        _refuse_encrypted_parts(archive)
    return found or signature.ZIP


def _read(archive: zipfile.ZipFile, name: str, most: int = 1_000_000) -> bytes:
    """What cannot be unpacked says nothing; a packing that is not known is no lock, though both raise RuntimeError."""
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
    said = _read(archive, "mimetype", 200).decode("latin-1").strip().lower()
    for kind in (ODT, ODS, ODP, ODG):
        if said.startswith(kind):  # templates and masters, too
            return kind
    if said.startswith("application/vnd.sun.xml."):
        return STAROFFICE
    return EPUB if said == EPUB else ""


def _by_content_types(archive: zipfile.ZipFile, names: set[str]) -> str:
    types = next((name for name in names if name.lower() == "[content_types].xml"), "")
    if not types:
        return ""
    text = _read(archive, types).decode("utf-8", "replace").lower()
    for part, media_type in _MAIN_PARTS:
        if part in text:
            return media_type
    if "fixedrepresentation" in text:
        raise Unsupported("This is an XPS document, which cannot be read here. Print it to PDF.")
    return ""


def _by_names(names: set[str]) -> str:
    for part, media_type in _TELLING:
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
