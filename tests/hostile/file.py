"""A hostile file: its name, how its bytes are made, and what must come of it.

`expect` is the end that is certain. Where it is `either`, a text with gaps and a refusal are both sensible ends: what matters
is that there is one, in time, with a sentence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from penstock.errors import JobFailure, ResourceLimit, Unreadable

Content = Callable[[], bytes | str]
Failures = tuple[type[JobFailure], ...]
ANY: Failures = (Unreadable, ResourceLimit)


@dataclass(frozen=True, slots=True)
class File:
    """One file; `says` is a pattern that the sentence of its failure must have."""

    name: str
    make: Content
    expect: Literal["ready", "failed", "either"]
    errors: Failures = ANY
    says: str = ""

    def content(self) -> bytes:
        made = self.make()
        return made.encode() if isinstance(made, str) else made


def ready(name: str, make: Content) -> File:
    """Harmless if one is careful: its text must be found."""
    return File(name, make, "ready")


def failed(name: str, make: Content, *errors: type[JobFailure], says: str = "") -> File:
    """Nobody can read it; of these classes, if they are certain."""
    return File(name, make, "failed", errors or ANY, says)


def either(name: str, make: Content, *errors: type[JobFailure], says: str = "") -> File:
    """Some text, or a refusal."""
    return File(name, make, "either", errors or ANY, says)
