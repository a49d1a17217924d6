"""The built-in model gives what wordllama gives."""

import importlib.util
import logging
from pathlib import Path

import numpy as np
import pytest

from penstock.models.static import DIMENSIONS, LONGEST, REMEMBERED, StaticModel

TEXTS = [
    "A penstock feeds the turbine.",
    "  leading and  double   spaces ",
    "lines\nand\n\nempty lines\n",
    "tabs\tand\u00a0hard spaces",
    "日本語のテキスト and 한국어",
    "emoji 😀😀, ﬁ, ÀÉÎ, “quotes” — dashes",
    "a▁b ▁▁ c",
    "base64:" + "QUJDREVG" * 40,
    "x",
    "\n",
    " ",
    "word " * 500,
]


@pytest.fixture(scope="module")
def model() -> StaticModel:
    return StaticModel()


@pytest.mark.filterwarnings("ignore")  # of a library that the program does not import
def test_it_equals_wordllama(model: StaticModel) -> None:
    level = logging.getLogger().level
    from wordllama import WordLlama  # type: ignore[import-untyped]

    logging.getLogger().setLevel(level)
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    folder = Path((spec.submodule_search_locations or [""])[0])
    theirs = WordLlama.load(cache_dir=folder, disable_download=True).embed(TEXTS, norm=True)

    for _ in range(2):  # the second time from memory
        assert np.abs(model.embed(TEXTS) - theirs).max() < 1e-5


def test_rows_have_length_one_and_an_empty_text_is_zero(model: StaticModel) -> None:
    rows = model.embed(["pump", "", "valve"])

    assert rows.shape == (3, DIMENSIONS)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1], abs=1e-6)
    assert not np.isnan(rows).any()


def test_what_is_near_in_meaning_is_near(model: StaticModel) -> None:
    cat, kitten, bank = model.embed(["a cat", "a small kitten", "the interest rates of banks"])
    assert cat @ kitten > cat @ bank + 0.2


def test_a_long_text_is_cut(model: StaticModel) -> None:
    text = "pump " * (LONGEST // 5 + 1000)
    assert np.array_equal(model.embed([text]), model.embed([text[:LONGEST]]))


def test_memory_is_bounded(model: StaticModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.models.static.REMEMBERED", 10)
    assert REMEMBERED > 10
    model.embed([f"word{number} " for number in range(100)])
    assert len(model._pieces) <= 10
