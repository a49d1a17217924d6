"""Makes the example documents in `mill/`: ten files of ten kinds that tell one small story.

python make.py            the same bytes each time, with the same versions of Pillow and pikepdf
penstock add mill         what they are for; two of them cannot be read, on purpose

What they say is in story.py. The encrypted one has a password that nobody needs, and the broken one is a download that
stopped: its beginning is a PDF's, and the rest is missing.
"""

from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

import ooxml
import pikepdf
import story
from PIL import Image, ImageDraw, ImageFont

FOLDER = Path(__file__).parent / "mill"
A4 = (595, 842)  # points
SCAN = (1240, 1754)  # pixels: A4 at 150 per inch
PAPER, INK = 244, 40


def pdf(pages: list[str], title: str = "", password: str = "") -> bytes:
    """Lines of text in Helvetica. A password means RC4: weak, but without random bytes, so that it comes out the same."""
    document = pikepdf.new()
    font = document.make_indirect(
        pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
    )
    for text in pages:
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        lines = "".join(f"({line}) Tj T*\n" for line in escaped.splitlines())
        page = document.add_blank_page(page_size=A4)
        page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
        page.Contents = document.make_stream(f"BT /F1 12 Tf 16 TL 72 770 Td\n{lines}ET".encode("latin-1"))
    if title:
        document.docinfo["/Title"] = title
    return saved(document, password)


def scan(pages: list[str]) -> bytes:
    """Sheets as a scanner gives them: pictures of text, a little askew."""
    document = pikepdf.new()
    for number, text in enumerate(pages):
        sheet = Image.new("L", SCAN, PAPER)
        ImageDraw.Draw(sheet).multiline_text((110, 140), text, INK, ImageFont.load_default(44), spacing=26)
        picture = BytesIO()
        sheet.rotate(0.4 - 0.7 * number, Image.Resampling.BICUBIC, fillcolor=PAPER).save(picture, "JPEG", quality=45)
        image = document.make_stream(
            picture.getvalue(),
            Type=pikepdf.Name.XObject,
            Subtype=pikepdf.Name.Image,
            Width=SCAN[0],
            Height=SCAN[1],
            ColorSpace=pikepdf.Name.DeviceGray,
            BitsPerComponent=8,
            Filter=pikepdf.Name.DCTDecode,
        )
        page = document.add_blank_page(page_size=A4)
        page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Sheet=image))
        page.Contents = document.make_stream(f"{A4[0]} 0 0 {A4[1]} 0 0 cm /Sheet Do".encode())
    return saved(document)


def saved(document: pikepdf.Pdf, password: str = "") -> bytes:
    lock = pikepdf.Encryption(user=password, owner=password, R=3, aes=False, metadata=False) if password else False
    written = BytesIO()
    document.save(written, static_id=True, encryption=lock, compress_streams=False)
    return written.getvalue()


def mail(text: str, attachment: str) -> bytes:
    message = EmailMessage()
    message["From"] = "Tomas Brandt <miller@watermill.example>"
    message["To"] = "Ingrid Halvorsen <halvorsen@district.example>"
    message["Date"] = "Tue, 12 Mar 2024 08:05:00 +0100"
    message["Subject"] = "The turbine stands still: new bearing needed"
    message["Message-ID"] = "<20240312.1@watermill.example>"
    message.set_content(text)
    message.add_attachment(attachment, filename="offer-2207.txt")
    message.set_boundary("=====mill=====")
    return message.as_bytes()


def make() -> dict[str, bytes]:
    """Every file by its name."""
    manual = pdf(story.MANUAL, story.MANUAL_TITLE)
    return {
        "turbine-manual.pdf": manual,
        "maintenance-log.pdf": scan(story.LOG),
        "gate-inspection.docx": ooxml.docx(story.REPORT_TITLE, story.REPORT),
        "energy-yield.xlsx": ooxml.xlsx(story.YIELD_TITLE, story.YIELD),
        "flood-plan.pptx": ooxml.pptx(story.PLAN_TITLE, story.PLAN),
        "visitors.html": story.PAGE.encode(),
        "new-bearing.eml": mail(story.MAIL, story.OFFER),
        "notes.md": story.NOTES.encode(),
        "insurance.pdf": pdf([story.POLICY], password="weir"),  # noqa: S106
        "gate-drawing.pdf": manual[:120],
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, content in make().items():
        (FOLDER / name).write_bytes(content)
        print(f"{len(content):7,} bytes  {name}")


if __name__ == "__main__":
    main()
