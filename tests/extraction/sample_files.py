"""Small documents that the tests make for themselves, as bytes."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.extraction.dispatch import read_document
from penstock.extraction.result import ExtractedDocument

LIMITS = {
    "pages": 5_000,
    "pixels": 100_000_000,
    "characters": 50_000_000,
    "members": 1_000,
    "expansion": 200,
    "bytes": 2 * 2**30,
}


def arguments(name: str = "", **limits: int) -> dict[str, Any]:
    return {"name": name, "limits": LIMITS | limits, "ocr": True}


def read(raw: bytes, name: str = "", **limits: int) -> ExtractedDocument:
    """As a sandbox does it, JSON included."""
    reading = read_document(io.BytesIO(raw), arguments(name, **limits))
    return ExtractedDocument.decode(_as_json(reading.encode()))


def _as_json(value: Any) -> Any:
    import json

    return json.loads(json.dumps(value))


def text_of(reading: ExtractedDocument) -> str:
    return "\n".join(page.text for page in reading.pages)


def zipped(parts: Mapping[str, bytes | str], *, stored: Iterable[str] = ()) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, compress_type=method)
    return target.getvalue()


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
_RELATIONS = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
_OFFICE = "application/vnd.openxmlformats-officedocument."
_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def relations(*targets: tuple[str, str]) -> str:
    """A part's relations: ids rId1, rId2 … of (type, target)."""
    rows = "".join(
        f'<Relationship Id="rId{number}" Type="{_RELATED}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{rows}</Relationships>'


def docx(body: str, **parts: str) -> bytes:
    """A DOCX with this body; further parts by name, `footnotes` is word/footnotes.xml."""
    more = {f"word/{name}.xml": content for name, content in parts.items()}
    overrides = f'<Override PartName="/word/document.xml" ContentType="{_OFFICE}wordprocessingml.document.main+xml"/>'
    return zipped(
        {
            "[Content_Types].xml": f'{_TYPES}<Default Extension="xml" ContentType="application/xml"/>'
            f"{_RELATIONS}{overrides}</Types>",
            "_rels/.rels": relations(("officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(),
            "word/document.xml": f'<?xml version="1.0"?><w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>',
            **more,
        }
    )


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(*slides: str, notes: str = "") -> bytes:
    """A PPTX whose last slide is shown first, which tells the order of the list from that of the names."""
    p, a = (
        f'xmlns:{x}="http://schemas.openxmlformats.org/{y}/2006/main"'
        for x, y in (("p", "presentationml"), ("a", "drawingml"))
    )
    numbers = range(len(slides), 0, -1)
    listed = "".join(f'<p:sldId id="{255 + number}" r:id="rId{number}"/>' for number in numbers)
    parts = {
        "[Content_Types].xml": f'{_TYPES}<Override PartName="/ppt/presentation.xml" '
        f'ContentType="{_OFFICE}presentationml.presentation.main+xml"/></Types>',
        "ppt/presentation.xml": f'<p:presentation {p} xmlns:r="{_RELATED}"><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(
            *[("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)]
        ),
    }
    for number, shapes in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = (
            f"<p:sld {p} {a}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        )
    if notes:
        parts["ppt/slides/_rels/slide1.xml.rels"] = relations(("notesSlide", "../notesSlides/notesSlide1.xml"))
        parts["ppt/notesSlides/notesSlide1.xml"] = f"<p:notes {p} {a}>{shape(notes)}</p:notes>"
    return zipped(parts)


def shape(*paragraphs: str, role: str = "body") -> str:
    texts = "".join(
        f"<a:p>{''.join(f'<a:r><a:t>{run}</a:t></a:r>' for run in text.split('+'))}</a:p>" for text in paragraphs
    )
    return f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{role}"/></p:nvPr></p:nvSpPr><p:txBody>{texts}</p:txBody></p:sp>'


def xlsx(*sheets: tuple[str, list[list[str]]]) -> bytes:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    overrides = f'<Override PartName="/xl/workbook.xml" ContentType="{_OFFICE}spreadsheetml.sheet.main+xml"/>'
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, (name, _) in enumerate(sheets, 1))
    parts = {
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{_RELATED}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(
            *[("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
        ),
    }
    for n, (_, rows) in enumerate(sheets, 1):
        cells = "".join(
            f'<row r="{r}">'
            + "".join(
                f'<c r="{chr(65 + c)}{r}" t="inlineStr"><is><t>{value}</t></is></c>' for c, value in enumerate(row)
            )
            + "</row>"
            for r, row in enumerate(rows, 1)
        )
        parts[f"xl/worksheets/sheet{n}.xml"] = f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
        overrides += (
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_OFFICE}spreadsheetml.worksheet+xml"/>'
        )
    types = f"{_TYPES}{_RELATIONS}{overrides}</Types>"
    return zipped({"[Content_Types].xml": types, **parts})


def odf(kind: str, content: str, manifest: str = "") -> bytes:
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
        for name, long in (
            ("office", "office"),
            ("text", "text"),
            ("draw", "drawing"),
            ("presentation", "presentation"),
            ("table", "table"),
        )
    )
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {spaces}><office:body>{content}</office:body></office:document-content>",
            "META-INF/manifest.xml": manifest or "<manifest/>",
        },
        stored=["mimetype"],
    )


def compound(streams: Mapping[str, bytes]) -> bytes:
    """An OLE2 file with streams (and folders: `a/b`) of less than 64 KB each, none in the mini stream."""
    tree: dict[str, Any] = {}
    for path, content in streams.items():
        *folders, name = path.split("/")
        here = tree
        for folder in folders:
            here = here.setdefault(folder, {})
        here[name] = content
    entries: list[list[Any]] = [["Root Entry", 5, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE, b""]]
    _enter(tree, 0, entries)
    directory = -(-len(entries) // 4)
    table, sectors = [0xFFFFFFFD], b""
    table += [at + 2 for at in range(directory)]
    table[-1] = 0xFFFFFFFE
    for entry in entries:
        content = entry[5]
        count = -(-len(content) // 512)
        entry[4] = len(table) if count else 0xFFFFFFFE
        table += [len(table) + 1 + at for at in range(count)]
        if count:
            table[-1] = 0xFFFFFFFE
        sectors += content + bytes(-len(content) % 512)
    assert len(table) <= 128, "one sector of the allocation table"
    header = bytearray(512)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    struct.pack_into("<HHHHH", header, 24, 0x3E, 3, 0xFFFE, 9, 6)
    struct.pack_into("<IIIIIIIII", header, 44, 1, 1, 0, 0, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0, 0)
    struct.pack_into("<109I", header, 76, 0, *[0xFFFFFFFF] * 108)
    rows = b"".join(_directory_entry(*entry) for entry in entries)
    return (
        bytes(header)
        + struct.pack("<128I", *table, *[0xFFFFFFFF] * (128 - len(table)))
        + rows.ljust(directory * 512, b"\0")
        + sectors
    )


def _enter(tree: dict[str, Any], parent: int, entries: list[list[Any]]) -> None:
    before = -1
    for name, content in tree.items():
        number = len(entries)
        folder = isinstance(content, dict)
        entries.append([name, 1 if folder else 2, 0xFFFFFFFF, 0xFFFFFFFF, 0, b"" if folder else content])
        if before < 0:
            entries[parent][3] = number
        else:
            entries[before][2] = number
        before = number
        if folder:
            _enter(content, number, entries)


def _directory_entry(name: str, kind: int, right: int, child: int, start: int, content: bytes) -> bytes:
    raw = name.encode("utf-16-le")
    fixed = struct.pack("<HBBIII", len(raw) + 2, kind, 1, 0xFFFFFFFF, right, child)
    return raw.ljust(64, b"\0") + fixed + bytes(36) + struct.pack("<IQ", start, len(content))


def lying_zip(name: str, content: bytes, said: int) -> bytes:
    """A zip archive with one part that is longer than its directory says."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packed.compress(content) + packed.flush()
    raw = name.encode()
    local = (
        struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0, zlib.crc32(content), len(body), said, len(raw), 0) + raw
    )
    central = struct.pack(
        "<IHHHHHHIIIHHHHHII",
        0x02014B50,
        20,
        20,
        0,
        8,
        0,
        0,
        zlib.crc32(content),
        len(body),
        said,
        len(raw),
        0,
        0,
        0,
        0,
        0,
        0,
    )
    offset = len(local) + len(body)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(central) + len(raw), offset, 0)
    return local + body + central + raw + end
