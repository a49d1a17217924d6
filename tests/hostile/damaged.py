"""Good documents that were cut, or in which bytes have changed: what a broken upload or an old disk leaves."""

import random
from collections.abc import Callable, Iterator
from functools import partial

from penstock.errors import Corrupt, Unreadable
from tests.hostile.file import File, either, failed, ready
from tests.hostile.good import GOOD

PACKAGES = ("docx", "xlsx", "pptx", "odt", "epub", "zip")
TEXTS = ("html", "xml", "eml", "csv", "md", "txt")


def files() -> Iterator[File]:
    yield from cut()
    yield from changed()


def cut() -> Iterator[File]:
    for extension, make in GOOD.items():
        for percent in (10, 50, 90):
            name, content = f"cut-at-{percent}.{extension}", partial(first, make, percent)
            if extension in PACKAGES:  # their directory is at the end
                yield failed(name, content, Unreadable)
            elif extension in TEXTS and percent > 10:
                yield ready(name, content)
            else:
                yield either(name, content, Unreadable)


def first(make: Callable[[], bytes], percent: int) -> bytes:
    whole = make()
    return whole[: len(whole) * percent // 100]


def changed() -> Iterator[File]:
    for extension, make in GOOD.items():
        for seed in (1, 2):
            yield either(f"changed-{seed}.{extension}", partial(flipped, make, seed), Unreadable)
    yield either("changed-in-the-middle.docx", lambda: blanked(GOOD["docx"]()), Corrupt)
    yield either("changed-in-the-middle.pdf", lambda: blanked(GOOD["pdf"]()))


def flipped(make: Callable[[], bytes], seed: int) -> bytes:
    """One byte of 200 is another one; the first eight stay, so that it is still taken for what it was."""
    chance, whole = random.Random(seed), bytearray(make())
    for _ in range(max(3, len(whole) // 200)):
        whole[chance.randrange(8, len(whole))] = chance.randrange(256)
    return bytes(whole)


def blanked(whole: bytes) -> bytes:
    third = len(whole) // 3
    return whole[:third] + bytes(third) + whole[2 * third :]
