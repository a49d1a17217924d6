"""Mutants are kept in step with the code that they break, and with the tests that kill them."""

from pathlib import Path

import pytest

from tests.proofs.mutants import ENGINE, MUTANTS, DoesNotApply, Mutant
from tests.proofs.prove import ROOT, SAMPLE, sample


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_names_tests_that_exist(mutant: Mutant, tmp_path: Path) -> None:
    original = (ROOT / ENGINE / mutant.file).read_text()
    copy = tmp_path / ENGINE / mutant.file
    copy.parent.mkdir(parents=True)
    copy.write_text(original)
    mutant.apply(tmp_path)
    assert copy.read_text() != original
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text() if name else (ROOT / path).exists()


def test_one_that_does_not_apply_says_so(tmp_path: Path) -> None:
    copy = tmp_path / ENGINE / "heartbeat.py"
    copy.parent.mkdir(parents=True)
    copy.write_text("twice = 1\ntwice = 1\n")
    with pytest.raises(DoesNotApply, match="2 times"):
        Mutant("m", "", "heartbeat.py", "twice", "once", ()).apply(tmp_path)
    with pytest.raises(DoesNotApply, match="no statement"):
        Mutant("m", "", "heartbeat.py", "twice", "once", (), "claim").apply(tmp_path)


def test_names_are_unique_and_there_are_enough() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 18


def test_every_mutant_has_its_turn() -> None:
    """The sample of a commit is the same each time, and all commits together leave nobody out."""
    samples = [sample(f"{number:08x}") for number in range(len(MUTANTS))]
    assert all(len({mutant.name for mutant in chosen}) == SAMPLE for chosen in samples)
    assert {mutant.name for chosen in samples for mutant in chosen} == {mutant.name for mutant in MUTANTS}
    assert sample("00000003") == sample("00000003")
