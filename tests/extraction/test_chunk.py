"""Chunks: exact offsets, everything covered, nothing too long, headers and headings where they belong."""

import random
import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.extraction.chunk import WINDOW, Chunk, split_pages
from penstock.extraction.result import Heading, Page, PageBuilder, TextAllowance
from penstock.extraction.text_formats.text import structure
from tests.slow import examples

_BITS = st.sampled_from(
    [
        "word ",
        "Wort. ",
        "\n",
        "\n\n",
        "# Title\n",
        "- item\n",
        "äöü ",
        "x" * 90,
        "a | b | c\n",
        "👩‍🔬 ",
        "  ",
        "\t",
        "```\n",
    ]
)


@given(
    text=st.lists(_BITS, max_size=400).map("".join),
    size=st.integers(20, 300),
    fairness_key=st.floats(0, 0.5),
    structured=st.booleans(),
)
@settings(max_examples=examples(200), deadline=None)
def test_chunks_cover_all_text_in_order(text: str, size: int, fairness_key: float, structured: bool) -> None:
    headings, tables = structure(text)
    page = Page(7, text, headings, tables)
    chunks = split_pages([page], size=size, overlap=int(size * fairness_key), structured=structured)
    covered = [False] * len(text)
    for chunk in chunks:
        own = text[chunk.start : chunk.stop]
        assert chunk.page == 7
        assert own.strip(), "a chunk is never empty"
        assert chunk.text.endswith(own)
        assert len(own) <= size
        assert len(chunk.text) <= size + size // 2 + 1
        covered[chunk.start : chunk.stop] = [True] * len(own)
    lost = [at for at, character in enumerate(text) if not character.isspace() and not covered[at]]
    assert not lost
    starts = [chunk.start for chunk in chunks]
    assert starts == sorted(starts)


def test_a_window_border_loses_nothing() -> None:
    text = "\n\n".join(f"Paragraph {number} has some words of its own." for number in range(3_000))
    chunks = split_pages([Page(1, text)], size=500, overlap=50, structured=False)
    assert len(text) > 3 * WINDOW
    seen = {word for chunk in chunks for word in re.findall(r"Paragraph \d+ has", chunk.text)}
    assert len(seen) == 3_000


def test_neighbours_share_the_overlap() -> None:
    text = " ".join(f"w{number}" for number in range(500))
    chunks = split_pages([Page(1, text)], size=200, overlap=60, structured=False)
    shared = [before.stop - after.start for before, after in pairwise(chunks)]
    assert shared and all(0 < common <= 60 for common in shared)


def test_a_chunk_knows_its_headings() -> None:
    draft = PageBuilder(TextAllowance({}))
    draft.paragraph("Before all headings. " * 20)
    for level, title in ((1, "Pumps"), (2, "Repair"), (2, "Storage"), (1, "Pipes")):
        draft.heading(title, level)
        draft.paragraph(f"All about {title.lower()}. " * 20)
    chunks = split_pages([draft.page(1)], size=450, overlap=0, structured=True)
    assert [chunk.heading for chunk in chunks] == ["", "Pumps", "Pumps › Repair", "Pumps › Storage", "Pipes"]
    assert all(chunk.heading.rpartition("› ")[2] in chunk.text for chunk in chunks)


def test_short_parts_stay_together() -> None:
    draft = PageBuilder(TextAllowance({}))
    for number in range(20):
        draft.heading(f"Part {number}", 1)
        draft.paragraph("Short.")
    chunks = split_pages([draft.page(1)], size=1_000, overlap=0, structured=True)
    assert len(chunks) == 1


def test_a_header_is_repeated_in_each_chunk_of_its_table() -> None:
    draft = PageBuilder(TextAllowance({}))
    draft.paragraph("The stock of June.")
    draft.table([["part", "place", "pieces"], *[[f"valve {n}", f"shelf {n}", str(n)] for n in range(200)]])
    draft.paragraph("No table here. " * 40)
    page = draft.page(1)
    chunks = split_pages([page], size=400, overlap=0, structured=False)
    inside = [chunk for chunk in chunks if page.tables[0].start < chunk.start < page.tables[0].stop]
    assert len(inside) > 5
    assert all(chunk.text.startswith("part | place | pieces\n") for chunk in inside)
    assert not any(chunk.text.startswith("part |") for chunk in chunks if chunk.start >= page.tables[0].stop)


def test_a_long_header_does_not_fill_every_chunk() -> None:
    draft = PageBuilder(TextAllowance({}))
    draft.table([[f"column {n}" for n in range(500)], *[[f"value {n}" for n in range(500)] for _ in range(3)]])
    page = draft.page(1)
    chunks = split_pages([page], size=400, overlap=40, structured=False)
    assert max(len(chunk.text) for chunk in chunks) <= 601


def test_blank_pages_have_no_chunks() -> None:
    assert split_pages([Page(1, " \n\n\t "), Page(2, "")], size=100, overlap=10, structured=True) == []


def test_headings_at_the_same_place_are_no_trouble() -> None:
    page = Page(1, "Title\n\nText", [Heading(0, 1, "Title"), Heading(0, 2, "Again"), Heading(11, 1, "End")])
    assert split_pages([page], size=100, overlap=0, structured=True) == [
        Chunk(1, 0, 11, "Title\n\nText", "Title › Again")
    ]


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("shape", ["prose", "one word", "lines", "one paragraph"])
def test_five_megabytes_are_split_in_a_moment(shape: str, structured: bool) -> None:
    dice = random.Random(5)
    words = ["".join(dice.choices("abcdefghij", k=dice.randint(2, 9))) for _ in range(1_000)]
    sentence = " ".join(dice.choices(words, k=300_000))
    text = {
        "prose": "\n\n".join(sentence[at : at + 700] + "." for at in range(0, len(sentence), 700)) * 3,
        "one word": "x" * 5_000_000,
        "lines": "one\ntwo three\n" * 350_000,
        "one paragraph": sentence * 3,
    }[shape][:5_000_000]
    began = time.process_time()
    chunks = split_pages([Page(1, text)], size=1_000, overlap=100, structured=structured)
    took = time.process_time() - began
    assert len(chunks) >= len(text) // 1_000
    assert took < 6, f"{len(text) / took / 1e6:.1f} MB/s"  # 2 s on an idle machine; tests share theirs
