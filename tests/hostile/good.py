"""Small, sound documents of many formats: what the hostile ones are made from by cutting, renaming and damaging."""

import io
from collections.abc import Callable
from functools import cache

from tests.hostile.pdf_pieces import document
from tests.hostile.pieces import zip_of

WORDS = "The turbine needs water, and the penstock brings it down from the reservoir. " * 8
TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
TYPES += '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
TYPES += '<Default Extension="xml" ContentType="application/xml"/>%s</Types>'
OVERRIDE = '<Override PartName="/%s" ContentType="application/vnd.openxmlformats-officedocument.%s+xml"/>'
RELS = '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">%s</Relationships>'
REL = '<Relationship Id="rId%d" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/%s" Target="%s"/>'
WORD_NS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SHEET_NS = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
SLIDE_NS = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
ODF_NS = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
)
ODF_MANIFEST = (
    '<?xml version="1.0"?><manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
    '<manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.%s"/>'
    '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml">%s</manifest:file-entry>'
    "</manifest:manifest>"
)
MAIL_HEAD = (
    "From: ada@example.org\r\nTo: bob@example.org\r\nSubject: Water\r\nMIME-Version: 1.0\r\n"
    "Date: Mon, 1 Jan 2024 10:00:00 +0000\r\n"
)

Parts = dict[str, str]


def package(parts: Parts) -> bytes:
    return zip_of((name, content.encode()) for name, content in parts.items())


def word_parts(body: str = f"<w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p>", before: str = "") -> Parts:
    return {
        "[Content_Types].xml": TYPES % OVERRIDE % ("word/document.xml", "wordprocessingml.document.main"),
        "_rels/.rels": RELS % (REL % (1, "officeDocument", "word/document.xml")),
        "word/document.xml": f'<?xml version="1.0"?>{before}<w:document {WORD_NS}><w:body>{body}</w:body></w:document>',
    }


def sheet_parts(
    rows: str = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{WORDS}</t></is></c></row>', size: str = "A1"
) -> Parts:
    sheets = '<sheet name="Flow" sheetId="1" r:id="rId1" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"/>'
    kinds = OVERRIDE % ("xl/workbook.xml", "spreadsheetml.sheet.main") + OVERRIDE % (
        "xl/sharedStrings.xml",
        "spreadsheetml.sharedStrings",
    )
    related = REL % (1, "worksheet", "worksheets/sheet1.xml") + REL % (2, "sharedStrings", "sharedStrings.xml")
    inside = f'<dimension ref="{size}"/><sheetData>{rows}</sheetData>'
    return {
        "[Content_Types].xml": TYPES % (kinds + OVERRIDE % ("xl/worksheets/sheet1.xml", "spreadsheetml.worksheet")),
        "_rels/.rels": RELS % (REL % (1, "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<?xml version="1.0"?><workbook {SHEET_NS}><sheets>{sheets}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": RELS % related,
        "xl/worksheets/sheet1.xml": f'<?xml version="1.0"?><worksheet {SHEET_NS}>{inside}</worksheet>',
    }  # fmt: skip


def slide_parts(text: str = WORDS, slides: int = 1) -> Parts:
    kinds = OVERRIDE % ("ppt/presentation.xml", "presentationml.presentation.main")
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="rId{n + 1}"/>' for n in range(slides))
    body = f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody>"
    shape = f"<p:sp><p:nvSpPr><p:cNvPr id='2' name='a'/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>{body}</p:sp>"
    tree = f"<p:spTree>{shape}</p:spTree>"
    listed = f"<p:sldIdLst>{ids}</p:sldIdLst>"
    return {
        "[Content_Types].xml": TYPES % (kinds + OVERRIDE % ("ppt/slides/slide1.xml", "presentationml.slide")),
        "_rels/.rels": RELS % (REL % (1, "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f'<?xml version="1.0"?><p:presentation {SLIDE_NS}>{listed}</p:presentation>',
        "ppt/_rels/presentation.xml.rels": RELS % "".join(REL % (n + 1, "slide", "slides/slide1.xml") for n in range(slides)),
        "ppt/slides/slide1.xml": f'<?xml version="1.0"?><p:sld {SLIDE_NS}><p:cSld>{tree}</p:cSld></p:sld>',
    }  # fmt: skip


def odf_parts(kind: str, body: str, *, before: str = "", locked: str = "") -> Parts:
    """An OpenDocument `text`, `spreadsheet` or `presentation`."""
    inner = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    return {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": f'<?xml version="1.0"?>{before}<office:document-content {ODF_NS}>{inner}</office:document-content>',
        "META-INF/manifest.xml": ODF_MANIFEST % (kind, locked),
    }


def book_parts(chapter: str = f"<p>{WORDS}</p>", times: int = 1) -> Parts:
    spine = '<itemref idref="c"/>' * times
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<?xml version="1.0"?>'
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">'
        '<rootfiles><rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "book.opf": '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Water</dc:title></metadata><manifest>'
        f'<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest><spine>{spine}</spine></package>',
        "c.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Water</title></head><body>{chapter}</body></html>',
    }


@cache
def picture(format: str, width: int = 320, height: int = 120) -> bytes:  # noqa: A002  as Pillow calls it
    """A white picture with three words on it."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((20, 40), "WATER FLOWS DOWN", fill="black", font_size=28)
    made = io.BytesIO()
    image.save(made, format)
    return made.getvalue()


def mail() -> bytes:
    head = MAIL_HEAD + 'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n'
    attachment = "\r\n--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\n"
    return (head + WORDS + attachment + WORDS + "\r\n--b--\r\n").encode()  # fmt: skip


def pdf() -> bytes:
    lines = b"".join(b"0 -14 Td (Line %d: the turbine needs water from the penstock.) Tj " % n for n in range(40))
    return document(text=b"BT /F1 11 Tf 72 760 Td " + lines + b"ET")


GOOD: dict[str, Callable[[], bytes]] = {
    "pdf": pdf,
    "docx": lambda: package(word_parts()),
    "xlsx": lambda: package(sheet_parts()),
    "pptx": lambda: package(slide_parts()),
    "odt": lambda: package(odf_parts("text", f"<text:p>{WORDS}</text:p>")),
    "epub": lambda: package(book_parts()),
    "zip": lambda: zip_of((f"{n}.txt", WORDS.encode()) for n in range(5)),
    "png": lambda: picture("PNG"),
    "jpg": lambda: picture("JPEG"),
    "tif": lambda: picture("TIFF"),
    "bmp": lambda: picture("BMP"),
    "gif": lambda: picture("GIF"),
    "webp": lambda: picture("WEBP"),
    "rtf": (r"{\rtf1\ansi{\fonttbl\f0 Arial;}\f0\pard " + WORDS + r"\par}").encode,
    "html": f"<!doctype html><html><head><title>Water</title></head><body><h1>Water</h1><p>{WORDS}</p></body></html>".encode,
    "xml": f'<?xml version="1.0"?><book><title>Water</title><p>{WORDS}</p></book>'.encode,
    "eml": mail,
    "json": ('{"title": "Water", "lines": [' + ", ".join(f'"{WORDS}"' for _ in range(5)) + "]}").encode,
    "csv": ("river,flow,level\n" + "".join(f"Inn {n},{n * 7},{n % 9}\n" for n in range(100))).encode,
    "md": f"# Water\n\n{WORDS}\n\n## Turbine\n\n{WORDS}\n".encode,
    "txt": WORDS.encode,
}
