"""The papers of one small packet: a cover sheet, a part A, a scanned part B, and a download that stopped."""

from io import BytesIO

import pikepdf
from PIL import Image, ImageDraw, ImageFont

COVER = """COVER SHEET

To: the water board
From: the upper mill
Re: renewal of the water right

Part A: the application
Part B: the inspection
"""
APPLICATION = [
    ["PART A", "", "Application for the renewal of a water right", "", "The upper mill draws 400 litres a second."],
    ["Part A - page 2", "", "The sluice gate was rebuilt in oak in 2021.", "Signed: Ada Vermeer, miller"],
]
INSPECTION = ["PART B", "", "Inspection of the turbine", "The main bearing is worn", "and must be replaced"]
A4 = (595, 842)  # points
SCAN = (1240, 1754)  # pixels: A4 at 150 per inch


def papers() -> dict[str, bytes]:
    """Name and bytes of each."""
    application = pdf(APPLICATION)
    return {
        "cover.txt": COVER.encode(),
        "application.pdf": application,
        "inspection.png": scan(INSPECTION),
        "drawing.pdf": application[: len(application) // 3].split(b"xref")[0][:200],
    }


def pdf(pages: list[list[str]]) -> bytes:
    """Lines of text in Helvetica."""
    document = pikepdf.new()
    font = pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
    for lines in pages:
        page = document.add_blank_page(page_size=A4)
        page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F=font))
        shown = "".join(f"({line}) Tj 0 -22 Td " for line in lines)
        page.Contents = document.make_stream(f"BT /F 14 Tf 70 760 Td {shown} ET".encode())
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def scan(lines: list[str]) -> bytes:
    """A page that only OCR can read."""
    image = Image.new("L", SCAN, 246)
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        pen.text((140, 180 + 80 * number), line, fill=30, font=ImageFont.load_default(size=46))
    out = BytesIO()
    image.save(out, "PNG", dpi=(150, 150))
    return out.getvalue()
