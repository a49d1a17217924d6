"""What is inside an OLE2 compound file: Office of the years before 2007, and all that is encrypted since.

Each format says in its own place that it is encrypted: Word in a flag of its header, Excel in a FILEPASS record at the
beginning of the workbook, PowerPoint in the record that its `Current User` stream is about.
"""

import struct
from typing import BinaryIO

from penstock.errors import Encrypted, Unsupported
from penstock.extraction.office.compound import Compound
from penstock.extraction.office.package import LOCKED

DOC = "application/msword"
XLS = "application/vnd.ms-excel"
PPT = "application/vnd.ms-powerpoint"
MSG = "application/vnd.ms-outlook"
VISIO = "application/vnd.visio"
PUBLISHER = "application/x-mspublisher"
WORKS = "application/vnd.ms-works"
WORDPERFECT = "application/vnd.wordperfect"
HANGUL = "application/x-hwp"

_RIGHTS = "encrypted: it is protected by rights management (DRM), only its owner can remove that"


def identify_compound(file: BinaryIO) -> str:
    tree = Compound(file)
    refuse_protected(tree)
    found = _type_of(tree)
    if found:
        return found
    if any(name.startswith("䡀") for name in tree.streams):  # the packed names of an installer's tables
        raise Unsupported("This is a Windows installer, not a document.")
    if "catalog" in tree:
        raise Unsupported("This is a folder's thumbnail cache (Thumbs.db), not a document.")
    raise Unsupported("It is an old compound file (OLE2) of a program that is not known here.")


def _type_of(tree: Compound) -> str:
    for stream, media_type in (
        ("worddocument", DOC),
        ("workbook", XLS),
        ("book", XLS),
        ("powerpoint document", PPT),
        ("__properties_version1.0", MSG),
        ("visiodocument", VISIO),
        ("quill", PUBLISHER),
        ("perfectoffice_main", WORDPERFECT),
        ("matost", WORKS),
        ("spellingtable", WORKS),
        ("fileheader", HANGUL),
    ):
        if stream in tree:
            return media_type
    return ""


def refuse_protected(tree: Compound) -> None:
    if "\tdrmcontent" in tree or any("drmencrypted" in name for name in tree.streams):
        raise Encrypted(_RIGHTS)
    if "encryptedpackage" in tree or "encryptedsummary" in tree:
        raise Encrypted(LOCKED)
    if _word_locked(tree) or _workbook_locked(tree) or _slides_locked(tree):
        raise Encrypted(LOCKED)
    kind = tree.read("__substg1.0_001a001f", 400).decode("utf-16-le", "replace") or tree.read(
        "__substg1.0_001a001e", 200
    ).decode("latin-1")
    if kind.lower().startswith("ipm.note.smime") and "multipartsigned" not in kind.lower():
        raise Encrypted("encrypted: the message can be read only with the key of who received it (S/MIME)")


def _word_locked(tree: Compound) -> bool:
    header = tree.read("worddocument", 32)
    return len(header) >= 12 and bool(struct.unpack("<H", header[10:12])[0] & 0x0100)


def _workbook_locked(tree: Compound) -> bool:
    book = tree.read("workbook", 8192) or tree.read("book", 8192)
    at = 0
    while at + 4 <= len(book):
        record, length = struct.unpack("<HH", book[at : at + 4])
        if record == 0x2F:
            return True
        if record == 0x85:  # the first sheet is named behind all that FILEPASS may follow
            return False
        at += 4 + length
    return False


def _slides_locked(tree: Compound) -> bool:
    user = tree.read("current user", 20)
    return len(user) >= 16 and struct.unpack("<I", user[12:16])[0] == 0xF3D1C4DF
