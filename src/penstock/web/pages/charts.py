"""Charts as SVG, drawn on the server: they need no script, follow the colours of the page, and are read out by their label.

A chart is stretched to its place (`preserveAspectRatio="none"`), so all words stand next to it, in HTML. Colours are
classes: a page has no styles of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

HEIGHT = 100
SLOT = 10  # units of a column, of which a tenth is air on each side


@dataclass(frozen=True, slots=True)
class Column:
    """One stretch of time: its parts from the bottom to the top, and its tooltip."""

    parts: tuple[tuple[str, float], ...]  # class, amount
    words: str

    @property
    def total(self) -> float:
        return sum(amount for _, amount in self.parts)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A bar of a timeline."""

    name: str
    tone: str  # a class
    start: datetime
    end: datetime
    note: str = ""

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


def ceiling(largest: float) -> float:
    """A round number that is not less: 1, 2, 5, 10, 20, 50, …"""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if step * factor >= largest:
                return step * factor
        step *= 10


def columns(given: Sequence[Column], label: str, top: float | None = None) -> Markup:
    """Stacked columns, each with its words as a tooltip."""
    top = top or ceiling(max((each.total for each in given), default=1) or 1)
    drawn = Markup("").join(_column(each, turn * SLOT, top) for turn, each in enumerate(given))
    return _chart(drawn, len(given) * SLOT, label, "columns")


def _column(column: Column, x: int, top: float) -> Markup:
    drawn, y = [], float(HEIGHT)
    for name, amount in column.parts:
        if amount <= 0:
            continue
        tall = max(amount / top * HEIGHT, 1.5)  # one of thousands is seen, too
        y = max(0.0, y - tall)
        drawn.append(
            Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
                name, x + 1, y, SLOT - 2, tall
            )
        )
    ground = Markup('<rect class="ground" x="{}" y="0" width="{}" height="{}"/>').format(x, SLOT, HEIGHT)
    return Markup("<g><title>{}</title>{}{}</g>").format(column.words, ground, Markup("").join(drawn))


def area(values: Sequence[float], words: Sequence[str], label: str, top: float | None = None, tone: str = "") -> Markup:
    """A line over time with the ground below it filled."""
    top = top or ceiling(max(values, default=1) or 1)
    points = [(turn * SLOT + SLOT / 2, HEIGHT - value / top * (HEIGHT - 2)) for turn, value in enumerate(values)]
    if not points:
        return _chart(Markup(""), SLOT, label, "area")
    line = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
    shape = f"{points[0][0]:.0f},{HEIGHT} {line} {points[-1][0]:.0f},{HEIGHT}"
    marks = Markup("").join(
        Markup('<g><title>{}</title><rect class="ground" x="{}" y="0" width="{}" height="{}"/></g>').format(
            said, turn * SLOT, SLOT, HEIGHT
        )
        for turn, said in enumerate(words)
    )
    drawn = Markup('<polygon class="fill" points="{}"/><polyline class="line" points="{}"/>{}').format(
        shape, line, marks
    )
    return _chart(drawn, len(values) * SLOT, label, f"area {tone}")


def bar(stretch: Stretch, among: Sequence[Stretch]) -> Markup:
    """One row of a timeline: where in the time of all of them it lies."""
    first = min(each.start for each in among)
    whole = (max(each.end for each in among) - first).total_seconds() or 1.0
    x = (stretch.start - first).total_seconds() / whole * 1000
    wide = max(stretch.seconds / whole * 1000, 4)  # the shortest is seen, too
    return Markup(
        '<svg class="gantt" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rail" width="1000" height="10"/><rect class="{}" x="{:.1f}" width="{:.1f}" height="10"/></svg>'
    ).format(stretch.tone, min(x, 996), wide)


def divided(parts: Sequence[tuple[str, float, str]], label: str) -> Markup:
    """A bar that is divided: class, amount, words of each part."""
    whole = sum(amount for _, amount, _ in parts) or 1
    x, drawn = 0.0, []
    for name, amount, words in parts:
        wide = amount / whole * 1000
        if amount:
            drawn.append(
                Markup('<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="10"><title>{}</title></rect>').format(
                    name, x, max(wide, 2), words
                )
            )
        x += wide
    return Markup(
        '<svg class="divided" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(drawn))


def level(value: float, most: float, label: str, tone: str = "") -> Markup:
    part = 0 if most <= 0 else min(1.0, value / most)
    return Markup(
        '<svg class="level {}" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="rail" width="100" height="6"/><rect class="used" width="{:.1f}" height="6"/></svg>'
    ).format(tone, label, part * 100)


def _chart(drawn: Markup, wide: float, label: str, name: str) -> Markup:
    lines = Markup("").join(
        Markup('<line class="grid" x1="0" x2="{}" y1="{}" y2="{}"/>').format(wide, y, y) for y in (0, 50, HEIGHT)
    )
    return Markup(
        '<svg class="chart {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}{}</svg>'
    ).format(name, wide, HEIGHT, label, lines, drawn)
