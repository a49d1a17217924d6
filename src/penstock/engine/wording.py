"""How times and numbers are said to a person, the same in `why`, `doctor` and the tables."""

from datetime import datetime, timedelta

PLURALS = {"child": "children"}
STEPS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def span(length: timedelta) -> str:
    """A duration in its largest unit: `3 s`, `12 min`, `2 h`, `5 d`; below a second in milliseconds."""
    seconds = abs(length.total_seconds())
    for size, unit in STEPS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{1000 * seconds:.0f} ms"


def moment(at: datetime, now: datetime) -> str:
    """A time, and how far it is from now."""
    said = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{said}, {span(now - at)} ago" if at <= now else f"{said}, in {span(at - now)}"


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {PLURALS.get(thing, thing + 's')}"


def up_to(number: int, most: int, thing: str) -> str:
    """A number that was counted only to a bound."""
    return f"more than {most:,} {thing}s" if number > most else counted(number, thing)


def listed(names: list[str], most: int = 5) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
