"""Small documents that tests make themselves."""

import io
import zipfile

import pikepdf


def story(words: int, seed: int = 0) -> bytes:
    """A text of so many different words, in sentences."""
    lines = [
        f"Sentence {number} of story {seed} tells of turbine {number % 97} and gate {number % 31}."
        for number in range(words // 9 + 1)
    ]
    return "\n".join(lines).encode()


def picture(text: str) -> bytes:
    """An image that only OCR can read."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (900, 200), "white")
    ImageDraw.Draw(image).text((40, 60), text, fill="black", font=ImageFont.load_default(size=56))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def archive(**members: bytes) -> bytes:
    """A zip of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name.replace("_", "."), content)
    return out.getvalue()


def scan(pages: int) -> bytes:
    """A TIFF with so many pages, of which only OCR could make text."""
    from PIL import Image

    first, *others = [Image.new("L", (300, 200), 255 - number) for number in range(pages)]
    out = io.BytesIO()
    first.save(out, "TIFF", save_all=True, append_images=others)
    return out.getvalue()


def pdf(*texts: str) -> bytes:
    """A PDF with a page for each text."""
    made = pikepdf.new()
    for text in texts:
        page = made.add_blank_page(page_size=(595, 842))
        font = pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
        lines = "".join(f"({line}) Tj 0 -16 Td " for line in text.splitlines())
        page.Contents = made.make_stream(f"BT /F1 12 Tf 60 780 Td {lines} ET".encode())
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()
