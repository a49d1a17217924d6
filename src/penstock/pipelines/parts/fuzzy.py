"""Words as OCR leaves them: `P A R T`, `PARTA`, `C0VER`, `Transrnittal`, `Antagen`.

`repair` corrects a line as a whole. A `Lexicon` holds the words that rules ask for, and finds those that a word on a page may
have been: signs that look alike count as the same, and long words may differ by one or two letters.
"""

import re
import unicodedata
from collections.abc import Iterable

from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extract

SPACED = re.compile(r"(?<!\S)(?:\w ){2,}\w(?!\w)")  # at least three single letters in a row
LIKE_LETTERS = str.maketrans("01!|58", "oiiisb")
ALIKE = str.maketrans(
    {"0": "o", "1": "l", "!": "l", "|": "l", "i": "l", "j": "l", "5": "s", "$": "s", "8": "b", "q": "g"}
)
LONGEST = 24  # letters: a longer word is compared as it is
REMEMBERED = 200_000  # words: noise makes new ones without end


def plain(text: str) -> str:
    """Without accents and with single spaces; capitals stay."""
    apart = unicodedata.normalize("NFKD", text)
    return " ".join("".join(sign for sign in apart if not unicodedata.combining(sign)).split())


def repair(line: str) -> str:
    """Spaced letters become a word; digits inside of words become the letters that they look like."""
    line = SPACED.sub(lambda found: found[0].replace(" ", ""), line)
    return " ".join(map(_mended, line.split()))


def _mended(word: str) -> str:
    letters, digits = sum(map(str.isalpha, word)), sum(map(str.isdigit, word))
    return word.translate(LIKE_LETTERS) if letters >= 3 and letters > 2 * digits else word


def shape(text: str) -> str:
    """The same for all spellings that look alike on a bad scan."""
    return plain(text).casefold().translate(ALIKE).replace("rn", "m").replace("vv", "w")


def tolerance(length: int) -> int:
    """How many letters of a word may be wrong."""
    return 0 if length < 4 else 1 if length < 8 else 2


class Lexicon:
    """The words of all rules; `near` says which of them a word on a page may be."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted({shape(word) for word in words})
        self._seen: dict[str, frozenset[str]] = {}

    def near(self, word: str) -> frozenset[str]:
        """Shapes of the words of the rules that `word` may stand for."""
        found = self._seen.get(word)
        if found is None:
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            found = self._seen[word] = self._look_up(shape(word))
        return found

    def _look_up(self, seen: str) -> frozenset[str]:
        if len(seen) > LONGEST:
            return frozenset()
        found = extract(seen, self._words, scorer=Levenshtein.distance, score_cutoff=tolerance(LONGEST), limit=None)
        return frozenset(word for word, distance, _ in found if distance <= tolerance(len(word)))
