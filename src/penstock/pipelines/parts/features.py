"""Features of a page: its lines without noise, which of them are its title or its edges, and figures of its layout.

Only the beginning and the end of a long page are read, so that the work on a page is bounded.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from penstock.pipelines.parts.fuzzy import plain, repair

SIGNS = 4_000  # at each end of a page
LINES = 40  # at each end of a page
LINE = 160  # signs of a line that patterns see
ZONES = ("title", "top", "bottom", "edges", "anywhere")
TITLE, TOP, BOTTOM, EDGE = 5, 10, 5, 2  # lines
TOKEN = re.compile(r"[^\W_]+|[^\w\s]")
FIELD = re.compile(r"^\W{0,3}\w[^:]{1,40}:(?:\s|$)")
LEADERS = re.compile(r"(?:\. ?){3,160}\d{1,4}$")
OF = re.compile(r"(?<![\d.,/-])(\d{1,4}) ?(?:of|von|de|sur|di|van|av|af|z|/) ?(\d{1,4})(?![\d.,/-])", re.IGNORECASE)
ALONE = re.compile(
    r"^\W{0,3}(?:(?:page|seite|p|s|pg|pag|pagina|blatt|blad|sheet|side|sida|hoja|folio|foglio|feuille)\b\W{0,2})?(\d{1,4})\W{0,3}$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PacketPage:
    """One page of a packet; `document` is the place of its source document, from 0: a first page is a hint."""

    number: int
    text: str
    document: int


@dataclass(frozen=True, slots=True)
class Part:
    """Pages `first` to `last`, both included, which have one label; the confidence is the mean over its pages."""

    label: str
    first: int
    last: int
    confidence: float


@dataclass(frozen=True, slots=True)
class PageLine:
    """A line that has something on it."""

    text: str  # plain and repaired
    raw: str  # as it was, for patterns with accents
    tokens: tuple[str, ...]
    words: int
    field: bool  # of a form: `Name: …`
    prose: bool  # a sentence, or a piece of one
    continues: bool  # what the line above has begun


@dataclass(frozen=True, slots=True)
class PageNumber:
    """`page` of `pages`, or a number that stands alone."""

    page: int
    pages: int | None


@dataclass(frozen=True)
class PageFeatures:
    page: PacketPage
    lines: tuple[PageLine, ...]
    first: bool  # of the packet
    opens: bool  # a document

    def zone(self, where: str) -> range:
        """The places of the lines there; `title` still contains prose, which its users leave out."""
        count = len(self.lines)
        if where in {"title", "top"}:
            return range(min(count, TITLE if where == "title" else TOP))
        return range(max(0, count - BOTTOM) if where == "bottom" else 0, count)

    def is_in(self, place: int, where: str) -> bool:
        if where == "edges":
            return place < EDGE or place >= len(self.lines) - EDGE
        return place in self.zone(where) and (where != "title" or not self.lines[place].prose)

    @cached_property
    def number(self) -> PageNumber | None:
        """The page number at the edges of the page."""
        edges = [line.text for place, line in enumerate(self.lines) if self.is_in(place, "edges")]
        for text in reversed(edges):
            if (found := OF.search(text)) and 1 <= int(found[1]) <= int(found[2]):
                return PageNumber(int(found[1]), int(found[2]))
        alone = next(filter(None, map(ALONE.match, reversed(edges))), None)
        return PageNumber(int(alone[1]), None) if alone else None

    def layout(self) -> dict[str, float]:
        """Figures that rules may ask for."""
        text = "".join(line.text for line in self.lines)
        count, letters = max(1, len(self.lines)), sum(map(str.isalpha, text))
        short = sum(line.words <= 4 for line in self.lines)
        forms = sum(line.field for line in self.lines)
        return {
            "lines": len(self.lines),
            "characters": len(text),
            "words_per_line": sum(line.words for line in self.lines) / count,
            "digit_share": sum(map(str.isdigit, text)) / max(1, len(text)),
            "capital_share": sum(map(str.isupper, text)) / max(1, letters),
            "short_line_share": short / count,
            "form_share": forms / count,
            "prose_share": sum(line.prose for line in self.lines) / count,
            "leader_lines": sum(LEADERS.search(line.raw) is not None for line in self.lines),
            "blank": float(letters < 8),
            "flowing": float(bool(self.lines) and (self.lines[0].prose or self.lines[0].field)),
            "titled": float(bool(self.lines) and _is_title(self.lines[0])),
        }


def _is_title(line: PageLine) -> bool:
    return (
        line.words <= 7
        and not line.prose
        and not line.field
        and not line.text.endswith((".", ",", ";"))
        and line.text[:1].isupper()
    )


def read_features(page: PacketPage, before: PacketPage | None) -> PageFeatures:
    """Read a page; `before` is the one above it in the packet."""
    opens = before is None or before.document != page.document
    return PageFeatures(page, tuple(_lines(page.text)), before is None, opens)


def _lines(text: str) -> list[PageLine]:
    pieces = [text] if len(text) <= 2 * SIGNS else [text[:SIGNS], text[-SIGNS:]]
    rows = [row for piece in pieces for row in piece.splitlines()]
    if len(rows) > 2 * LINES:
        rows = [*rows[:LINES], *rows[-LINES:]]
    lines: list[PageLine] = []
    gap = True
    for row in rows:
        raw = " ".join(row.split())[:LINE]
        if any(map(str.isalnum, raw)):
            lines.append(_line(raw, None if gap else lines[-1]))
        gap = not raw or not lines
    return lines


def _line(raw: str, above: PageLine | None) -> PageLine:
    text = repair(plain(raw))[:LINE]
    tokens = tuple(TOKEN.findall(text))
    words = sum(token[0].isalnum() for token in tokens)
    small = sum(map(str.islower, text)) / max(1, sum(map(str.isalpha, text)))
    begun = above is not None and above.prose and not above.text.endswith((".", ":", ";", "!", "?"))
    field = FIELD.match(text) is not None
    prose = small > 0.7 and not field and (words >= 8 or begun or (words >= 5 and text.endswith(".")))
    return PageLine(text, raw, tokens, words, field, prose, begun and prose)
