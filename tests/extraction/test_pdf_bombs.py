import io
import zlib

import pytest

from penstock.errors import Suspicious
from penstock.extraction.pdf.reader import read_pdf
from penstock.extraction.result import ExtractedDocument
from tests.extraction.sample_pdfs import CATALOG, arguments, draw_text, one_page, page, stream, write_pdf

FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]"
CALLS_FORM = b"/Resources<</XObject<</F 5 0 R>>>>"
BESIDE_NOTHING = b"/Resources<</XObject<</A 99 0 R/B 7/F 5 0 R>>>>"


def read(raw: bytes) -> ExtractedDocument:
    return read_pdf(io.BytesIO(raw), arguments())


@pytest.mark.parametrize(
    "raw",
    [
        one_page(CALLS_FORM, b"/F Do", stream(b"/F Do /F Do", FORM + CALLS_FORM)),
        one_page(CALLS_FORM, b"/F Do", stream(b"/F Do /F Do", FORM)),  # it uses the resources of the page
        one_page(CALLS_FORM, b"/F Do", stream(b"/F Do", FORM + CALLS_FORM).replace(b"/Form", b"/F#6frm")),
        one_page(BESIDE_NOTHING, b"/F Do", stream(b"/F Do /F Do", FORM + BESIDE_NOTHING)),
    ],
    ids=["itself", "inherited", "hidden name", "beside one that is not there"],
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

    assert [each.text for each in read(one_page(CALLS_FORM, b"/F Do", drawn)).pages] == ["inside"]


def test_a_page_that_unpacks_to_gigabytes_is_refused() -> None:
    packer, packed = zlib.compressobj(9), b""
    for _ in range(65):
        packed += packer.compress(b" " * 2**20)
    packed += packer.flush()
    twice = stream(zlib.compress(packed, 9), b"/Filter[/FlateDecode/FlateDecode]")
    raw = write_pdf([CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page(4), twice])

    with pytest.raises(Suspicious, match="unpacks to more than 64 MB"):
        read(raw)


def test_a_page_that_repeats_itself_is_refused() -> None:
    """pdfium keeps half a kilobyte for each piece of text: this would take a gigabyte."""
    packed = zlib.compress(b"BT /F 9 Tf " + b"(a) Tj " * 2_000_000 + b"ET", 9)
    raw = write_pdf([CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page(4), stream(packed, b"/Filter/FlateDecode")])

    with pytest.raises(Suspicious, match="over and over"):
        read(raw)


def test_a_broken_page_does_not_hide_the_others() -> None:
    broken, good = b"<</Type/Page/Parent 2 0 R/Contents[7 8 9]>>", page(5)
    packed = stream(zlib.compress(b"q " * 2_000_000, 9), b"/Filter/FlateDecode")
    raw = write_pdf([CATALOG, b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>", broken, good, packed])

    with pytest.raises(Suspicious, match="over and over"):
        read(raw)
