"""A quote stands in the text or it does not; where it does, its place reads as the text does."""

import pytest

from penstock.knowledge.facts.validate import PageExcerpt, find_quote

TEXT = (
    "The new runner was made by Orchard Works. Its docu-\nmentation says: “Do not\n  exceed 600 rpm.”\n"
    "The ﬁrst test took place on 4 May – it failed. Cafe\u0301 Weir stands in München. The party left. "
    "水車は千八百年に建てられた。"
)
PASSAGES = [PageExcerpt(1, 0, "Nothing of it here."), PageExcerpt(3, 100, TEXT)]

STANDS = {
    "to the letter": ("The new runner was made by Orchard Works.", "The new runner was made by Orchard Works."),
    "other capitals": ("the NEW runner", "The new runner"),
    "a hyphen at the end of a line": ("Its documentation says", "Its docu-\nmentation says"),
    "one that the model kept": ("Its docu-mentation says", "Its docu-\nmentation says"),
    "other white space": ("Do not exceed 600 rpm", "Do not\n  exceed 600 rpm"),
    "other quotation marks": ('says: "Do not exceed', "says: “Do not\n  exceed"),
    "marks around it": ("«it failed.»", "it failed."),
    "dots around it": ("… took place on 4 May …", "took place on 4 May"),
    "a ligature": ("first test", "ﬁrst test"),
    "another dash": ("4 May - it failed", "4 May – it failed"),
    "composed letters": ("Caf\u00e9 Weir", "Cafe\u0301 Weir"),
    "a script without spaces": ("千八百年に建てられた", "千八百年に建てられた"),
}


@pytest.mark.parametrize("name", STANDS)
def test_it_stands_there(name: str) -> None:
    quote, wording = STANDS[name]
    found = find_quote(PASSAGES, quote)
    assert found is not None
    assert (found.page, found.quote) == (3, wording)
    assert TEXT[found.start - 100 : found.stop - 100] == wording


@pytest.mark.parametrize(
    "quote",
    [
        "The old runner was made by Orchard Works.",
        "The new runner … Orchard Works.",  # something is left out
        "art",  # a part of a word
        "unner was made",
        "it",
        "",
        "   ",
        "“”",
        "Nothing of it here. The new runner",  # two pages
        "x" * 6000,
        "\0",
    ],
)
def test_it_does_not(quote: str) -> None:
    assert find_quote(PASSAGES, quote) is None


def test_a_later_place_where_no_word_is_cut() -> None:
    found = find_quote([PageExcerpt(1, 0, "A sweet pea. A pea, though.")], "A pea")
    assert found is not None
    assert found.start == 13


def test_a_long_text_takes_no_time() -> None:
    """Quadratic behaviour would be seen here: 200 quotes that are almost there, in a long window."""
    text = "ab " * 30_000
    passage = PageExcerpt(1, 0, text)
    assert all(find_quote([passage], "ab " * (100 + n) + "c") is None for n in range(200))
