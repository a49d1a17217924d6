"""Regular expressions from a rules file, which must not be able to stop a worker.

Python's `re` cannot be interrupted, and some patterns try every way to divide a line. So the ways in which a pattern can be
tried on one short line are counted before it is accepted: `.*` has as many as the line has signs, `(a+)+` has billions.
"""

import re
from collections.abc import Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from penstock.errors import BadSetting

LINE = 160  # signs of a line that patterns see
MOST_WAYS = 10**6
LONGEST = 1_000  # signs of a pattern
SPACES = 2  # lines have single spaces


def compile_pattern(text: str, name: str) -> re.Pattern[str]:
    """Compile it, ignoring case; `name` begins the sentence when it cannot be used."""
    if len(text) > LONGEST:
        raise BadSetting(f"{name}: the pattern is longer than {LONGEST:,} signs. Divide it into several rules.")
    try:
        ways = _ways(_parser.parse(text, re.IGNORECASE))
        compiled = re.compile(text, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadSetting(f"{name}: the pattern {text!r} is no regular expression: {error}. Correct it.") from error
    if ways > MOST_WAYS:
        raise BadSetting(
            f"{name}: the pattern {text!r} can be tried in too many ways on one line, which could take hours. "
            "Bound its repetitions, such as .{0,20} in place of .*, and repeat nothing that repeats."
        )
    if compiled.match("") is not None:
        raise BadSetting(f"{name}: the pattern {text!r} fits an empty line, so it says nothing. Ask for some letters.")
    return compiled


def _ways(items: Iterable[tuple[Any, Any]]) -> float:
    """In how many ways a line can be divided among these items, at most."""
    ways = 1.0
    for kind, value in items:
        ways = min(ways * _item_ways(kind, value), 1e30)
    return ways


def _item_ways(kind: Any, value: Any) -> float:
    match str(kind):
        case "MAX_REPEAT" | "MIN_REPEAT":
            low, high, body = value
            each, most = _ways(body), SPACES if _is_space(body) else LINE
            ways = sum(min(each ** min(count, 100), 1e30) for count in range(min(low, most), min(high, most) + 1))
        case "BRANCH":
            ways = sum(map(_ways, value[1]))
        case "SUBPATTERN":
            ways = _ways(value[3])
        case "ASSERT" | "ASSERT_NOT":
            ways = _ways(value[1])
        case "ATOMIC_GROUP":
            ways = _ways(value)
        case "POSSESSIVE_REPEAT":
            ways = _ways(value[2])
        case "GROUPREF" | "GROUPREF_EXISTS":
            raise re.error("it refers back to a group, which rules do not need")
        case _:
            ways = 1.0
    return ways


def _is_space(body: Any) -> bool:
    [*items] = body
    return len(items) == 1 and items[0] in (
        (_constants.IN, [(_constants.CATEGORY, _constants.CATEGORY_SPACE)]),
        (_constants.LITERAL, ord(" ")),
    )
