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


QUESTIONS = [
    (
        "english",
        "What is the depth of the reservoir?",
        "The depth of it is what the Reservoirs have.",
        ["depth", "Reservoirs"],
    ),
    ("german", "Wie tief ist der Stausee?", "Der tiefe Stausee ist der in den Alpen.", ["tiefe", "Stausee"]),
    ("french", "Quelle est la hauteur de l'eau ?", "La hauteur de l’eau est la bonne.", ["hauteur", "eau"]),
    ("spanish", "¿Qué altura tiene la presa?", "La altura de la presa que tiene.", ["altura", "presa"]),
    ("italian", "Quanto è alta la diga?", "La diga è la più alta.", ["diga", "alta"]),
    ("portuguese", "Qual é a altura da barragem?", "A altura da barragem é a maior.", ["altura", "barragem"]),
    ("dutch", "Hoe diep is het meer?", "Het is hoe diep het kan.", ["diep"]),
    ("swedish", "Hur djup är sjön?", "Sjön är så djup som den är.", ["Sjön", "djup"]),
    ("danish", "Hvor dyb er søen?", "Søen er så dyb, hvor den er.", ["Søen", "dyb"]),
    ("norwegian", "Hvor dyp er innsjøen?", "Innsjøen er så dyp, hvor den er.", ["Innsjøen", "dyp"]),
    ("finnish", "Kuinka syvä järvi on?", "Järvi on niin syvä kuin se on.", ["Järvi", "syvä"]),
    ("russian", "Какая глубина у озера?", "Глубина озера у берега.", ["Глубина", "озера"]),
    ("en", "the pump", "the pump", ["pump"]),  # languages have several names
    ("klingon", "the pump", "the pump", ["the", "pump"]),  # without a list, every word is meaningful
]


@pytest.mark.parametrize(("language", "question", "text", "marked"), QUESTIONS)
def test_stop_words_are_not_highlighted(language: str, question: str, text: str, marked: list[str]) -> None:
    assert [text[start:stop] for start, stop in highlight(text, question, vocabulary(language))] == marked


@pytest.mark.parametrize("question", ["To be, or not to be?", "TO BE or Not", "the who", "don't"])
def test_a_question_of_stop_words_alone_highlights_them(question: str) -> None:
    places = highlight(question, question, english)
    assert [question[start:stop] for start, stop in places] == [
        question[w.start : w.stop] for w in english.split(question)
    ]


@given(st.text(max_size=200), st.text(max_size=30))
def test_highlights_are_words_of_the_question(text: str, question: str) -> None:
    found = highlight(text, question, english)
    wanted = english.meaningful(question)
    assert wanted <= set(english.ask(question))
    assert bool(wanted) == bool(english.ask(question))
    expected = {place for word in english.split(text) if word.term in wanted for place in range(word.start, word.stop)}
    assert {place for start, stop in found for place in range(start, stop)} == expected
    assert all(before[1] <= after[0] for before, after in pairwise(found))
