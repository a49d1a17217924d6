"""Text for people and for storage: times, durations and counts in words, and text that PostgreSQL and JSON can keep.

PostgreSQL takes no NUL, and UTF-8 no lone surrogate.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from difflib import get_close_matches

REPLACEMENT = "\ufffd"
PLURALS = {"child": "children"}
UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def storable(text: str, nul: str = REPLACEMENT) -> str:
    """The text as PostgreSQL and JSON take it: `nul` in place of each NUL, a question mark in place of each lone surrogate."""
    clean = text.replace("\0", nul) if "\0" in text else text
    return clean if clean.isascii() else clean.encode("utf-8", "replace").decode("utf-8")


def is_storable(text: str) -> bool:
    return storable(text) == text


def span(length: timedelta) -> str:
    """A duration in its largest unit: `3 s`, `12 min`, `2 h`, `5 d`; below a second in milliseconds."""
    seconds = abs(length.total_seconds())
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{1000 * seconds:.0f} ms"


def utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def utc_relative(at: datetime, now: datetime) -> str:
    """A time, and how far it is from now."""
    return f"{utc(at)}, {span(now - at)} ago" if at <= now else f"{utc(at)}, in {span(at - now)}"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {PLURALS.get(thing, thing + 's')}"


def up_to(number: int, most: int, thing: str) -> str:
    """A number that was counted only to a bound."""
    return f"more than {most:,} {thing}s" if number > most else counted(number, thing)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question for the known name that is nearest to an unknown one; empty if none is near."""
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else ""


def listed(names: list[str], most: int = 5) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
