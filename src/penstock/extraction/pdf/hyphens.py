"""Words that were torn at the end of a line. The hyphen goes when that is sure, and stays when it may belong to the word."""

import re
from collections.abc import Iterable

HYPHEN = "\ufffe"  # pdfium's sign for a hyphen at the end of a line; the line break behind it is left out
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_TORN = re.compile(r"([^\W\d_]*)" + HYPHEN + r"([^\W\d_]*)")
_AT_THE_END = re.compile(r"(?<=[^\W\d_])-\n(?=[^\W\d_])")


def compounds(texts: Iterable[str]) -> frozenset[str]:
    """The words with a hyphen that a document itself writes in the middle of a line."""
    return frozenset(word.lower() for text in texts if "-" in text for word in _COMPOUND.findall(text))


def mend(text: str, known: frozenset[str]) -> str:
    """Join the halves around each `HYPHEN`."""
    if HYPHEN not in text:
        return text

    def joined(match: re.Match[str]) -> str:
        left, right = match.groups()
        sure = bool(left) and right[:1].islower() and f"{left}-{right}".lower() not in known
        return left + right if sure else f"{left}-{right}"

    return _TORN.sub(joined, text)


def mend_lines(text: str) -> str:
    """The same for text with lines, as the OCR gives it; a torn word takes the line break with it."""
    return mend(_AT_THE_END.sub(HYPHEN, text), compounds([text]))
