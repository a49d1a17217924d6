"""A line of text in the order in which its letters stand on paper, from left to right.

Arabic and Hebrew run from right to left, numbers and Latin words inside of them do not. Readers of PDFs turn what they find
on paper back into the order of reading; this is the exact inverse of what pdfium does, so that its text is what went in.
"""

import unicodedata
from itertools import groupby

_RIGHT, _LEFT, _NEUTRAL, _WEAK = range(4)
_CLASSES = {"R": _RIGHT, "AL": _RIGHT, "L": _LEFT} | dict.fromkeys(["AN", "EN", "NSM", "CS", "ES", "ET", "BN"], _WEAK)
# A bracket that opens to the right opens to the left when its run is turned.
_PAIRS = "()<>[]{}«»‹›≤≥≪≫≮≯∈∋∉∌⊂⊃⊆⊇≺≻⟨⟩⟦⟧⁽⁾₍₎〈〉《》「」『』【】〔〕〖〗"
_MIRRORED = str.maketrans(_PAIRS, "".join(_PAIRS[at ^ 1] for at in range(len(_PAIRS))))


def visual(line: str) -> str:
    if line.isascii() or not any(_class(letter) == _RIGHT for letter in line):
        return line
    runs = [(kind, "".join(letters)) for kind, letters in groupby(line, _class)]
    kinds = [kind for kind, _ in runs]
    leftwards = overall = kinds.count(_RIGHT) > kinds.count(_LEFT)
    placed = []
    for kind, letters in runs:
        if kind in {_LEFT, _RIGHT}:
            leftwards = kind == _RIGHT
        placed.append(letters[::-1].translate(_MIRRORED) if leftwards and kind != _WEAK else letters)
    return "".join(reversed(placed) if overall else placed)


def _class(letter: str) -> int:
    return _CLASSES.get(unicodedata.bidirectional(letter), _NEUTRAL)
