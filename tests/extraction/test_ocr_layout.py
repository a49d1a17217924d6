from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.extraction.ocr.layout import TextBox, arrange, join

LEFT = [f"left line {number} of the first column" for number in range(12)]
RIGHT = [f"right line {number} of the second one" for number in range(12)]


def box(left: float, top: float, text: str, width: float = 300, height: float = 20) -> TextBox:
    return TextBox(left, top, left + width, top + height, text)


def columns(*texts: list[str], top: float = 100) -> list[TextBox]:
    return [
        box(50 + 350 * column, top + 30 * number, text)
        for column, lines in enumerate(texts)
        for number, text in enumerate(lines)
    ]


def words_of(boxes: list[TextBox]) -> list[str]:
    return join(arrange(boxes)).replace("\n\n", "\n").split("\n")


def shuffled(boxes: list[TextBox], seed: int = 3) -> list[TextBox]:
    mixed = list(boxes)
    Random(seed).shuffle(mixed)
    return mixed


def test_nothing_gives_nothing() -> None:
    assert arrange([]) == []
    assert join([]) == ""


@pytest.mark.parametrize("seed", range(5))
def test_two_columns_are_read_one_after_the_other(seed: int) -> None:
    assert words_of(shuffled(columns(LEFT, RIGHT), seed)) == LEFT + RIGHT


def test_three_columns_too() -> None:
    third = [f"last line {number} of the third one" for number in range(12)]
    assert words_of(shuffled(columns(LEFT, RIGHT, third))) == LEFT + RIGHT + third


def test_a_title_across_both_columns_comes_first_and_one_in_the_middle_divides() -> None:
    title, middle = box(100, 20, "A title over both", 500, 30), box(60, 470, "A heading across the page", 600)
    lower = columns(["lower " + text for text in LEFT], ["lower " + text for text in RIGHT], top=520)

    found = words_of(shuffled([title, *columns(LEFT, RIGHT), middle, *lower]))

    wanted = [title.text, *LEFT, *RIGHT, middle.text, *["lower " + text for text in LEFT + RIGHT]]
    assert found == wanted


def test_articles_and_prices_are_rows_not_columns() -> None:
    rows = [(f"Article number {number} of the shop", f"{number}.99") for number in range(12)]
    boxes = [
        each
        for number, (name, price) in enumerate(rows)
        for each in (box(50, 100 + 30 * number, name), box(500, 103 + 30 * number, price, 60))
    ]

    assert words_of(shuffled(boxes)) == [f"{name} {price}" for name, price in rows]


def test_a_table_of_short_cells_stays_rows() -> None:
    boxes = [box(50 + 200 * x, 100 + 30 * y, f"cell {y}.{x}", 80) for y in range(6) for x in range(4)]

    assert words_of(shuffled(boxes)) == [" ".join(f"cell {y}.{x}" for x in range(4)) for y in range(6)]


def test_a_row_may_rise_over_its_width() -> None:
    """As on a crumpled receipt: each piece is beside its neighbour, though not beside the first one."""
    pieces = [box(50 + 120 * number, 100 - 8 * number, f"piece{number}", 100) for number in range(4)]
    below = [box(50 + 120 * number, 140 - 8 * number, f"under{number}", 100) for number in range(4)]

    for order in permutations(pieces):
        assert words_of([*order, *below]) == ["piece0 piece1 piece2 piece3", "under0 under1 under2 under3"]


def test_space_between_rows_makes_a_paragraph() -> None:
    text = join(arrange([box(50, 100, "one"), box(50, 125, "two"), box(50, 200, "three")]))

    assert text == "one\ntwo\n\nthree"


@given(
    st.lists(
        st.builds(
            lambda x, y, w, h, text: TextBox(x, y, x + w, y + h, text),
            st.floats(0, 1000),
            st.floats(0, 1000),
            st.floats(1, 900),
            st.floats(1, 60),
            st.text("abc", min_size=1, max_size=30),
        ),
        max_size=60,
    )
)
def test_every_box_is_there_exactly_once(boxes: list[TextBox]) -> None:
    arranged = [each for block in arrange(boxes) for row in block for each in row]

    assert sorted(map(repr, arranged)) == sorted(map(repr, boxes))


def test_a_line_level_with_one_that_crosses_the_gutter_is_kept() -> None:
    columns = [
        TextBox(left, 20.0 * row, left + 300, 20.0 * row + 10, f"{left} {row}") for left in (0, 400) for row in range(8)
    ]
    crossing = [TextBox(100, 80, 600, 90, "a title"), TextBox(110, 80, 610, 90, "its shadow")]
    boxes = [*columns, *crossing]
    arranged = [each for block in arrange(boxes) for row in block for each in row]
    assert sorted(map(repr, arranged)) == sorted(map(repr, boxes))
