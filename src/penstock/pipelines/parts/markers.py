"""Where a page names a part, and how: as its heading, in its running header, in a list, or in passing.

`PART B`, `Teil B`, `Form B-2`, `PARTB`, and without a word `B.3 Result` or `B / 3`. Only a heading or a running header says
that the page belongs to the part. Two parts named within a few lines are a list: a table of contents, a cover sheet.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from rapidfuzz.distance.Levenshtein import distance

from penstock.pipelines.parts.features import EDGE, PageFeatures, PageLine
from penstock.pipelines.parts.fuzzy import Lexicon, shape

NEAR = 4  # lines between two entries of a list
MOST_WORDS = 12  # of a heading, 16 of a running header
CONFUSED = {"8": "B", "4": "A", "13": "B", "ß": "B"}  # what OCR makes of a letter
NUMBER = re.compile(r"^\W{0,4}(?:[^\W\d]{1,6}\W{0,3})?\d{1,3}(?!\d)")  # `- page 2`, `/ 3`
END = re.compile(r"^\W{0,3}$")
CODE = re.compile(r"^\W?([A-Z]) ?[.:,\-–] ?\d{1,2}(?!\d)|^\W?([A-Z])\d{1,2}(?:\.\d{1,2}){1,3}\b")
LETTERED = re.compile(r"^([A-Z]) ?[.):–-]+ ?[A-Z]\w{2}")
CORNER = re.compile(r"(?<![\w.])([A-Z]) ?[-/] ?\d{1,3}\W{0,2}$|^\W?([A-Z]) ?\d{1,3}\W?$")  # `A / 2`, or `A12` alone
ANY = "*"  # before a word that no rule has
LISTED = re.compile(r"^(?:\W{0,2}[\[(|☐☒☑□■✓✔•·*–-]|\d{1,2}[.)] )|(?:\. ?){3,160}\d{1,4}$")


@dataclass(frozen=True, slots=True)
class Marker:
    """A part named on a page. `word` is empty for a code without one; `running` and `heading` may both be so."""

    word: str
    letter: str
    line: int
    heading: bool = False
    running: bool = False
    begins: bool = False  # its line
    numbered: bool = False  # a page number follows
    doubtful: bool = False  # its letter may be something else

    @property
    def counts(self) -> bool:
        return self.heading or self.running

    def rivals(self, other: "Marker") -> bool:
        """Whether both can be entries of one list: `Part A` and `Part B`, not `Part A` and `Section 1`."""
        return self.word == other.word and self.letter != other.letter and self._counted == other._counted

    @property
    def _counted(self) -> bool:
        return len(self.letter) > 1 or self.letter == "I" or self.letter.isdigit()


@dataclass(frozen=True, slots=True)
class Sought:
    """What the markers of the rules ask for: words, as shapes, and letters."""

    lexicon: Lexicon
    words: Collection[str]
    letters: Collection[str]


def find_marks(page: PageFeatures, sought: Sought) -> list[Marker]:
    """All marks on a page, also those that are mere mentions."""
    marks = [
        mark
        for place, line in enumerate(page.lines)
        for mark in (*_worded(page, place, line, sought), *_bare(page, place, line, sought.letters))
    ]
    return [_unless_listed(mark, marks) for mark in marks]


def confirm_marks(found: list[list[Marker]]) -> list[list[Marker]]:
    """Without the marks of unknown words that a packet names with one letter alone: `Envelope A` needs an `Envelope B`."""
    letters: dict[str, set[str]] = {}
    for mark in (mark for marks in found for mark in marks):
        letters.setdefault(mark.word, set()).add(mark.letter)
    return [[mark for mark in marks if not mark.word.startswith(ANY) or len(letters[mark.word]) > 1] for marks in found]


def _unless_listed(mark: Marker, marks: list[Marker]) -> Marker:
    listed = any(
        mark.rivals(other) and abs(other.line - mark.line) <= NEAR
        for other in marks
        if not other.doubtful and (other.counts or other.begins or other.line == mark.line)
    )
    return replace(mark, heading=False, running=False) if listed and mark.counts else mark


def _worded(page: PageFeatures, place: int, line: PageLine, sought: Sought) -> Iterator[Marker]:
    for at, token in enumerate(line.tokens):
        if len(token) < 3:
            continue
        word, end, letter, doubtful = _word(token, sought), _letter_at(line.tokens, at + 1), "", False
        if word and end is not None:
            letter, doubtful = _letter(line.tokens[end], sought.letters)
        if not letter and token[-1].isupper() and token[-1] in sought.letters and shape(token[:-1]) in sought.words:
            word, end, letter, doubtful = shape(token[:-1]), at, token[-1], False
        if not letter and end is not None and len(token) > 3 and token.isalpha() and line.tokens[end] in sought.letters:
            word, letter = ANY + shape(token), line.tokens[end] if line.tokens[end].isupper() else ""
        if letter and end is not None:
            rest = " ".join(line.tokens[end + 1 :])
            yield _graded(Marker(word, letter, place, doubtful=doubtful), page, line, at, rest)


def _word(token: str, sought: Sought) -> str:
    """The word of a marker that a token is, or is nearest to."""
    near = [word for word in sought.lexicon.near(token) if word in sought.words]
    return min(near, key=lambda word: (distance(shape(token), word), word), default="")


def _letter_at(tokens: tuple[str, ...], at: int) -> int | None:
    """Where the letter after a word is: `Part A`, `Part: A`, `Part "A"`."""
    if at < len(tokens) and not tokens[at][0].isalnum():
        at += 1
    return at if at < len(tokens) and tokens[at][0].isalnum() else None


def _letter(token: str, letters: Collection[str]) -> tuple[str, bool]:
    """The letter that a token is, and whether that is a guess. `b` is none: `part a` may be English."""
    if token in letters or (token.upper() in letters and len(token) > 1):
        return (token if token in letters else token.upper()), False
    if token[0] in letters and token[0].isalpha() and token[1:].isdigit():
        return token[0], False
    guess = CONFUSED.get(token, "")
    return (guess, True) if guess in letters else ("", False)


def _graded(mark: Marker, page: PageFeatures, line: PageLine, at: int, rest: str) -> Marker:
    if line.continues:
        return mark
    begins = at == 0 or (at == 1 and not line.tokens[0].isalnum())
    if LISTED.search(line.raw):
        return replace(mark, begins=begins)
    heading = begins and line.words <= MOST_WORDS and not line.prose
    numbered = NUMBER.match(rest) is not None
    alone = END.match(rest) is not None and not line.prose and (mark.line >= EDGE or not heading)
    running = page.is_in(mark.line, "edges") and line.words <= MOST_WORDS + 4 and (numbered or alone)
    return replace(mark, heading=heading, running=running, begins=begins, numbered=numbered)


def _bare(page: PageFeatures, place: int, line: PageLine, letters: Collection[str]) -> Iterator[Marker]:
    if line.continues or LISTED.search(line.raw):
        return
    if found := CODE.match(line.text) or (LETTERED.match(line.text) if page.is_in(place, "title") else None):
        letter = next(filter(None, found.groups()))
        if letter in letters:
            yield Marker("", letter, place, heading=True)
    elif page.is_in(place, "edges") and not line.prose and (found := CORNER.search(line.text)):
        letter = next(filter(None, found.groups()))
        if letter in letters:
            yield Marker("", letter, place, running=True, numbered=True)
