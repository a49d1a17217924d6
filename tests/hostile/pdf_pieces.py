"""A writer of PDF files that writes whatever it is told, right or wrong."""

import struct
import zlib
from collections.abc import Mapping

FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>%s>>%s>>"
TEXT = b"BT /F1 12 Tf 72 700 Td (The turbine needs water from the penstock.) Tj ET"


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<<" + entries + b"/Length %d>>stream\n" % len(content) + content + b"\nendstream"


def flate(content: bytes, entries: bytes = b"") -> bytes:
    return stream(zlib.compress(content), b"/Filter/FlateDecode" + entries)


def pdf(objects: Mapping[int, bytes], trailer: bytes = b"/Root 1 0 R") -> bytes:
    """With a table of where each object is, and a trailer."""
    parts, at, places = [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"], 15, {}
    for number, body in objects.items():
        places[number] = at
        part = b"%d 0 obj\n" % number + body + b"\nendobj\n"
        parts.append(part)
        at += len(part)
    size = max(objects, default=0) + 1
    table = [b"%010d 00000 n \n" % places[n] if n in places else b"0000000000 65535 f \n" for n in range(size)]
    end = b"xref\n0 %d\n" % size + b"".join(table) + b"trailer\n<</Size %d" % size + trailer
    return b"".join(parts) + end + b">>\nstartxref\n%d\n%%%%EOF\n" % at


def document(  # a page of text, of which any object may be replaced
    *, catalog: bytes = b"", resources: bytes = b"", page: bytes = b"", text: bytes = TEXT, **objects: bytes
) -> bytes:
    made = {
        1: b"<</Type/Catalog/Pages 2 0 R" + catalog + b">>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: PAGE % (resources, page),
        4: stream(text),
        5: FONT,
    }
    return pdf(made | {int(name.removeprefix("o")): body for name, body in objects.items()})


def xref_stream(objects: Mapping[int, bytes], entries: bytes, body: bytes) -> bytes:
    """A file whose table is a stream (PDF 1.5), with the stream's dictionary and bytes as claimed."""
    return _with_table(objects, max(objects) + 1, entries, body)


def _with_table(objects: Mapping[int, bytes], number: int, entries: bytes, body: bytes) -> bytes:
    parts = [b"%PDF-1.7\n"]
    parts += [b"%d 0 obj\n" % number + content + b"\nendobj\n" for number, content in objects.items()]
    at = sum(map(len, parts))
    table = b"%d 0 obj\n" % number + stream(body, b"/Type/XRef/Root 1 0 R" + entries) + b"\nendobj\n"
    return b"".join([*parts, table, b"startxref\n%d\n%%%%EOF\n" % at])


def places(objects: Mapping[int, bytes]) -> bytes:
    """The rows of a table for `xref_stream`, as /W[1 4 2]."""
    rows, at = [struct.pack(">BIH", 0, 0, 65535)], 9
    for number, content in objects.items():
        rows.append(struct.pack(">BIH", 1, at, 0))
        at += len(b"%d 0 obj\n" % number + content + b"\nendobj\n")
    return b"".join([*rows, struct.pack(">BIH", 1, at, 0)])


def packed(objects: Mapping[int, bytes], inside: Mapping[int, bytes]) -> bytes:
    """A file in which the second group of objects, numbered from 4 on, is in one compressed stream (number 3)."""
    at, offsets = 0, []
    for number, content in inside.items():
        offsets.append(b"%d %d" % (number, at))
        at += len(content) + 1
    head = b" ".join(offsets) + b" "
    body = b" ".join(inside.values())
    entries = b"/Type/ObjStm/N %d/First %d" % (len(inside), len(head))
    plain = {**objects, 3: flate(head + body, entries)}
    table = places(plain)
    rows = b"".join(struct.pack(">BIH", 2, 3, index % 65536) for index in range(len(inside)))
    last = max(inside) + 1
    whole = zlib.compress(table[:-7] + rows + table[-7:])
    return _with_table(plain, last, b"/Filter/FlateDecode/Size %d/W[1 4 2]" % (last + 1), whole)
