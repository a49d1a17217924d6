"""Small PDFs and images that the tests of pdf, image and ocr make for themselves."""

import io
import zlib
from collections.abc import Sequence
from typing import Any

import pikepdf
from PIL import Image, ImageDraw, ImageFont

LIMITS = {"pages": 5_000, "pixels": 100_000_000, "characters": 50_000_000}
FONT = b"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"

Placed = tuple[float, float, float, str]  # x, y, size, text


def arguments(**limits: int) -> dict[str, Any]:
    return {"name": "", "limits": LIMITS | limits, "ocr": True}


def write_pdf(objects: Sequence[bytes]) -> bytes:
    """A PDF of these objects, numbered from 1 on; the first is the catalog."""
    written, places = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    written += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table
    ending = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return written + ending % (len(objects) + 1, written.rindex(b"xref\n0 "))


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<<%s/Length %d>>\nstream\n%s\nendstream" % (entries, len(content), content)


def page(contents: int, entries: bytes = b"", box: bytes = b"0 0 600 800") -> bytes:
    return b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents %d 0 R%s>>" % (box, contents, entries)


def one_page(entries: bytes, content: bytes, *more: bytes, box: bytes = b"0 0 600 800") -> bytes:
    """Its page is object 3, its content 4, what comes after that is from 5 on."""
    pages = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return write_pdf([CATALOG, pages, page(4, entries, box), stream(content), *more])


def draw_text(lines: Sequence[Placed]) -> bytes:
    return b"".join(
        b"BT /F %g Tf 1 0 0 1 %g %g Tm (%s) Tj ET\n" % (size, x, y, text.encode("latin-1"))
        for x, y, size, text in lines
    )


def text_pdf(*pages: Sequence[Placed]) -> bytes:
    """Pages with lines of Helvetica, drawn in this order."""
    first = 3 + len(pages)
    kids = b" ".join(b"%d 0 R" % (3 + index) for index in range(len(pages)))
    return write_pdf(
        [
            CATALOG,
            b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
            *[page(first + index, b"/Resources" + FONT) for index in range(len(pages))],
            *[stream(draw_text(lines)) for lines in pages],
        ]
    )


def picture(lines: Sequence[Placed], size: tuple[int, int] = (1000, 1300)) -> Image.Image:
    """Black on white; y is the top of a line."""
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    for x, y, height, text in lines:
        pen.text((x, y), text, fill="black", font=ImageFont.load_default(height))
    return image


def encode(image: Image.Image, kind: str, **options: Any) -> bytes:
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def scan_pdf(*images: Image.Image) -> bytes:
    """Pages that are nothing but an image."""
    document = pikepdf.new()
    for image in images:
        drawn = document.add_blank_page(page_size=(500, 500 * image.height / image.width))
        held = pikepdf.Stream(document, zlib.compress(image.convert("L").tobytes()))
        held.update(
            {
                "/Type": pikepdf.Name.XObject,
                "/Subtype": pikepdf.Name.Image,
                "/Width": image.width,
                "/Height": image.height,
                "/ColorSpace": pikepdf.Name.DeviceGray,
                "/BitsPerComponent": 8,
                "/Filter": pikepdf.Name.FlateDecode,
            }
        )
        drawn.obj["/Resources"] = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=held))
        drawn.obj["/Contents"] = pikepdf.Stream(
            document, b"500 0 0 %f 0 0 cm /I Do" % (500 * image.height / image.width)
        )
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()
