"""What the matrix leaves out is known, its selection has every pair, and the engine passes every failpoint somewhere."""

import re
from pathlib import Path

import pytest

import penstock.engine
from penstock.engine.failpoint import FAULTS, POINTS, VARIABLE, parse
from penstock.errors import BadSetting
from tests.proofs.matrix import EVERY, MEETS, all_cells, excluded, pairs, pairwise


def test_every_failpoint_is_reached_by_the_engine() -> None:
    folder = Path(penstock.engine.__file__).parent
    reached = {name for path in folder.glob("*.py") for name in re.findall(r'\breach\("([a-z-]+)"', path.read_text())}
    assert reached == set(POINTS)


def test_every_failpoint_meets_something_and_every_exclusion_is_counted() -> None:
    assert list(MEETS) == list(POINTS)
    assert all(MEETS.values())
    cells = all_cells()
    assert len(cells) + len(excluded()) == len(POINTS) * len(FAULTS) * len(EVERY)
    assert (len(cells), len(excluded())) == (160, 104)


def test_the_selection_has_every_pair() -> None:
    chosen = pairwise(all_cells())
    assert {pair for cell in chosen for pair in pairs(cell)} == {pair for cell in all_cells() for pair in pairs(cell)}
    assert len(chosen) == 54  # at least 44, for every point with every fault


def test_a_failpoint_says_when_and_what() -> None:
    armed = parse("after-claim=kill, before-finish=cut@2,")
    assert [(name, point.fault, point.passage) for name, point in armed.items()] == [
        ("after-claim", "kill", 1),
        ("before-finish", "cut", 2),
    ]
    assert list(parse("step:read=kill")) == ["step:read"]
    assert parse("") == {}


@pytest.mark.parametrize(
    "text", ["nowhere=kill", "after-claim=explode", "after-claim", "after-claim=kill@x", "step:=kill"]
)
def test_a_failpoint_that_would_prove_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=VARIABLE):
        parse(text)
