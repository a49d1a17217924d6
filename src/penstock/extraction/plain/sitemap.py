"""The task "sitemap": the addresses in a sitemap, as they stand: a set of pages, an index of other sitemaps, or plain lines.

It may be packed with gzip, and is unpacked no further than the limit. XML that is broken or that defines entities is read up
to there.
"""

import zlib
from contextlib import suppress
from typing import Any, BinaryIO
from xml.parsers import expat

from penstock.extraction.office.xmltree import local
from penstock.extraction.plain.encoding import decode

LONGEST = 2_000  # characters of an address
GZIP = b"\x1f\x8b"


def sitemap(file: BinaryIO, arguments: dict[str, Any], reply: object) -> dict[str, Any]:
    """What a box runs: at most `most` addresses of at most `unpacked` bytes."""
    raw = _unpacked(file.read(), int(arguments["unpacked"]))
    most = int(arguments["most"])
    if not raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = [line.strip() for line in decode(raw).splitlines()]
        return {"pages": [line for line in lines if line and len(line) <= LONGEST][:most], "sitemaps": []}
    reader = _Reader(most)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = reader.refuse
    with suppress(expat.ExpatError, LookupError, ValueError, _Enough):
        parser.Parse(raw, True)
    return {"pages": reader.pages, "sitemaps": reader.sitemaps}


def _unpacked(raw: bytes, most: int) -> bytes:
    if not raw.startswith(GZIP):
        return raw[:most]
    unpacker = zlib.decompressobj(wbits=31)
    try:
        return unpacker.decompress(raw, most)
    except zlib.error:
        return b""


class _Enough(Exception):
    """There are as many as are wanted, or something is in it that no sitemap has."""


class _Reader:
    """Collects the text of `loc`, by what it stands in."""

    def __init__(self, most: int) -> None:
        self.pages: list[str] = []
        self.sitemaps: list[str] = []
        self._most = most
        self._above: list[str] = []
        self._words: list[str] | None = None

    def start(self, name: str, _: object) -> None:
        if len(self._above) > 20:
            raise _Enough
        self._above.append(local(name).lower())
        self._words = [] if self._above[-1] == "loc" else None

    def text(self, words: str) -> None:
        if self._words is not None and sum(map(len, self._words)) <= LONGEST:
            self._words.append(words)

    def end(self, _: str) -> None:
        self._above.pop()
        if self._words is None:
            return
        address, self._words = "".join(self._words).strip(), None
        parent = self._above[-1] if self._above else ""
        if address and len(address) <= LONGEST and parent in {"url", "sitemap"}:
            (self.pages if parent == "url" else self.sitemaps).append(address)
            if len(self.pages) + len(self.sitemaps) >= self._most:
                raise _Enough

    def refuse(self, *_: object) -> None:
        raise _Enough
