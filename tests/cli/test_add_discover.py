"""What `penstock add` finds: names below the argument, nothing hidden, no loops, and a word about what is left out."""

import os
import subprocess
from pathlib import Path

import pytest

from penstock.cli.add.discover import discover, printable
from penstock.errors import BadSetting


def plant(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def names(*paths: Path) -> list[str]:
    return [file.name for file in discover(paths).files]


def test_files_are_named_by_their_path_below_the_argument(tmp_path: Path) -> None:
    plant(tmp_path, "b.txt", "a/z.txt", "a/b/c.txt", "notes/x.md")
    assert names(tmp_path) == ["b.txt", "a/z.txt", "a/b/c.txt", "notes/x.md"]
    assert names(tmp_path / "a") == ["z.txt", "b/c.txt"]
    assert names(tmp_path / "a/b/c.txt") == ["c.txt"]
    assert names(tmp_path / "a", tmp_path / "b.txt") == ["z.txt", "b/c.txt", "b.txt"]


def test_the_working_folder_may_be_the_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, "a/x.txt")
    monkeypatch.chdir(tmp_path / "a")
    assert names(Path()) == ["x.txt"]
    assert names(Path("..")) == ["a/x.txt"]
    assert names(Path("../a/x.txt")) == ["x.txt"]


def test_what_is_hidden_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, "seen.txt", ".hidden", ".git/config")
    found = discover([tmp_path])
    assert [file.name for file in found.files] == ["seen.txt"]
    assert found.left_out == [(str(tmp_path / ".git"), "hidden"), (str(tmp_path / ".hidden"), "hidden")]
    assert names(tmp_path / ".hidden") == [".hidden"]


def test_links_are_followed_once(tmp_path: Path) -> None:
    plant(tmp_path, "top/real/x.txt", "elsewhere/y.txt")
    (tmp_path / "top/loop").symlink_to(tmp_path / "top")
    (tmp_path / "top/other").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top/link.txt").symlink_to(tmp_path / "elsewhere/y.txt")
    found = discover([tmp_path / "top"])
    assert [file.name for file in found.files] == ["link.txt", "other/y.txt", "real/x.txt"]
    assert found.left_out == [(str(tmp_path / "top/loop"), "folder already added")]


def test_what_cannot_be_looked_at_is_a_fault_and_the_rest_goes_on(tmp_path: Path) -> None:
    plant(tmp_path, "x.txt")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    os.mkfifo(tmp_path / "pipe")
    found = discover([tmp_path])
    assert [file.name for file in found.files] == ["x.txt"]
    assert found.faults == [
        (str(tmp_path / "circle"), "links that lead to each other"),
        (str(tmp_path / "dangling"), "no such file or directory"),
    ]
    assert found.left_out == [(str(tmp_path / "pipe"), "not a file")]


def test_two_files_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    plant(tmp_path, "a/x.txt", "b/x.txt")
    found = discover([tmp_path / "a/x.txt", tmp_path / "b/x.txt"])
    assert [file.path for file in found.files] == [tmp_path / "a/x.txt"]
    [(path, reason)] = found.faults
    assert path == str(tmp_path / "b/x.txt")
    assert str(tmp_path / "a/x.txt") in reason


def test_a_path_that_is_not_there_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"nothing\.pdf: no such file"):
        discover([tmp_path / "nothing.pdf"])


def test_a_deep_tree_is_no_trouble(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):  # deeper than Python's stack
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)
    try:
        assert discover([tmp_path]).files == []
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # pytest's own way of cleaning up recurses


def test_a_name_that_is_no_text_can_be_printed() -> None:
    assert printable(os.fsdecode(b"caf\xe9.txt")) == "caf\\udce9.txt"
    assert printable("red\x1b[31m\nline") == "red\\x1b[31m\\x0aline"
