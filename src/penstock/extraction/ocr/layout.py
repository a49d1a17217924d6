"""The reading order of lines that only have a place on the page: lines of OCR, and PDF lines that were drawn in no order.

Lines of one height next to each other are a row: a receipt's article and its price belong together. Columns of prose are
the exception: they are read one after the other. A gutter counts as such when few lines cross it and both sides hold
lines that look like prose (several, long, filling their column), so that tables stay rows. Lines which cross the gutter
(titles, wide figures) cut the page into bands. y grows downwards. Pure geometry: no model, no library.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

Row = list["TextBox"]
Block = list[Row]

DEEPEST = 4  # splits of splits: up to 16 columns
CROSSING = 0.2  # share of the lines that may cross a gutter


@dataclass(frozen=True, slots=True)
class TextBox:
    """A piece of text and where it is."""

    left: float
    top: float
    right: float
    bottom: float
    text: str
    score: float = 1.0

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def arrange(boxes: Sequence[TextBox]) -> list[Block]:
    """Blocks in reading order, each of rows from top to bottom, each of boxes from left to right."""
    if not boxes:
        return []
    return [block for block in _region(boxes, median(box.height for box in boxes), DEEPEST) if block]


def join(blocks: Sequence[Block]) -> str:
    """A row is a line; blocks, and rows with more than a line of space between them, are paragraphs."""
    return "\n\n".join("\n".join(_lines(block)) for block in blocks)


def _lines(block: Block) -> Iterator[str]:
    before: Row | None = None
    for row in block:
        if before and _top(row) - _bottom(before) > max(box.height for box in before):
            yield ""
        yield " ".join(box.text.strip() for box in row)
        before = row


def _top(row: Row) -> float:
    return min(box.top for box in row)


def _bottom(row: Row) -> float:
    return max(box.bottom for box in row)


def _region(boxes: Sequence[TextBox], unit: float, depth: int) -> list[Block]:
    gutter = _gutter(boxes, unit) if depth and len(boxes) >= 8 else None
    if gutter is None:
        return [_rows(boxes)]
    wide = [box for box in boxes if box.left < gutter < box.right]
    blocks: list[Block] = []
    above = [float("-inf"), *sorted({box.middle for box in wide})]
    for number, (start, stop) in enumerate(pairwise([*above, float("inf")])):
        if number:
            blocks.append(_rows([box for box in boxes if box.middle == start and box in wide]))
        band = [box for box in boxes if start <= box.middle < stop and box not in wide]
        left, right = [box for box in band if box.right <= gutter], [box for box in band if box.left >= gutter]
        if min(len(left), len(right)) < 2:
            blocks.append(_rows(band))
        else:
            blocks += _region(left, unit, depth - 1) + _region(right, unit, depth - 1)
    return _unite([block for block in blocks if block])


def _unite(blocks: list[Block]) -> list[Block]:
    """Wide lines directly below each other are one block, not a paragraph each."""
    united: list[Block] = []
    for block in blocks:
        if united and len(block) == 1 and len(united[-1]) == 1:
            united[-1] = [*united[-1], *block]
        else:
            united.append(block)
    return united


def _rows(boxes: Sequence[TextBox]) -> Block:
    rows: list[Row] = []
    for box in sorted(boxes, key=lambda box: box.middle):
        row = min(
            (row for row in rows[-8:] if _next_to(box, row)),  # rows further up cannot be at its height
            key=lambda row: abs(_nearest(box, row).middle - box.middle),
            default=None,
        )
        if row is None:
            rows.append([box])
        else:
            row.append(box)
    for row in rows:
        row.sort(key=lambda box: box.left)
    return sorted(rows, key=lambda row: sum(box.middle for box in row) / len(row))


def _nearest(box: TextBox, row: Row) -> TextBox:
    """The one next to it: a crumpled receipt's row may rise over its width by more than its height."""
    return min(row, key=lambda other: max(other.left - box.right, box.left - other.right))


def _next_to(box: TextBox, row: Row) -> bool:
    other = _nearest(box, row)
    if abs(other.middle - box.middle) > 0.5 * min(other.height, box.height):
        return False
    overlap = max(min(each.right, box.right) - max(each.left, box.left) for each in row)
    return overlap < 0.3 * min(box.width, other.width)


def _gutter(boxes: Sequence[TextBox], unit: float) -> float | None:
    """The middle of the strip between two columns: crossed by the fewest lines, then the widest."""
    most = int(CROSSING * len(boxes))
    for crossing in range(0, most + 1, 1 + most // 10):
        strips = sorted(_strips(boxes, crossing), key=lambda strip: strip[0] - strip[1])
        for start, stop in strips:
            if stop - start < 0.7 * unit:
                break
            if _divides(boxes, (start + stop) / 2, unit):
                return (start + stop) / 2
    return None


def _strips(boxes: Sequence[TextBox], most: int) -> Iterator[tuple[float, float]]:
    """Vertical strips, as wide as can be, in which at most so many boxes are."""
    steps = sorted([(box.left, 1) for box in boxes] + [(box.right, -1) for box in boxes])
    crossing, start = 0, steps[0][0]
    for x, change in steps:
        if crossing <= most < crossing + change:
            yield start, x
        elif crossing + change <= most < crossing:
            start = x
        crossing += change


def _divides(boxes: Sequence[TextBox], x: float, unit: float) -> bool:
    left, right = [box for box in boxes if box.right <= x], [box for box in boxes if box.left >= x]
    if not (_prose(left, unit) and _prose(right, unit)):
        return False
    shared = min(_bottom(left), _bottom(right)) - max(_top(left), _top(right))
    return shared >= 0.5 * min(_bottom(left) - _top(left), _bottom(right) - _top(right))


def _prose(column: Sequence[TextBox], unit: float) -> bool:
    """Several lines, long ones, of which most fill the column."""
    if len(column) < 4:
        return False
    width = sorted(box.width for box in column)[int(0.9 * (len(column) - 1))]
    filled = sum(box.width >= 0.6 * width for box in column)
    return width >= 8 * unit and filled >= 0.5 * len(column)
