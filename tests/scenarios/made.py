"""Small documents that tests make themselves."""

import io
import zipfile


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
