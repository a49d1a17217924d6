"""A letter as an image, and how much of it was read wrongly."""

from PIL import Image

from tests.extraction.sample_pdfs import Placed, picture

LETTER: list[Placed] = [
    (60, 60, 34, "Dear reader of this letter"),
    (60, 120, 34, "the quick brown fox jumps"),
    (60, 180, 34, "over the lazy dog again"),
    (60, 240, 34, "and nobody knows why"),
]


SAID = "\n".join(text for *_, text in LETTER)


def letter(size: tuple[int, int] = (620, 400)) -> Image.Image:
    return picture(LETTER, size)


def errors(found: str, wanted: str) -> float:
    """Characters to insert, delete or change, in relation to what is wanted; case and kind of space do not count."""
    one, two = " ".join(found.lower().split()), " ".join(wanted.lower().split())
    above = list(range(len(two) + 1))
    for row, left in enumerate(one, 1):
        current = [row]
        for column, right in enumerate(two, 1):
            current.append(min(above[column] + 1, current[-1] + 1, above[column - 1] + (left != right)))
        above = current
    return above[-1] / len(two)
