"""What reading a document gives: pages of text with their structure, what is missing, and what was inside of it.

It is made in a box, from hostile bytes, and comes to the parent as JSON. `Reading.decode` therefore trusts nothing: every
field has its type and its bounds, or it is `Corrupt`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from penstock.errors import Corrupt

T = TypeVar("T")

MARKS = 20_000  # headings, or tables, of a page: a million of them would be a burden to the parent


@dataclass(frozen=True, slots=True)
class Heading:
    """Where in a page's text a part begins."""

    start: int
    level: int  # 1 is the highest
    title: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table in a page's text, one row per line; its header is repeated in each chunk of it."""

    start: int
    stop: int
    header: str


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one page, of one slide, of one sheet; unpaged formats are one page."""

    number: int  # from 1 on
    text: str
    headings: Sequence[Heading] = ()
    tables: Sequence[Table] = ()
    ocr: float | None = None  # how sure the OCR was (0 to 1), if it was one


@dataclass(frozen=True, slots=True)
class Gap:
    """What is missing, and why; without a page, in the whole document."""

    page: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A document as text. `scanned` are the numbers of pages that only OCR can read; they are not in `pages` yet."""

    media_type: str
    pages: Sequence[Page] = ()
    scanned: Sequence[int] = ()
    title: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)  # author, created, … as the file says
    gaps: Sequence[Gap] = ()

    def encode(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def decode(cls, value: object) -> "Reading":
        """From what a box has sent."""
        fields = _dict(value)
        return cls(
            media_type=_text(fields.get("media_type"), 200),
            pages=[decode_page(page) for page in _list(fields.get("pages"))],
            scanned=[_whole(number) for number in _list(fields.get("scanned"))],
            title=_text(fields.get("title"), 1000),
            facts={_text(key, 100): _text(fact, 1000) for key, fact in _dict(fields.get("facts")).items()},
            gaps=[decode_gap(gap) for gap in _list(fields.get("gaps"))],
        )


def decode_page(value: object) -> Page:
    fields = _dict(value)
    text = _text(fields.get("text"))
    size = len(text)
    return Page(
        number=_whole(fields.get("number")),
        text=text,
        headings=[
            Heading(_whole(h.get("start"), size), _whole(h.get("level"), 9), _text(h.get("title"), 1000))
            for h in map(_dict, _list(fields.get("headings"))[:MARKS])
        ],
        tables=[
            Table(_whole(t.get("start"), size), _whole(t.get("stop"), size), _text(t.get("header"), 10_000))
            for t in map(_dict, _list(fields.get("tables"))[:MARKS])
        ],
        ocr=_maybe(fields.get("ocr"), _share),
    )


def decode_gap(value: object) -> Gap:
    fields = _dict(value)
    return Gap(_maybe(fields.get("page"), _whole), _text(fields.get("reason"), 1000))


def _text(value: object, most: int | None = None) -> str:
    """PostgreSQL keeps no NUL, and a lone half of a character cannot be encoded."""
    if not isinstance(value, str):
        raise Corrupt("The reader of this format returned something else than text.")
    clean = value.replace("\0", " ") if "\0" in value else value
    if not clean.isascii():
        clean = clean.encode("utf-8", "replace").decode("utf-8")
    return clean if most is None else clean[:most]


def _whole(value: object, most: int = 2**31 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Corrupt("The reader of this format returned a number that cannot be.")
    return value


def _share(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise Corrupt("The reader of this format returned a number that cannot be.")
    return float(value)


def _maybe(value: object, read: Callable[[object], T]) -> T | None:
    return None if value is None else read(value)


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):  # a tuple is what a reader in this very process gives
        raise Corrupt("The reader of this format returned something else than a list.")
    return value


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Corrupt("The reader of this format returned something else than named fields.")
    return value
