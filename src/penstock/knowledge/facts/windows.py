"""Windows: the parts of a document that a language model reads at once, whole pages or, of long pages, whole paragraphs.

A window is a list of places, without the text. Cutting the same pages again gives the same windows.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

# Where a long page is cut: at the last occurrence, in the second half of the window, of the first mark that occurs there.
BREAKS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?。])\s"), re.compile(r"\s"))


@dataclass(frozen=True, slots=True)
class PageSpan:
    """A part of a page, from `start` to before `stop`."""

    page: int
    start: int
    stop: int


Window = list[PageSpan]


class Cutter:
    """Cuts pages into windows; pages need not be in memory together."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._open: Window = []
        self._room = size

    def add(self, pages: Iterable[tuple[int, str]]) -> list[Window]:
        """Add pages, and return the windows that are full."""
        full = []
        for number, text in pages:
            for start, stop in _pieces(text, self._size):
                if self._open and stop - start > self._room:
                    full.append(self._take())
                self._open.append(PageSpan(number, start, stop))
                self._room -= stop - start
        return full

    def rest(self) -> list[Window]:
        """The last window."""
        return [self._take()] if self._open else []

    def _take(self) -> Window:
        full, self._open, self._room = self._open, [], self._size
        return full


def _pieces(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Parts of a page, each no longer than the size; blank ones are left out."""
    start = 0
    while start < len(text):
        stop = len(text) if len(text) - start <= size else _cut(text, start, start + size)
        if text[start:stop].strip():
            yield start, stop
        start = stop


def _cut(text: str, start: int, limit: int) -> int:
    middle = (start + limit) // 2
    for pattern in BREAKS:
        if found := list(pattern.finditer(text, middle, limit)):
            return found[-1].end()
    return limit


def to_json(window: Sequence[PageSpan]) -> list[list[int]]:
    return [[span.page, span.start, span.stop] for span in window]


def from_json(window: Sequence[Sequence[int]]) -> Window:
    return [PageSpan(*span) for span in window]
