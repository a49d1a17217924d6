"""Packets of our own making, with the true label of each page.

A layout says how one office words and orders its papers; what varies from packet to packet (lengths, order, gaps,
separators, whether there is a cover sheet) is drawn here, from a seed, so that a packet is the same in each run. A line
of a page begins with a mark: `# ` a title, `## ` a heading, `~ ` the small print of headers and footers.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from textwrap import wrap

MARKS = ("# ", "## ", "~ ")
WIDTH = 72  # characters of a line of prose


@dataclass(frozen=True)
class Sheet:
    """One page: its lines with their marks, its true label, the place of its document."""

    lines: tuple[str, ...]
    label: str
    document: int

    @property
    def text(self) -> str:
        return "\n".join(unmarked(line) for line in self.lines)


@dataclass(frozen=True)
class Packet:
    """The pages of one packet; `scanned` ones reach the rules through OCR."""

    name: str
    layout: str
    scanned: bool
    sheets: tuple[Sheet, ...]


@dataclass
class Case:
    """What the papers of one packet have in common."""

    person: str
    number: str
    date: str
    office: str
    random: Random = field(repr=False)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        return self.random.random() < share


class Layout(ABC):
    """How one office makes its packets. A page is a list of marked lines."""

    name: str
    offices: Sequence[str]
    covered = 0.8  # share of the packets with a cover sheet
    backwards = 0.1  # share with B before A
    prose: Sequence[str]

    @abstractmethod
    def cover(self, case: Case) -> list[list[str]]: ...

    @abstractmethod
    def part(self, case: Case, label: str, pages: int) -> list[list[str]]: ...

    @abstractmethod
    def other(self, case: Case) -> list[list[str]]: ...

    def between(self, case: Case) -> list[list[str]]:
        """What may lie between the parts: a separator sheet, an empty page."""
        return [[]] if case.chance(0.3) else []

    def after_cover(self, case: Case) -> list[list[str]]:
        """Such as a table of contents."""
        return []

    def paragraphs(self, case: Case, count: int) -> list[str]:
        """Prose, each sentence at most once on a page."""
        sentences = case.random.sample(list(self.prose), min(len(self.prose), 3 * count))
        lines: list[str] = []
        for start in range(0, len(sentences), 3):
            text = " ".join(sentences[start : start + 3]).format(
                person=case.person, number=case.number, date=case.date, office=case.office
            )
            lines += [*wrap(text, WIDTH), ""]
        return lines


NAMES = (
    "J. Okafor",
    "M. Lindqvist",
    "Claire Dubois",
    "R. Banerjee",
    "Anna Schulz",
    "P. Moreau",
    "T. Whitfield",
    "L. Romero",
)


def make_packet(layout: Layout, number: int, *, scanned: bool) -> Packet:
    """The same packet for the same number."""
    draw = Random(f"{layout.name}-{number}")
    date = f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.{draw.randint(2019, 2026)}"
    case = Case(draw.choice(NAMES), f"{draw.randint(10, 99)}-{draw.randint(1000, 99999)}", date, "", draw)
    case.office = draw.choice(layout.offices)
    return Packet(f"{layout.name}-{number}", layout.name, scanned, tuple(_sheets(layout, case)))


def _sheets(layout: Layout, case: Case) -> Iterator[Sheet]:
    split = case.chance(0.5)  # whether its sources were several files, or one scan of everything
    for place, (label, group) in enumerate(groupby(_papers(layout, case), key=lambda paper: paper[0])):
        for _, pages in group:
            for lines in pages:
                yield Sheet(tuple(lines), label, place if split else 0)


def _papers(layout: Layout, case: Case) -> Iterator[tuple[str, list[list[str]]]]:
    if case.chance(layout.covered):
        yield "cover", layout.cover(case)
        if pages := layout.after_cover(case):
            yield "other", pages
    parts = ["A", "B"]
    if case.chance(0.08):
        parts = [case.random.choice(parts)]
    elif case.chance(layout.backwards):
        parts.reverse()
    for place, label in enumerate(parts):
        if place and (pages := layout.between(case)):
            yield "other", pages
        yield label, layout.part(case, label, case.random.choice((1, 1, 2, 2, 3, 4)))
    for _ in range(case.random.choice((0, 1, 1, 2))):
        yield "other", layout.other(case)


def unmarked(line: str) -> str:
    return next((line.removeprefix(mark) for mark in MARKS if line.startswith(mark)), line)


def form(case: Case, *labels: str) -> list[str]:
    """Lines of a form: a label, and something that was filled in, or nothing."""
    fills = (case.person, case.number, case.date, case.office, "", f"{case.random.randint(100, 99999)}")
    return [f"{label}: {case.random.choice(fills)}".rstrip() for label in labels]


def table(case: Case, *rows: str) -> list[str]:
    """Rows with two figures."""
    return [f"{row}   {case.random.randint(1, 99)}   {case.random.randint(100, 9999) / 100:.2f}" for row in rows]
