"""The words of a text as search knows them: its *terms*.

Case, accents, compatibility forms (ﬁ, full width) and the endings of the collection's language make no difference. An
apostrophe ends a word and takes a short English ending with it (`John's` is `john`, `l'homme` is `l` and `homme`). Scripts
that write no spaces between words become single characters and pairs of neighbours; a question asks for the pairs. Nothing is
left out of the index as too common: how much a word counts is decided when a question is asked. Only highlights leave out the
stop words of the language (stop_words.txt).
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from unicodedata import category, normalize

TERM_MAX = 64  # characters
REMEMBERED = 200_000  # words of a language

# Thai, Lao, Burmese, Khmer, kana, Han, Hangul (whose particles are written without a space)
UNSPACED = (
    "\u0e01-\u0e3e\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1050-\u109f\u1100-\u11ff\u1780-\u17d3\u3005-\u3007\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
ENDING = r"(?:['’](?:[sStTdDmM]|ll|LL|re|RE|ve|VE)(?![^\W_]))?"
ASCII_WORD = re.compile(r"[A-Za-z0-9]+" + ENDING)
PLAIN_WORD = re.compile(r"[^\W_]+" + ENDING)
RUN = re.compile(f"[{UNSPACED}]")
MIXED = re.compile(f"([{UNSPACED}]+)|[^{UNSPACED}]+")
ACCENTLESS = ("english", "en", "porter")  # their stemmers know no accents; those of the others need them
STOP_WORDS = Path(__file__).with_name("stop_words.txt")  # for each language: its names, a colon, and the words
ACCENTS = re.compile(r"[\u0300-\u036f]+")


class Word(NamedTuple):
    """A term and where in the text it stands."""

    term: str
    start: int
    stop: int


class Vocabulary:
    """The terms of one language."""

    def __init__(self, language: str) -> None:
        self._terms = Terms(language)
        self._stop_words = _stop_words().get(language, frozenset())

    def count(self, text: str) -> Counter[str]:
        # Words are counted before they become terms: a chunk has many words, and few different ones.
        if not text.isascii() and RUN.search(text):
            return Counter(word.term for word in self.split(text))
        words = Counter(_pattern(text).findall(text))
        terms: Counter[str] = Counter()
        for term, count in zip(map(self._terms.__getitem__, words), words.values(), strict=True):
            terms[term] = terms.get(term, 0) + count
        return terms

    def split(self, text: str) -> Iterator[Word]:
        """Each word with its place, in the order of the text; a pair of characters comes after the first of them."""
        for found in _pattern(text).finditer(text):
            if _has_run(found[0]):
                yield from self._split_run(found[0], found.start())
            else:
                yield Word(self.term(found[0]), found.start(), found.end())

    def _split_run(self, text: str, start: int) -> Iterator[Word]:
        for found in MIXED.finditer(text):
            if found[1] is None:
                yield Word(self.term(found[0]), start + found.start(), start + found.end())
                continue
            plain = [normalize("NFKC", character).casefold() for character in found[0]]
            for place, (character, following) in enumerate(zip_longest(plain, plain[1:]), start + found.start()):
                yield Word(character, place, place + 1)
                if following is not None:
                    yield Word(character + following, place, place + 2)

    def places(self, text: str, terms: Collection[str]) -> Iterator[tuple[int, int]]:
        """The places of these terms, in order; pairs of characters may overlap."""
        pattern = _pattern(text)
        # Stems begin as their words do, so that most words need no stemming.
        begins = {term[0] for term in terms}
        near = {word for word in set(pattern.findall(text)) if not word.isascii() or word[0].lower() in begins}
        wanted = {word for word in near if self.term(word) in terms or _has_run(word)}
        for found in pattern.finditer(text) if wanted else ():
            if found[0] not in wanted:
                continue
            if _has_run(found[0]):
                run = self._split_run(found[0], found.start())
                yield from ((word.start, word.stop) for word in run if word.term in terms)
            else:
                yield found.span()

    def ask(self, text: str) -> list[str]:
        """The terms that a question asks for, each once, in their order: of a run of characters only the pairs."""
        return list(dict.fromkeys(word.term for word in self._asked(text)))

    def meaningful(self, text: str) -> set[str]:
        """The terms of a question without its stop words; all of them if it has nothing else."""
        words = self._asked(text)
        kept = [word for word in words if _plain(text[word.start : word.stop]) not in self._stop_words]
        return {word.term for word in kept or words}

    def _asked(self, text: str) -> list[Word]:
        words = list(self.split(text))
        paired = {place for word in words if word.stop - word.start == 2 for place in (word.start, word.start + 1)}
        return [word for word in words if word.stop - word.start > 1 or word.start not in paired]

    def term(self, word: str) -> str:
        return self._terms[word]


class Terms(dict[str, str]):
    """A cache: the term of each word."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stem = _stemmer(language)
        self._accentless = language in ACCENTLESS

    def __missing__(self, word: str) -> str:
        if len(self) >= REMEMBERED:
            self.clear()
        term = self[word] = self._make(word)
        return term

    def _make(self, word: str) -> str:
        plain = _plain(word)
        if self._accentless:
            plain = _without_accents(plain)
        return _without_accents(self._stem(plain))[:TERM_MAX]


@cache
def vocabulary(language: str) -> Vocabulary:
    """The vocabulary of a language, made once per process. A language without a stemmer keeps its endings."""
    return Vocabulary(language)


@cache
def _stop_words() -> dict[str, frozenset[str]]:
    """The stop words of each language, by each of its names, in the form that `_plain` gives to a word."""
    found = {}
    for block in STOP_WORDS.read_text(encoding="utf-8").split("\n\n"):
        names, _, words = block.partition(":")
        of_language = frozenset(map(_plain, words.split()))
        found.update(dict.fromkeys(names.split(), of_language))
    return found


def _stemmer(language: str) -> Callable[[str], str]:
    import Stemmer  # type: ignore[import-not-found]

    try:
        stemmer = Stemmer.Stemmer(language, 0)  # without a cache: ours has the whole way from word to term
    except KeyError:
        return str
    return lambda word: str(stemmer.stemWord(word))


def _plain(word: str) -> str:
    """In lower case, without compatibility forms and without what follows an apostrophe."""
    return re.split("['’]", normalize("NFKC", word).casefold())[0]


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    return normalize("NFC", ACCENTS.sub("", normalize("NFKD", word))) or word


def _has_run(word: str) -> bool:
    return not word.isascii() and RUN.search(word) is not None


def _pattern(text: str) -> re.Pattern[str]:
    if text.isascii():
        return ASCII_WORD
    # Marks are rare, and a pattern that looks for them after each word takes five times as long as all the rest.
    return PLAIN_WORD if _marks().isdisjoint(text) else _any_word()


@cache
def _any_word() -> re.Pattern[str]:
    """Letters and digits with the marks that belong to them, at which `\\w` alone would cut."""
    marks = "".join(sorted(_marks()))
    return re.compile(rf"[^\W_]+(?:[{marks}]+[^\W_]*)*{ENDING}")


@cache
def _marks() -> frozenset[str]:
    return frozenset(chr(code) for code in range(0x300, 0x1F000) if category(chr(code))[0] == "M")
