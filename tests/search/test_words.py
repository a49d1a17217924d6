"""Words as search knows them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.search.bm25.tokenizer import TERM_MAX, vocabulary
from penstock.search.hits import highlight

english = vocabulary("english")
# what differs in case, form, accents, ending
SAME = [
    ("Pumping", "pump"),
    ("résumé", "resume"),
    ("ﬁnding", "find"),
    ("ＡＢＣ", "abc"),
    ("John's", "john"),
    ("John’s", "JOHN"),
    ("Straße", "STRASSE"),
    ("cafe\u0301", "café"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_it_is_the_same_word(one: str, other: str) -> None:
    assert english.ask(one) == english.ask(other) != []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("l'homme", ["l", "homm"]),
        ("don't", ["don"]),
        ("foo_bar-baz.qux", ["foo", "bar", "baz", "qux"]),
        ("3.14 and 2024-01", ["3", "14", "and", "2024", "01"]),
        ("हिन्दी", ["हिन्दी"]),
        ("東京都", ["東京", "京都"]),
        ("abc東京def", ["abc", "東京", "def"]),
        ("東", ["東"]),
        ("", []),
        ("— … !", []),
    ],
)
def test_a_question_asks_for(text: str, terms: list[str]) -> None:
    assert english.ask(text) == terms


def test_a_single_character_finds_a_run_that_has_it() -> None:
    assert english.count("東京都")["京"] == 1


def test_a_language_has_its_own_endings() -> None:
    assert vocabulary("german").ask("Häuser") == vocabulary("german").ask("Haus")
    assert vocabulary("klingon").ask("pumping") == ["pumping"], "an unknown one has none"


@given(st.text(max_size=200))
def test_counting_and_splitting_agree(text: str) -> None:
    words = list(english.split(text))
    assert english.count(text) == {word.term: sum(other.term == word.term for other in words) for word in words}
    assert all(0 < len(word.term) <= TERM_MAX for word in words)
    assert all(0 <= word.start < word.stop <= len(text) for word in words)
    assert set(english.ask(text)) <= {word.term for word in words}


@given(st.text(max_size=200), st.text(max_size=30))
def test_highlights_are_words_of_the_question(text: str, question: str) -> None:
    found = highlight(text, question, english)
    wanted = set(english.ask(question))
    expected = {place for word in english.split(text) if word.term in wanted for place in range(word.start, word.stop)}
    assert {place for start, stop in found for place in range(start, stop)} == expected
    assert all(before[1] <= after[0] for before, after in pairwise(found))
