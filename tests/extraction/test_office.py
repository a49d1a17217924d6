"""Office documents: structure, what kreuzberg leaves out, slides and sheets as pages, bombs."""

import io
import random
import struct
import tracemalloc
import zipfile

import pytest

from penstock.errors import Corrupt, Encrypted, Suspicious, TooMuch, Unsupported
from penstock.extraction.office import libreoffice, reader
from tests.extraction import sample_files
from tests.extraction.sample_files import W, docx, odf, paragraph, pptx, shape, text_of, xlsx

_STYLES = (
    f'<w:styles xmlns:w="{W}"><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Heading2"><w:name w:val="heading 2"/></w:style></w:styles>'
)


def cells(*rows: list[str]) -> str:
    return "".join("<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) + "</w:tr>" for row in rows)


def test_word_has_headings_and_tables() -> None:
    body = (
        paragraph("Pumps", "Heading1") + paragraph("All about them.") + paragraph("Parts", "Heading2")
        + f"<w:tbl>{cells(['part', 'pieces'], ['valve', '3'])}</w:tbl>" + paragraph("The end.")
    )  # fmt: skip
    [page] = sample_files.read(docx(body, styles=_STYLES)).pages
    assert page.text == "Pumps\n\nAll about them.\n\nParts\n\npart | pieces\nvalve | 3\n\nThe end."
    assert [(heading.level, heading.title) for heading in page.headings] == [(1, "Pumps"), (2, "Parts")]
    assert page.tables[0].header == "part | pieces"
    assert page.text[page.tables[0].start : page.tables[0].stop] == "part | pieces\nvalve | 3"


def test_what_the_reader_leaves_out_is_found() -> None:
    box = "<w:p><w:r><w:pict><w:txbxContent>" + paragraph("inside a box") + "</w:txbxContent></w:pict></w:r></w:p>"
    notes = (
        f'<w:footnotes xmlns:w="{W}"><w:footnote w:id="2">{paragraph("a footnote appears")}</w:footnote></w:footnotes>'
    )
    remarks = f'<w:comments xmlns:w="{W}"><w:comment w:id="0">{paragraph("somebody remarks")}</w:comment></w:comments>'
    text = text_of(sample_files.read(docx(paragraph("Main text.") + box, footnotes=notes, comments=remarks)))
    assert text.startswith("Main text.")
    for words in ("inside a box", "a footnote appears", "somebody remarks"):
        assert text.count(words) == 1, text


def test_deleted_text_and_field_codes_stay_out() -> None:
    body = (
        '<w:p><w:r><w:t>kept</w:t></w:r><w:del w:id="1"><w:r><w:delText>gone</w:delText></w:r></w:del>'
        '<w:r><w:instrText>HYPERLINK "http://x"</w:instrText></w:r></w:p>'
    )
    assert text_of(sample_files.read(docx(body))) == "kept"


def test_a_blank_document_has_a_reason() -> None:
    assert sample_files.read(docx("<w:p/>")).gaps[0].reason == "no text in it: it is blank"


def test_a_document_without_its_main_part_is_damaged() -> None:
    with pytest.raises(Corrupt, match="damaged"):
        sample_files.read(docx(paragraph("x")).replace(b"word/document.xml", b"word/dokument.xml"))


def test_a_damaged_document_is_read_as_far_as_it_can_be() -> None:
    notes = f'<w:footnotes xmlns:w="{W}"><w:footnote w:id="2">{paragraph("a footnote")}</w:footnote></w:footnotes>'
    reading = sample_files.read(docx("<w:p></w:broken>", footnotes=notes))
    assert text_of(reading) == "a footnote"
    assert "damaged" in reading.gaps[0].reason


def test_sheets_are_pages() -> None:
    raw = xlsx(("Stock", [["part", "pieces"], ["valve", "3"]]), ("Empty", []), ("Places", [["shelf"]]))
    pages = sample_files.read(raw).pages
    assert [(page.number, page.text) for page in pages] == [
        (1, "Stock\n\npart | pieces\nvalve | 3"),
        (3, "Places\n\nshelf"),
    ]
    assert pages[0].headings[0].title == "Stock" and pages[0].tables[0].header == "part | pieces"


def test_slides_are_pages_in_the_order_of_the_show() -> None:
    row = "<a:tr>{}</a:tr>"
    cell = "<a:tc><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:tc>"
    rows = row.format(cell.format("part") + cell.format("pieces")) + row.format(cell.format("valve") + "<a:tc/>")
    table = f"<p:graphicFrame><a:tbl>{rows}</a:tbl></p:graphicFrame>"
    first = shape("1", role="sldNum") + shape("Words in+ runs", "hy+phen") + shape("Title", role="title") + table
    reading = sample_files.read(pptx(first, shape("Shown first", role="ctrTitle"), notes="Say hello."))
    assert [(page.number, page.text) for page in reading.pages] == [
        (1, "Shown first"),
        (2, "Title\n\nWords in runs\nhyphen\n\npart | pieces\nvalve\n\nSay hello."),
    ]
    assert reading.title == "Shown first"
    assert [heading.title for heading in reading.pages[1].headings] == ["Title"]
    assert reading.pages[1].tables[0].header == "part | pieces"


def test_of_two_forms_of_a_shape_one_is_read() -> None:
    both = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<mc:Choice>{shape('new form')}</mc:Choice><mc:Fallback>{shape('old form')}</mc:Fallback></mc:AlternateContent>"
    )
    assert text_of(sample_files.read(pptx(both))) == "new form"


def test_one_broken_slide_is_a_gap() -> None:
    reading = sample_files.read(pptx(shape("good"), "<broken"))
    assert [page.number for page in reading.pages] == [2]
    assert reading.gaps[0].page == 1 and "cannot be read" in reading.gaps[0].reason


def box(*paragraphs: str, role: str = "outline") -> str:
    texts = "".join(f"<text:p>{text}</text:p>" for text in paragraphs)
    return f'<draw:frame presentation:class="{role}"><draw:text-box>{texts}</draw:text-box></draw:frame>'


def test_opendocument_slides_are_pages() -> None:
    row = "<table:table-row>{}</table:table-row>"
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
    table = (
        f"<table:table>{row.format(cell.format('a') + cell.format('b'))}{row.format(cell.format('1'))}</table:table>"
    )
    content = (
        f"<office:presentation><draw:page>{box('Ti<text:span>tle</text:span>', role='title')}"
        f"{box('one<text:s/>more', 'two')}"
        f"<presentation:notes>{box('Say hello.', role='notes')}</presentation:notes></draw:page>"
        f"<draw:page><draw:custom-shape><text:p>in a shape</text:p></draw:custom-shape>{table}</draw:page>"
        "</office:presentation>"
    )
    pages = sample_files.read(odf("presentation", content)).pages
    assert [page.text for page in pages] == ["Title\n\none more\ntwo\n\nSay hello.", "in a shape\n\na | b\n1"]
    assert pages[0].headings[0].title == "Title"


def test_slides_without_text_have_a_reason() -> None:
    assert "only images" in sample_files.read(pptx("")).gaps[0].reason


def test_opendocument_text_is_read() -> None:
    body = '<text:h text:outline-level="2">Pumps</text:h><text:p>All <text:span>about</text:span> them.</text:p>'
    content = f"<office:text>{body}</office:text>"
    [page] = sample_files.read(odf("text", content)).pages
    assert page.text == "Pumps\n\nAll about them."
    assert [(heading.level, heading.title) for heading in page.headings] == [(1, "Pumps")]


def test_rtf_is_read() -> None:
    assert text_of(sample_files.read(rb"{\rtf1\ansi Gr\'fc\'dfe\par second}")) == "Grüße\n\nsecond"


@pytest.mark.parametrize("kind", ["docx", "pptx", "odp"])
def test_bombs_are_refused(kind: str) -> None:
    kinds: dict[str, dict[str, bytes | str]] = {
        "docx": {"[Content_Types].xml": "wordprocessingml.document.main+xml", "word/document.xml": bytes(90_000_000)},
        "pptx": {
            "[Content_Types].xml": "presentationml.presentation.main+xml",
            "ppt/slides/slide1.xml": bytes(90_000_000),
        },
        "odp": {"mimetype": "application/vnd.oasis.opendocument.presentation", "content.xml": bytes(90_000_000)},
    }
    with pytest.raises(Suspicious, match="zip bomb"):
        sample_files.read(sample_files.zipped(kinds[kind]))


def test_a_bomb_that_lies_about_its_size_is_refused() -> None:
    raw = sample_files.lying_zip("word/document.xml", bytes(100_000_000), said=1_000)
    with pytest.raises(Suspicious, match="zip bomb"):
        sample_files.read(raw)


@pytest.mark.parametrize("kind", ["docx", "pptx", "odp"])
def test_entities_in_office_parts_do_no_harm(kind: str) -> None:
    entities = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "' + "&a;" * 1_000 + '">]>'
    raw = {
        "docx": docx(paragraph("x")),
        "pptx": pptx(shape("x")),
        "odp": odf("presentation", "<draw:page><text:p>x</text:p></draw:page>"),
    }[kind]
    part = {"docx": "word/document.xml", "pptx": "ppt/slides/slide1.xml", "odp": "content.xml"}[kind]
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    content = parts[part].replace('<?xml version="1.0"?>', "")
    parts[part] = entities + content.replace(">x<", ">" + "&b;" * 1_000 + "<")
    try:
        assert len(text_of(sample_files.read(sample_files.zipped(parts)))) < 100_000
    except (Corrupt, Suspicious) as error:
        assert "entity" in str(error) or "damaged" in str(error)


def test_too_much_text_is_refused() -> None:
    with pytest.raises(TooMuch, match=r"limits\.characters"):
        sample_files.read(docx(paragraph("word " * 1_000)), characters=1_000)
    with pytest.raises(TooMuch, match=r"limits\.pages"):
        sample_files.read(pptx(*[shape("x")] * 5), pages=4)


def test_endless_nesting_in_slides_is_suspicious() -> None:
    with pytest.raises(Suspicious, match="nests"):
        sample_files.read(pptx("<a:grpSp>" * 5_000 + "</a:grpSp>" * 5_000))


def test_an_old_container_that_ends_early_is_padded() -> None:
    raw = sample_files.compound({"WordDocument": bytes(64)})
    assert len(reader.padded(raw)) == 129 * 512
    assert reader.padded(b"other") == b"other"


def test_old_excel_text_boxes_are_found() -> None:
    def record(number: int, body: bytes) -> bytes:
        return struct.pack("<HH", number, len(body)) + body

    text = "words in a box".encode("utf-16-le")
    book = (
        record(0x809, bytes(16))
        + record(0x1B6, bytes(10) + struct.pack("<HHI", 14, 16, 0))
        + record(0x3C, b"\1" + text)
    )
    raw = sample_files.compound({"Workbook": book})
    assert list(reader.missing_texts(io.BytesIO(raw), "application/vnd.ms-excel", [])) == ["words in a box"]


@pytest.mark.parametrize("stream", ["WordDocument", "Workbook", "PowerPoint Document"])
def test_garbage_in_old_files_is_corrupt_or_empty(stream: str) -> None:
    try:
        assert sample_files.read(sample_files.compound({stream: bytes(9) + b"\7" + bytes(2) + b"\xa5" * 3_000})).gaps
    except Corrupt as error:
        assert str(error).startswith("damaged")


def test_an_encrypted_zip_part_is_encrypted() -> None:
    raw = bytearray(docx(paragraph("x")))
    at = -1
    while (at := raw.find(b"PK\1\2", at + 1)) >= 0:
        raw[at + 8] |= 1
    with pytest.raises(Encrypted, match="a password is needed"):
        sample_files.read(bytes(raw))


def test_without_libreoffice_a_drawing_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libreoffice, "_PROGRAMS", ())
    with pytest.raises(Unsupported, match="needs LibreOffice, which is not installed here"):
        sample_files.read(sample_files.compound({"VisioDocument": bytes(64)}))


@pytest.mark.parametrize("kind", ["docx", "odt", "epub"])
def test_nesting_that_would_crash_the_reader_is_refused(kind: str) -> None:
    raw = {
        "docx": docx("<w:smartTag>" * 20_000 + "</w:smartTag>" * 20_000),
        "odt": odf("text", "<text:list>" * 20_000 + "</text:list>" * 20_000),
        "epub": sample_files.zipped({"mimetype": "application/epub+zip", "a.xhtml": "<div>" * 20_000}),
    }[kind]
    with pytest.raises(Suspicious, match="nests"):
        sample_files.read(raw)


def test_a_directory_that_points_nowhere_is_damaged() -> None:
    raw = bytearray(docx(paragraph("word"), filler=random.Random(3).randbytes(100_000).hex()))
    at = raw.find(b"PK\1\2")
    raw[at + 42 : at + 46] = (7).to_bytes(4, "little")
    with pytest.raises(Corrupt, match="damaged"):
        sample_files.read(bytes(raw))


def test_a_large_sheet_needs_little_memory() -> None:
    rows = [[f"{row} {column}" for column in range(8)] for row in range(5_000)]
    tracemalloc.start()
    try:
        [page] = sample_files.read(xlsx(("S", rows))).pages
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert page.text.count("\n") == 5_001
    assert peak < 30_000_000, "a tree of all cells takes more than 40 MB"


@pytest.mark.parametrize("place", ["A110000", "A1048576", "XFD1048576", "C90000"])
def test_one_stray_cell_does_not_hide_its_sheet(place: str) -> None:
    with zipfile.ZipFile(io.BytesIO(xlsx(("Stock", [["part", "pieces"], ["valve", "3"]]), ("Empty", [])))) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    row = f'<row r="{place.strip("ACDFX")}"><c r="{place}" t="s"><v>1</v></c></row></sheetData>'
    parts["xl/worksheets/sheet1.xml"] = parts["xl/worksheets/sheet1.xml"].replace("</sheetData>", row)
    parts["xl/sharedStrings.xml"] = (
        '<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>no</t></si>'
        "<si><r><t>far</t></r><r><t>away</t></r><rPh><t>spoken</t></rPh></si></sst>"
    )
    parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(
        "</Types>",
        '<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'spreadsheetml.sharedStrings+xml"/></Types>',
    )
    parts["xl/_rels/workbook.xml.rels"] = sample_files.relations(
        ("worksheet", "worksheets/sheet1.xml"),
        ("worksheet", "worksheets/sheet2.xml"),
        ("sharedStrings", "sharedStrings.xml"),
    )
    [page] = sample_files.read(sample_files.zipped(parts)).pages
    assert page.number == 1
    assert page.text.startswith("Stock\n\npart | pieces\nvalve | 3\n") and page.text.endswith("faraway")
