import io
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pikepdf
import pytest

from penstock.errors import Corrupt, Encrypted, TooMuch
from penstock.extraction.pdf import file as pdf_file
from penstock.extraction.pdf.reader import MOST_GAPS, read_pdf
from penstock.extraction.result import ExtractedDocument
from tests.extraction.sample_pdfs import (
    CATALOG,
    FONT,
    arguments,
    draw_text,
    one_page,
    page,
    picture,
    scan_pdf,
    stream,
    text_pdf,
    write_pdf,
)

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]"


def read(raw: bytes, **limits: int) -> ExtractedDocument:
    return read_pdf(io.BytesIO(raw), arguments(**limits))


def texts(raw: bytes) -> list[str]:
    return [page.text for page in read(raw).pages]


def rewritten(raw: bytes, **options: object) -> bytes:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(raw)) as document:
        document.save(written, **options)  # type: ignore[arg-type]
    return written.getvalue()


def test_pages_and_lines_in_their_order() -> None:
    raw = text_pdf([(50, 700, 12, "First line"), (50, 686, 12, "second line")], [(50, 700, 12, "Next page")])

    assert texts(raw) == ["First line\nsecond line", "Next page"]
    assert [page.number for page in read(raw).pages] == [1, 2]


def test_space_makes_a_paragraph_and_the_same_height_a_row() -> None:
    raw = text_pdf([(50, 700, 10, "Left"), (300, 700, 10, "right"), (50, 688, 10, "below"), (50, 640, 10, "Apart")])

    assert texts(raw) == ["Left right\nbelow\n\nApart"]


def test_columns_stay_in_the_order_in_which_they_are_drawn() -> None:
    columns = [(50 + 280 * x, 700 - 14 * y, 10, f"column {x} line {y} with words") for x in range(2) for y in range(20)]

    assert texts(text_pdf(columns))[0].split("\n") == [text for *_, text in columns]


def test_a_page_drawn_in_no_order_is_read_by_place() -> None:
    columns = [
        (50 + 280 * x, 700 - 14 * y, 10, f"column {x} line {y} with some words") for x in range(2) for y in range(20)
    ]
    mixed = columns[::-3] + columns[-2::-3] + columns[-3::-3]

    assert texts(text_pdf(mixed))[0].split("\n") == [text for *_, text in columns]


def test_words_torn_at_the_end_of_a_line_are_joined_when_that_is_sure() -> None:
    raw = text_pdf([(50, 700, 10, "We compile, and com-"), (50, 688, 10, "pile again")])
    assert texts(raw) == ["We compile, and compile again"]


def test_larger_lines_are_headings_with_levels() -> None:
    body = [(50, 600 - 14 * y, 10, f"An ordinary line of the body, number {y}") for y in range(20)]
    raw = text_pdf([(50, 750, 24, "The Title"), (50, 720, 24, "goes on"), (50, 650, 14, "First part"), *body])
    [page] = read(raw).pages

    assert [(heading.level, heading.title) for heading in page.headings] == [
        (1, "The Title goes on"),
        (2, "First part"),
    ]
    assert [page.text[heading.start :][:5] for heading in page.headings] == ["The T", "First"]


def test_what_stands_on_every_page_is_no_heading() -> None:
    body = [(50, 600 - 14 * y, 10, f"An ordinary line of the body, number {y}") for y in range(9)]
    pages = read(text_pdf(*[[(50, 750, 16, f"Annual report {number}"), *body] for number in range(4)])).pages

    assert [list(page.headings) for page in pages] == [[]] * 4


def test_the_outline_names_the_headings() -> None:
    raw = text_pdf([(50, 700, 12, "1. Where it begins"), (50, 600, 12, "text")], [(50, 700, 12, "Where it ends")])
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(raw)) as document:
        with document.open_outline() as outline:
            part = pikepdf.OutlineItem("Where it begins", 0)
            part.children.append(pikepdf.OutlineItem("WHERE it ends", 1))
            outline.root.extend([part, pikepdf.OutlineItem("Not in the text", 1)])
        document.save(written)

    first, second = read(written.getvalue()).pages
    assert [(heading.start, heading.level, heading.title) for heading in first.headings] == [(0, 1, "Where it begins")]
    assert [(heading.start, heading.level, heading.title) for heading in second.headings] == [(0, 2, "WHERE it ends")]


def test_title_author_and_attachments() -> None:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(text_pdf([(50, 700, 12, "text")]))) as document:
        document.docinfo["/Title"], document.docinfo["/Author"] = "A Title", "Ada"
        document.attachments["a.txt"] = b"attached"
        document.save(written)

    reading = read(written.getvalue())
    assert reading.title == "A Title"
    assert reading.facts == {"author": "Ada", "attachments": "1"}


def test_half_a_character_in_a_title_does_no_harm() -> None:
    half = b"<FEFFD800>"
    raw = write_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R/Outlines 5 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            page(4, b"/Resources" + FONT),
            stream(draw_text([(50, 700, 12, "text")])),
            b"<</First 6 0 R/Last 6 0 R/Count 1>>",
            b"<</Title%s/Parent 5 0 R/Dest[3 0 R/Fit]>>" % half,
            b"<</Title%s>>" % half,
        ]
    ).replace(b"/Root 1 0 R", b"/Root 1 0 R/Info 7 0 R")

    assert (texts(raw), read(raw).title) == (["text"], "")


def test_a_large_file_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_file, "IN_MEMORY", 0)
    path = tmp_path / "large.pdf"
    path.write_bytes(text_pdf([(50, 700, 12, "from the file")]))

    with path.open("rb") as file:
        assert [each.text for each in read_pdf(file, arguments()).pages] == ["from the file"]


def test_a_password_is_needed() -> None:
    raw = rewritten(text_pdf([(50, 700, 12, "secret")]), encryption=pikepdf.Encryption(owner="o", user="u"))

    with pytest.raises(Encrypted, match=r"^encrypted: a password is needed$"):
        read(raw)


def test_a_refusal_after_an_encrypted_file_is_not_taken_for_encryption() -> None:
    """pdfium may report the failure of the document before."""
    with pytest.raises(Encrypted):
        read(rewritten(text_pdf([(50, 700, 12, "x")]), encryption=pikepdf.Encryption(owner="o", user="u")))
    with pytest.raises(Corrupt, match="no pages"):
        read(write_pdf([CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"]))


def test_an_empty_password_opens() -> None:
    raw = rewritten(text_pdf([(50, 700, 12, "not secret")]), encryption=pikepdf.Encryption(owner="o", user=""))

    assert texts(raw) == ["not secret"]


def test_scans_are_left_to_the_ocr() -> None:
    image = picture([(50, 50, 40, "scanned")], (400, 300))
    reading = read(scan_pdf(image, image))

    assert (list(reading.pages), list(reading.scanned), list(reading.gaps)) == ([], [1, 2], [])


def test_without_ocr_scans_are_gaps() -> None:
    raw = scan_pdf(picture([(50, 50, 40, "scanned")], (400, 300)))
    reading = read_pdf(io.BytesIO(raw), arguments() | {"ocr": False})

    assert not reading.scanned
    assert [(gap.page, gap.reason) for gap in reading.gaps] == [(1, "this page is a scan, and the OCR is off")]


def test_a_stamp_on_a_scan_leaves_it_a_scan_but_an_article_with_a_picture_is_none() -> None:
    image = picture([(50, 50, 40, "scanned")], (400, 300))
    for text, scanned in (("Page 1", [1]), ("An article of many words. " * 8, [])):
        with pikepdf.open(io.BytesIO(scan_pdf(image))) as document:
            font = pikepdf.Dictionary(
                Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica
            )
            document.pages[0].add_resource(font, pikepdf.Name.Font, pikepdf.Name.F)
            document.pages[0].contents_add(b"Q " + draw_text([(5, 5, 8, text)]), prepend=False)
            written = io.BytesIO()
            document.save(written)
        assert list(read(written.getvalue()).scanned) == scanned


def test_a_blank_page_is_a_gap_and_no_scan() -> None:
    reading = read(one_page(b"", b"0 0 m 100 100 l S"))

    assert not reading.scanned
    assert [(gap.page, gap.reason) for gap in reading.gaps] == [(1, "this page has no text")]


def test_letters_drawn_as_paths_are_a_scan() -> None:
    assert list(read(one_page(b"", b"0 0 m 9 9 l 9 0 l h f " * 50)).scanned) == [1]


def test_notes_and_fields_are_part_of_the_text() -> None:
    notes = [
        b"<</Type/Annot/Subtype/FreeText/Rect[0 0 9 9]/Contents(a free text)>>",
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(name)/Rect[0 0 9 9]/V(a field's value)>>",
        b"<</Type/Annot/Subtype/FreeText/Rect[50 500 90 520]/AP<</N 8 0 R>>/Contents(with a look)>>",
        stream(draw_text([(0, 0, 10, "seen as drawn")]), FORM + b"/Resources" + FONT),
    ]
    raw = one_page(b"/Annots[5 0 R 6 0 R 7 0 R]/Resources" + FONT, draw_text([(50, 700, 10, "The page")]), *notes)

    text = texts(raw)[0]
    assert text.startswith("The page")
    for said in ("a free text", "a field's value", "seen as drawn", "with a look"):
        assert said in text


def test_the_number_of_pages_is_checked_before_they_are_read() -> None:
    kids = b"3 0 R " * 100_000
    raw = write_pdf([CATALOG, b"<</Type/Pages/Kids[%s]/Count 100000>>" % kids, page(4), stream(b"")])

    with pytest.raises(TooMuch, match=r"100,000 pages; limits.pages allows 5,000"):
        read(raw)


def test_more_text_than_allowed() -> None:
    with pytest.raises(TooMuch, match=r"limits.characters"):
        read(text_pdf([(50, 700, 12, "more than ten characters")]), characters=10)


def test_missing_pages_are_gaps_but_not_thousands_of_them() -> None:
    raw = write_pdf(
        [
            CATALOG,
            b"<</Type/Pages/Kids[3 0 R]/Count 4000>>",
            page(4, b"/Resources" + FONT),
            stream(draw_text([(9, 9, 9, "x")])),
        ]
    )
    reading = read(raw)

    assert [page.text for page in reading.pages] == ["x"]
    assert len(reading.gaps) == MOST_GAPS + 1
    assert reading.gaps[-1].reason.startswith("3,979 more pages")


@pytest.mark.parametrize(
    "raw",
    [
        write_pdf([CATALOG, b"<</Type/Pages/Kids[2 0 R]/Count 10>>"]),
        write_pdf([CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 5>>", b"<</Type/Pages/Kids[2 0 R]/Count 5>>"]),
    ],
    ids=["itself", "its parent"],
)
def test_a_loop_among_the_pages_ends(raw: bytes) -> None:
    with pytest.raises(Corrupt, match="none of its pages can be read"):
        read(raw)


@pytest.mark.parametrize("raw", [b"%PDF-1.7\n", b"%PDF-1.7\n" + bytes(range(256)) * 40], ids=["cut", "noise"])
def test_what_cannot_be_repaired_is_corrupt(raw: bytes) -> None:
    with pytest.raises(Corrupt, match="damaged and cannot be repaired"):
        read(raw)


@pytest.mark.skipif(not (CORPUS / "good").is_dir(), reason="the shared corpus is not beside the project")
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext (poppler-utils) is not installed")
@pytest.mark.parametrize("name", ["pdfjs-tracemonkey.pdf", "tika-testPDF.pdf", "unstructured-emphasis-text.pdf"])
def test_words_are_those_that_pdftotext_finds(name: str) -> None:
    def words(text: str) -> Counter[str]:
        return Counter(re.findall(r"\w+", text.lower()))

    path = CORPUS / "good" / name
    wanted = words(subprocess.run(["pdftotext", path, "-"], capture_output=True, check=True, text=True).stdout)
    found = words("\n".join(texts(path.read_bytes())))
    assert (found & wanted).total() >= 0.97 * wanted.total()
