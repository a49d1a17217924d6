"""What a file is, by its content; and the sentences for what nobody can read."""

import io
import struct

import pytest

from penstock.errors import Corrupt, Encrypted, NothingInside, Unsupported
from penstock.extraction.identify import identify
from tests.extraction import sample_files

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_MAIL = b"From: a@example.com\r\nTo: b@example.com\r\nSubject: Pumps\r\nDate: Mon, 1 Jan 2024 10:00:00 +0000\r\n\r\nHello\r\n"


def of(raw: bytes, name: str = "") -> str:
    file = io.BytesIO(raw)
    found = identify(file, name)
    assert file.tell() == 0
    return found


@pytest.mark.parametrize(
    ("raw", "name", "media_type"),
    [
        (b"%PDF-1.7\n1 0 obj\n<<>>", "x.txt", "application/pdf"),
        (b"junk\n%PDF-1.4\n1 0 obj\n", "", "application/pdf"),
        (b"About PDF: a file begins with %PDF-1.4 and then goes on.", "a.txt", "text/plain"),
        (b"\x89PNG\r\n\x1a\n....", "x.pdf", "image/png"),
        (b"\xff\xd8\xff\xe0....", "", "image/jpeg"),
        (b"II*\0....", "", "image/tiff"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "", "image/webp"),
        (b"GIF89a....", "", "image/gif"),
        (b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + bytes(40), "", "image/bmp"),
        (b"{\\rtf1 Hello}", "a.doc", "application/rtf"),
        (b"<!DOCTYPE html><html><body>Hi</body></html>", "a.txt", "text/html"),
        (b"<p>A fragment</p>", "", "text/html"),
        (b"Text first <b>then</b> <i>tags</i>", "a.html", "text/html"),
        (b'<?xml version="1.0"?><note>Hi</note>', "", "application/xml"),
        (b'<?xml version="1.0"?><!-- c --><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>', "", "text/html"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "", "image/svg+xml"),
        (_MAIL, "", "message/rfc822"),
        (b"From a@b Mon Jan  1 10:00:00 2024\n" + _MAIL, "", "application/mbox"),
        (b"Dear all,\nFrom: the beginning\nTo: the end\n", "a.txt", "text/plain"),
        (b'{"a": [1, 2]}', "", "application/json"),
        (b'{"a": 1}\n{"a": 2}\n', "", "application/x-ndjson"),
        (b'{"cells": [], "nbformat": 4}', "", "application/x-ipynb+json"),
        (b"[note] this is no JSON [/note]", "", "text/plain"),
        (b"a,b,c\n1,2,3\n", "x.csv", "text/csv"),
        (b"a\tb\tc\n" * 8, "", "text/tab-separated-values"),
        (b"a;b;c\n" * 8, "", "text/csv"),
        (b"# One\n\ntext\n\n## Two\n\n- item\n", "", "text/markdown"),
        (b"<div>HTML in Markdown</div>\n\n# Title", "README.md", "text/markdown"),
        ("Straße".encode("utf-16"), "", "text/plain"),
        ("plain words, wide".encode("utf-16-le"), "", "text/plain"),
        ("schön".encode("cp1252"), "a.txt", "text/plain"),
        (b"MZ is the mark of Windows programs.", "a.txt", "text/plain"),
        (b"ID3 tags are explained here.", "a.txt", "text/plain"),
        (b"\x1f\x8b\x08\0....", "", "application/gzip"),
        (sample_files.zipped({"a.txt": "x"}), "a.docx", "application/zip"),
        (sample_files.docx(sample_files.paragraph("x")), "a.zip", _DOCX),
        (sample_files.xlsx(("S", [["a"]])), "", _XLSX),
        (sample_files.pptx(sample_files.shape("x")), "", _PPTX),
        (sample_files.odf("presentation", ""), "", "application/vnd.oasis.opendocument.presentation"),
        (
            sample_files.zipped({"mimetype": "application/epub+zip", "META-INF/container.xml": "<c/>"}),
            "",
            "application/epub+zip",
        ),
        (sample_files.compound({"WordDocument": bytes(64)}), "", "application/msword"),
        (sample_files.compound({"Workbook": bytes(64)}), "", "application/vnd.ms-excel"),
        (sample_files.compound({"PowerPoint Document": bytes(64)}), "", "application/vnd.ms-powerpoint"),
        (sample_files.compound({"__properties_version1.0": bytes(64)}), "", "application/vnd.ms-outlook"),
        (sample_files.compound({"VisioDocument": bytes(64)}), "", "application/vnd.visio"),
    ],
)
def test_it_is_known_by_its_content(raw: bytes, name: str, media_type: str) -> None:
    assert of(raw, name) == media_type


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"MZ\x90\0\x03\0\0\0" + bytes(200), "a Windows program, not a document"),
        (b"\x7fELF\x02\x01\x01\0" + bytes(200), "a Linux program, not a document"),
        (b"\xcf\xfa\xed\xfe\x07\0\0\x01", "a macOS program"),
        (b"ID3\x03\0\0\0\0\0\0", "a sound recording"),
        (b"\0\0\0\x20ftypisom\0\0\0\0", "a video"),
        (b"\0\0\0\x20ftypheic\0\0\0\0", "PNG or JPEG"),
        (b"wOF2\0\1\0\0", "a font"),
        (b"SQLite format 3\0\x10\0", "an SQLite database"),
        (b"7z\xbc\xaf\x27\x1c\0\4", "unpack it"),
        (sample_files.zipped({"META-INF/MANIFEST.MF": "x", "a/B.class": b"\xca\xfe\xba\xbe"}), "a Java program"),
        (sample_files.zipped({"AndroidManifest.xml": b"\3\0"}), "an Android program"),
        (sample_files.compound({"Catalog": b"x" * 64}), "Thumbs.db"),
        (bytes(5_000), "only zero bytes"),
        (bytes(range(256)) * 20, "unknown"),
    ],
)
def test_what_nobody_reads_is_named(raw: bytes, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        of(raw, "report.docx")


def test_an_empty_file_is_nothing() -> None:
    with pytest.raises(NothingInside, match="0 bytes"):
        of(b"", "report.pdf")


def _current_user(mark: int) -> bytes:
    return struct.pack("<IIII", 0, 20, 0x14, mark) + bytes(16)


@pytest.mark.parametrize(
    "raw",
    [
        sample_files.compound({"EncryptionInfo": b"x" * 64, "EncryptedPackage": b"x" * 64}),
        sample_files.compound({"WordDocument": bytes(10) + b"\0\x01" + bytes(60)}),
        sample_files.compound({"Workbook": struct.pack("<HH6xHH", 0x809, 6, 0x2F, 4) + bytes(60)}),
        sample_files.compound({"PowerPoint Document": bytes(64), "Current User": _current_user(0xF3D1C4DF)}),
        sample_files.odf(
            "text", "", '<manifest:file-entry><manifest:encryption-data manifest:checksum="x"/></manifest:file-entry>'
        ),
        b"-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n",
    ],
)
def test_a_password_is_needed(raw: bytes) -> None:
    with pytest.raises(Encrypted, match="encrypted: a password is needed"):
        of(raw)


@pytest.mark.parametrize(
    "raw",
    [
        sample_files.compound({"\tDRMContent": b"x" * 64, "WordDocument": bytes(64)}),
        sample_files.zipped(
            {
                "mimetype": "application/epub+zip",
                "META-INF/encryption.xml": '<EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/>',
            }
        ),
    ],
)
def test_a_lock_of_a_shop_is_named(raw: bytes) -> None:
    with pytest.raises(Encrypted, match="rights management"):
        of(raw)


def test_a_packing_that_is_not_known_is_no_lock() -> None:
    """The standard library raises the same for both."""
    raw = bytearray(sample_files.zipped({"[Content_Types].xml": "<Types/>", "notes.txt": "water"}))
    for mark, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        start = -1
        while (start := raw.find(mark, start + 1)) >= 0:
            raw[start + place : start + place + 2] = (97).to_bytes(2, "little")
    assert of(bytes(raw), "notes.docx") == "application/zip"


def test_scrambled_fonts_are_no_lock() -> None:
    method = '<EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/>'
    assert (
        of(sample_files.zipped({"mimetype": "application/epub+zip", "META-INF/encryption.xml": method}))
        == "application/epub+zip"
    )


def test_unlocked_old_files_are_not_encrypted() -> None:
    slides = sample_files.compound({"PowerPoint Document": bytes(64), "Current User": _current_user(0xE391C05F)})
    assert of(slides) == "application/vnd.ms-powerpoint"


@pytest.mark.parametrize("cut", [40, 600])
def test_a_zip_archive_that_was_cut_off_is_damaged(cut: int) -> None:
    with pytest.raises(Corrupt, match="cut off"):
        of(sample_files.docx(sample_files.paragraph("x" * 900))[:cut])


def test_the_strongest_mark_wins_in_a_polyglot() -> None:
    archive = sample_files.zipped({"a.txt": "x"})
    assert of(b"GIF89a" + bytes(20) + archive) == "image/gif"
    assert of(bytes(range(32)) * 40 + archive) == "application/zip"
    with pytest.raises(Unsupported, match="Windows program"):
        of(b"MZ" + bytes(200) + archive)


@pytest.mark.parametrize("loop", [0, 1, 5])
def test_a_loop_of_sectors_ends(loop: int) -> None:
    raw = bytearray(sample_files.compound({"WordDocument": b"x" * 5_000}))
    struct.pack_into("<I", raw, 512 + 4 * 3, loop)  # the third sector is followed by an earlier one
    assert of(bytes(raw)) == "application/msword"
