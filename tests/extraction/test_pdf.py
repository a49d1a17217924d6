import io
import re
import shutil
import subprocess
import zlib
from collections import Counter
from pathlib import Path

import pikepdf
import pytest

from penstock.errors import Corrupt, Encrypted, Suspicious, TooMuch
from penstock.extraction.pdf import MOST_GAPS, read_pdf
from penstock.extraction.pdf_text import HYPHEN, mend
from penstock.extraction.reading import Reading
from tests.extraction.papers import (
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
CALLS_FORM = b"/Resources<</XObject<</F 5 0 R>>>>"


def read(raw: bytes, **limits: int) -> Reading:
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
    assert mend(f"com{HYPHEN}pile", frozenset()) == "compile"
    assert mend(f"run{HYPHEN}time", frozenset({"run-time"})) == "run-time"  # the document writes it so elsewhere
    assert mend(f"Mask{HYPHEN}RCNN and 2{HYPHEN}3", frozenset()) == "Mask-RCNN and 2-3"
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


@pytest.mark.parametrize(
    "raw",
    [
        one_page(CALLS_FORM, b"/F Do", stream(b"/F Do /F Do", FORM + CALLS_FORM)),
        one_page(CALLS_FORM, b"/F Do", stream(b"/F Do /F Do", FORM)),  # it uses the resources of the page
        one_page(CALLS_FORM, b"/F Do", stream(b"/F Do", FORM + CALLS_FORM).replace(b"/Form", b"/F#6frm")),
    ],
    ids=["itself", "inherited", "hidden name"],
)
def test_a_form_that_draws_itself_is_refused(raw: bytes) -> None:
    with pytest.raises(Suspicious, match="draws itself"):
        read(raw)


def test_forms_of_forms_of_forms_are_refused_by_what_they_draw() -> None:
    nested = [
        stream(b"/F Do " * 10, FORM + b"/Resources<</XObject<</F %d 0 R>>>>" % (number + 1)) for number in range(5, 14)
    ]

    with pytest.raises(Suspicious, match="draws more than 100,000 forms"):
        read(one_page(CALLS_FORM, b"/F Do", *nested, stream(b"0 0 m 1 1 l S", FORM)))


def test_a_form_that_only_lists_itself_is_harmless() -> None:
    drawn = stream(
        draw_text([(50, 700, 10, "inside")]),
        FORM + b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>/XObject<</F 5 0 R>>>>",
    )

    assert texts(one_page(CALLS_FORM, b"/F Do", drawn)) == ["inside"]


def test_a_page_that_unpacks_to_gigabytes_is_refused() -> None:
    packer, packed = zlib.compressobj(9), b""
    for _ in range(65):
        packed += packer.compress(b" " * 2**20)
    packed += packer.flush()
    twice = stream(zlib.compress(packed, 9), b"/Filter[/FlateDecode/FlateDecode]")
    raw = write_pdf([CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page(4), twice])

    with pytest.raises(Suspicious, match="unpacks to more than 64 MB"):
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
