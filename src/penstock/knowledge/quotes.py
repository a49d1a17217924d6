"""Whether a quote really stands in a text, and where.

To the letter first. Then without what typesetting and models change: white space, hyphens at the ends of lines, forms of
quotation marks, dashes and letters (ligatures, full width), and capitals. What is kept is the text's own wording, never the
model's.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

LEAST = 3  # letters and digits: a shorter one is anywhere
LONGEST = 5_000  # characters
MARKS = dict.fromkeys("'‘’‚‛′`´ʼ", "'") | dict.fromkeys('"“”„‟″«»‹›', '"')
DROPPED = frozenset("-\u00ad\u2010\u2011\u2012\u2013\u2014\u2212")  # hyphens and dashes
AROUND = " \t\r\n\"'“”„‟«»‹›‘’‚‛`´…"
SPACELESS = 0x2E80  # scripts from here on have no spaces between words


@dataclass(frozen=True, slots=True)
class Place:
    """Where a quote stands in the text of a page, and how it reads there."""

    page: int
    start: int
    stop: int
    quote: str


@dataclass(frozen=True)
class Passage:
    """A part of a page's text."""

    page: int
    start: int
    text: str

    def find(self, quote: str) -> Place | None:
        return self._at(*_find_exactly(self.text, quote)) or self._find_folded(quote)

    def _find_folded(self, quote: str) -> Place | None:
        folded, places = self._folded
        wanted, _ = fold(quote)
        found = folded.find(wanted) if wanted else -1
        while found >= 0:
            start, stop = places[found], places[found + len(wanted) - 1] + 1
            if _is_whole(self.text, start, stop):
                return self._at(start, stop)
            found = folded.find(wanted, found + 1)
        return None

    def _at(self, start: int, stop: int) -> Place | None:
        return Place(self.page, self.start + start, self.start + stop, self.text[start:stop]) if stop > start else None

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        return fold(self.text)


def find_quote(passages: Sequence[Passage], quote: str) -> Place | None:
    """The first place where it stands; None if it is nowhere, or too short to mean a place."""
    quote = quote.strip(AROUND)
    if len(quote) > LONGEST or sum(char.isalnum() for char in quote) < LEAST:
        return None
    return next((place for passage in passages if (place := passage.find(quote)) is not None), None)


def fold(text: str) -> tuple[str, list[int]]:
    """The text without what may differ, and where each of its characters came from."""
    folded: list[str] = []
    places: list[int] = []
    for index, char in enumerate(text):
        for part in unicodedata.normalize("NFKD", char).casefold():
            sign = MARKS.get(part, part)
            if sign.isspace() or sign in DROPPED or unicodedata.category(sign) in {"Cc", "Cf"}:
                continue
            folded.append(sign)
            places.append(index)
    return "".join(folded), places


def _find_exactly(text: str, quote: str) -> tuple[int, int]:
    found = text.find(quote)
    while found >= 0:
        if _is_whole(text, found, found + len(quote)):
            return found, found + len(quote)
        found = text.find(quote, found + 1)
    return 0, 0


def _is_whole(text: str, start: int, stop: int) -> bool:
    """No word is cut at either end: `art` does not stand in `party`."""
    return not (
        (start > 0 and _joined(text[start - 1], text[start]))
        or (stop < len(text) and _joined(text[stop - 1], text[stop]))
    )


def _joined(one: str, other: str) -> bool:
    return one.isalnum() and other.isalnum() and ord(one) < SPACELESS and ord(other) < SPACELESS
