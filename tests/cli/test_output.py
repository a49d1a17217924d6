"""Output: a long answer arrives as a whole, and tables fit the terminal."""

import re
import subprocess
import sys
import time

import pytest
from rich.cells import cell_len

from penstock.cli.session import print_table

LONG = """
import asyncio, uvloop
from penstock.cli.commands import write_whole
uvloop.run(asyncio.sleep(0.01))  # the end of its io_uring interrupts the next write
write_whole()
print("x" * 200_000)
"""


@pytest.mark.slow
def test_a_long_answer_to_a_slow_reader_is_whole_without_a_buffer() -> None:
    command = (sys.executable, "-u", "-c", LONG)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        time.sleep(1.5)  # its first write fills the pipe meanwhile
        assert len(process.stdout.read()) == 200_001


def table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int | None) -> list[str]:
    if width is not None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
    rows = [(1234567, "ready", "reports/2024/" + "a" * 120, "one\ntwo"), (8, "failed", "日本語" * 30, "x" * 150)]
    print_table(("id", "status", "name", "remark"), rows)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each row; narrow columns whole, wide ones cut with an ellipsis."""
    lines = table(monkeypatch, capsys, 60)
    assert len(lines) == 3
    assert [line for line in lines if cell_len(line) > 60] == []
    assert lines[1].startswith("1234567  ready   reports/2024/aa")
    assert lines[1].endswith("…  one two")
    assert lines[2].startswith("8        failed  日本語")
    assert lines[2].endswith("x…")


def test_a_pipe_gets_whole_cells(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = table(monkeypatch, capsys, None)
    assert ("a" * 120 in lines[1], lines[2].endswith("x" * 150)) == (True, True)
