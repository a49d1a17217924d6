"""Names for what comes out of mails and archives: safe as a relative path, and each only once."""

import posixpath
import unicodedata

_LONGEST_PART, _LONGEST = 255, 900  # bytes; the name of the parent stands before it
_DIRECTION_MARKS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Names:
    """Gives each member a name of its own."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        safe = safe_name(name)
        number = self._next.get(safe, 1)
        unique = safe
        while unique in self._taken:
            number += 1
            stem, ending = posixpath.splitext(safe)
            unique = f"{stem} ({number}){ending}"
        self._next[safe] = number
        self._taken.add(unique)
        return unique


def safe_name(name: str) -> str:
    """No way up or out, no control characters, nothing that is shown in another order than it is written."""
    name = unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode("utf-8")).replace("\\", "/")
    name = "".join(" " if unicodedata.category(c) == "Cc" else c for c in name if c not in _DIRECTION_MARKS)
    if name[1:3] == ":/" and name[0].isalpha():
        name = name[3:]
    parts = [_short(part.strip(), _LONGEST_PART) for part in name.split("/")]
    parts = [part for part in parts if part not in ("", ".", "..")]
    while len(parts) > 1 and len("/".join(parts).encode()) > _LONGEST:
        parts.pop(0)
    return "/".join(parts) or "unnamed"


def _short(part: str, most: int) -> str:
    """At most so many bytes, with its ending kept."""
    if len(part.encode()) <= most:
        return part
    stem, ending = posixpath.splitext(part)
    ending = ending if len(ending.encode()) <= 20 else ""
    return stem.encode()[: most - len(ending.encode()) - 8].decode("utf-8", "ignore") + ending
