"""Compound files: loops in their tables, claims, locks, and old Office formats with nothing sensible in them."""

import struct
from collections.abc import Iterator

from penstock.errors import Encrypted, Unreadable
from tests.hostile.compound_pieces import MAGIC, compound
from tests.hostile.file import File, either, failed
from tests.hostile.pdfs import noise

WORD = struct.pack("<4H", 0xA5EC, 0xC1, 0, 0x409) + bytes(5000)
LOCKED_WORD = WORD[:10] + b"\0\x01" + WORD[12:]  # fEncrypted
WORKBOOK = struct.pack("<4H", 0x809, 16, 0x600, 5) + bytes(12)
SECTORS_OF_TABLE, FIRST_OF_FOLDER, FIRST_OF_MORE, COUNT_OF_MORE = 44, 48, 68, 72


def files() -> Iterator[File]:
    yield from loops()
    yield from locks()
    yield from contents()


def loops() -> Iterator[File]:
    word = {"WordDocument": WORD}
    yield failed("ole-table-loop.doc", lambda: compound(word, links={4: 4}), Unreadable)
    yield failed("ole-folder-loop.doc", lambda: compound(word, links={1: 1}), Unreadable)
    yield failed(
        "ole-streams-share-sectors.doc", lambda: compound(word | {"1Table": WORD}, links={5: 3, 12: 3}), Unreadable
    )
    yield failed(
        "ole-table-of-four-billion-sectors.doc",
        lambda: compound(word, header={SECTORS_OF_TABLE: 2**32 - 1}),
        Unreadable,
    )
    yield failed(
        "ole-folder-beyond-the-end.doc", lambda: compound(word, header={FIRST_OF_FOLDER: 99_999_999}), Unreadable
    )
    yield failed(
        "ole-table-of-tables-loop.doc",
        lambda: compound(word, header={FIRST_OF_MORE: 3, COUNT_OF_MORE: 2**31}),
        Unreadable,
    )
    yield failed("ole-sectors-of-four-gigabytes.doc", lambda: compound(word, header={28: 0x0020FFFE}), Unreadable)
    yield failed(
        "ole-entry-is-its-own-neighbour.msg",
        lambda: _own_neighbour(compound({"__properties_version1.0": bytes(64)})),
        Unreadable,
    )
    yield failed("ole-only-a-header.xls", lambda: MAGIC + bytes(504), Unreadable)
    yield failed("ole-only-magic.ppt", lambda: MAGIC, Unreadable)


def _own_neighbour(file: bytes) -> bytes:
    at = file.index("__properties".encode("utf-16-le"))
    return file[: at + 68] + struct.pack("<3L", 1, 1, 0) + file[at + 80 :]


def locks() -> Iterator[File]:
    agile = b"\4\0\4\0\x40\0\0\0" + b'<?xml version="1.0"?><encryption><keyData/></encryption>'
    package = {"EncryptionInfo": agile, "EncryptedPackage": struct.pack("<Q", 4000) + noise(5000)}
    locked_book = WORKBOOK + struct.pack("<2H", 0x2F, 6) + bytes(6) + noise(4200)
    yield failed("docx-encrypted.docx", lambda: compound(package), Encrypted, says="password")
    yield failed(
        "doc-encrypted.doc",
        lambda: compound({"WordDocument": LOCKED_WORD, "1Table": noise(4200)}),
        Encrypted,
        says="password",
    )
    yield failed("xls-encrypted.xls", lambda: compound({"Workbook": locked_book}), Encrypted, says="password")


def contents() -> Iterator[File]:
    records = WORKBOOK + struct.pack("<2H", 0xFC, 8) + struct.pack("<2L", 2**32 - 1, 2**32 - 1)  # four billion strings
    slides = struct.pack("<2HL", 0x0F, 0x3E8, 2**32 - 1) * 500  # containers in containers, each of 4 GB
    pieces = WORD[:0x1A2] + struct.pack("<2L", 0, 2**32 - 1) + WORD[0x1AA:]
    yield failed("doc-of-noise.doc", lambda: compound({"WordDocument": noise(9000), "1Table": noise(5000)}), Unreadable)
    yield either("doc-of-zeros.doc", lambda: compound({"WordDocument": WORD, "0Table": bytes(5000)}))
    yield either("doc-pieces-of-four-gigabytes.doc", lambda: compound({"WordDocument": pieces, "0Table": bytes(5000)}))
    yield either("xls-four-billion-strings.xls", lambda: compound({"Workbook": records}))
    yield failed("xls-of-noise.xls", lambda: compound({"Workbook": noise(9000)}), Unreadable)
    yield either(
        "ppt-containers-in-containers.ppt", lambda: compound({"PowerPoint Document": slides, "Current User": bytes(50)})
    )
    yield either(
        "msg-of-noise.msg",
        lambda: compound({"__properties_version1.0": noise(5000), "__substg1.0_1000001F": noise(5000)}),
    )
    yield failed("ole-unknown-streams.bin", lambda: compound({"Secret": noise(5000)}), Unreadable)
    yield failed("ole-empty.doc", lambda: compound({}), Unreadable)
