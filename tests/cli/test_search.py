"""`penstock search`: the snippet shows where the words are; the command is tried with documents in test_add.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.search import SNIPPET, snippet

FILLER = "The mill stands by the river and grinds. " * 40


def bold(text: str, highlights: list[tuple[int, int]]) -> list[str]:
    shown = snippet(text, highlights)
    return [shown.plain[span.start : span.end] for span in shown.spans]


def test_a_short_passage_is_shown_whole() -> None:
    assert snippet("The gate fell.", [(4, 8)]).plain == "The gate fell."
    assert bold("The gate fell.", [(4, 8)]) == ["gate"]
    assert snippet("", []).plain == ""


def test_a_long_passage_is_shown_where_the_words_are() -> None:
    text = FILLER + "At last the turbine stopped." + FILLER
    place = text.index("turbine")
    shown = snippet(text, [(place, place + 7)])
    assert bold(text, [(place, place + 7)]) == ["turbine"]
    assert shown.plain.startswith("…")
    assert shown.plain.endswith("…")
    assert len(shown.plain) <= SNIPPET + 2


def test_the_densest_part_wins() -> None:
    text = "turbine. " + FILLER + "the turbine and the gate and the bearing " + FILLER
    words = [(text.index("turbine", 9), 7), (text.index("gate"), 4), (text.index("bearing"), 7)]
    highlights = [(0, 7), *((start, start + size) for start, size in words)]
    assert bold(text, highlights) == ["turbine", "gate", "bearing"]


def test_nothing_of_a_document_commands_the_terminal() -> None:
    assert snippet("a\x1b[31mred\nline\ttab\x07", []).plain == "a [31mred line tab "


@given(
    st.text(max_size=1500),
    st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 40)), max_size=20),
)
def test_any_offsets_are_survived(text: str, pieces: list[tuple[int, int]]) -> None:
    highlights = [(min(start, len(text)), min(start + size, len(text))) for start, size in pieces]
    shown = snippet(text, highlights).plain
    assert len(shown) <= SNIPPET + 2
    assert all(char.isprintable() for char in shown)


@pytest.mark.parametrize("highlights", [[(0, 3), (2, 5)], [(0, 5), (1, 2)]])
def test_overlapping_highlights_repeat_nothing(highlights: list[tuple[int, int]]) -> None:
    assert snippet("abcdefgh", highlights).plain == "abcdefgh"
