"""What goes in and what comes out: the text of pages, and ranges of pages with a label."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageText:
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
