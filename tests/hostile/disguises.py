"""Things under a wrong name: programs, recordings, databases, and files that are two things at once."""

import struct
import zlib
from collections.abc import Iterator

from penstock.errors import Suspicious, Unreadable, Unsupported
from tests.hostile.file import File, either, failed, ready
from tests.hostile.good import GOOD, WORDS
from tests.hostile.pdfs import noise

ELF = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<2HL3Q", 2, 62, 1, 0x400000, 64, 0) + bytes(500)
WINDOWS = b"MZ\x90\0\3\0\0\0\4\0\0\0\xff\xff\0\0" + bytes(44) + b"\x80\0\0\0" + bytes(64) + b"PE\0\0" + bytes(500)
PROGRAM = (Unsupported, Suspicious)


def files() -> Iterator[File]:
    yield from programs()
    yield from other_things()
    yield from wrong_extensions()
    yield from polyglots()


def programs() -> Iterator[File]:
    mac = b"\xcf\xfa\xed\xfe\7\0\0\1\3\0\0\0\2\0\0\0" + bytes(500)
    java = b"\xca\xfe\xba\xbe\0\0\0\x41" + bytes(range(200))
    python = b"\xa7\r\r\n" + bytes(12) + b"\xe3" + bytes(range(200))
    yield failed("linux-program.pdf", lambda: ELF, *PROGRAM, says="program")
    yield failed("linux-program.txt", lambda: ELF, *PROGRAM, says="program")
    yield failed("windows-program.docx", lambda: WINDOWS, *PROGRAM, says="program")
    yield failed("windows-program.jpg", lambda: WINDOWS, *PROGRAM, says="program")
    yield failed("macos-program.html", lambda: mac, *PROGRAM, says="program")
    yield failed("java-program.csv", lambda: java, *PROGRAM, says="program")
    yield failed("web-program.md", lambda: b"\0asm\1\0\0\0" + bytes(range(200)), *PROGRAM, says="program")
    yield failed("python-program.txt", lambda: python, *PROGRAM)
    yield ready(
        "shell-script.pdf", lambda: b"#!/bin/sh\n# open the gate of the penstock\nrm -rf --no-preserve-root /tmp/x\n"
    )
    yield ready("batch-file.docx", lambda: b"@echo off\r\nrem open the gate of the penstock\r\nformat x:\r\n")
    yield failed("shortcut.lnk", lambda: b"L\0\0\0\1\x14\2\0" + bytes(16) + noise(400), *PROGRAM)


def other_things() -> Iterator[File]:
    wave = (
        b"RIFF"
        + struct.pack("<L", 2036)
        + b"WAVEfmt "
        + struct.pack("<LHHLLHH", 16, 1, 1, 8000, 8000, 1, 8)
        + b"data"
        + noise(2000)
    )
    yield failed("font.pdf", lambda: b"\0\1\0\0\0\x0c\0\x80\0\3\0\x40" + noise(2000), Unsupported, says="font")
    yield failed("web-font.html", lambda: b"wOF2\0\1\0\0" + noise(2000), Unsupported, says="font")
    yield failed("recording.txt", lambda: wave, Unsupported, says="sound|recording|audio")
    yield failed("music.pdf", lambda: b"ID3\4\0\0\0\0\0\x0a" + bytes(10) + b"\xff\xfb\x90\0" + noise(2000), Unsupported)
    yield failed(
        "film.docx", lambda: b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + noise(2000), Unsupported, says="video|film"
    )
    yield failed(
        "database.xlsx", lambda: b"SQLite format 3\0\x10\0\1\1" + bytes(80) + noise(2000), Unsupported, says="database"
    )
    yield failed("noise.pdf", lambda: noise(100_000), Unreadable)
    yield failed("noise.docx", lambda: b"PK\3\4" + noise(50_000), Unreadable)
    yield failed("noise.png", lambda: b"\x89PNG\r\n\x1a\n" + noise(50_000), Unreadable)
    yield failed("noise.jpg", lambda: b"\xff\xd8\xff\xe0\0\x10JFIF\0" + noise(50_000), Unreadable)
    yield failed("noise-behind-a-pdf-header.pdf", lambda: b"%PDF-1.5\n" + noise(200_000), Unreadable)
    yield failed("noise", lambda: noise(3_000), Unreadable)
    yield failed("compressed.zlib", lambda: zlib.compress(noise(9_000)), Unreadable)
    yield failed("disk-image.iso", lambda: bytes(0x8001) + b"CD001\1" + bytes(5_000), Unreadable)


def wrong_extensions() -> Iterator[File]:
    """The content counts, not the name."""
    pairs = (
        "pdf docx", "pdf txt", "docx pdf", "docx zip", "xlsx csv", "png pdf", "jpg txt", "html docx", "html pdf", "eml pdf",
        "txt pdf", "txt png", "csv xlsx", "rtf doc", "html xls", "odt docx", "epub zip", "json pdf", "xml docx", "tif jpg",
        "zip docx",
    )  # fmt: skip
    for pair in pairs:
        real, claimed = pair.split()
        yield ready(f"really-{real}.{claimed}", GOOD[real])
    yield ready("no-extension", GOOD["pdf"])
    yield ready("many.extensions.pdf.exe.scr", GOOD["docx"])


def polyglots() -> Iterator[File]:
    pdf, zipped, png, jpg = GOOD["pdf"], GOOD["zip"], GOOD["png"], GOOD["jpg"]
    page = f"<html><body><p>{WORDS}</p><!--\n".encode()
    yield ready("pdf-and-zip.pdf", lambda: pdf() + zipped())
    yield either("zip-and-pdf.zip", lambda: zipped() + pdf())
    yield either("page-and-pdf.html", lambda: page + pdf() + b"--></body></html>")
    yield either("gif-and-script.gif", lambda: b"GIF89a/*\0\0\0\0\0\0\0*/=1;alert('water');" + bytes(99))
    yield ready("png-and-zip.png", lambda: png() + zipped())
    yield ready("jpeg-and-zip.jpg", lambda: jpg() + zipped())
    yield either("windows-program-and-pdf.pdf", lambda: WINDOWS[:128] + pdf())
    yield either("linux-program-and-zip.zip", lambda: ELF + zipped())
    yield either("mail-and-page.html", lambda: GOOD["eml"]() + GOOD["html"]())
    yield either(
        "text-with-a-pdf-header.txt", lambda: b"About PDF files: they begin with %PDF-1.4 and so on. " + WORDS.encode()
    )
    yield either("pdf-in-pdf.pdf", lambda: pdf()[:-7] + pdf())
    yield either("docx-with-another-docx.docx", lambda: GOOD["docx"]() + GOOD["xlsx"]())
    yield either("rtf-and-zip.rtf", lambda: GOOD["rtf"]() + zipped())
    yield either("tar-and-pdf.tar", lambda: pdf()[:250].ljust(257, b" ") + b"ustar\00000" + pdf())
