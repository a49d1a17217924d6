"""Ctrl-C ends a command at any moment with exit code 130 and without a traceback, also while modules are imported."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.settings import DatabaseUrl
from tests.processes import clean_environ

MOMENTS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)  # seconds after the start
OUTCOMES = {
    128 + signal.SIGINT,
    -signal.SIGINT,  # a shell reports both as 130; this one is when the interpreter is gone and the process is not yet
    0,  # it was done before
}


def block() -> None:
    """As `./dev` does: the signal waits until the command has its own handler. No program can change Python's own start."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def interrupted(after: float, *arguments: str, environ: Mapping[str, str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    process = subprocess.Popen(
        command,
        env=clean_environ(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=block,  # noqa: PLW1509  no thread of this process holds a lock that it needs
    )
    with process:
        time.sleep(after)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=30)
    return process.returncode, printed


@pytest.mark.parametrize(
    "moments", [MOMENTS[:3], pytest.param(MOMENTS[3:], marks=pytest.mark.slow)], ids=["first", "all"]
)
@pytest.mark.parametrize("command", ["status", "add", "version"])
def test_no_traceback(database_url: DatabaseUrl, tmp_path: Path, command: str, moments: tuple[float, ...]) -> None:
    environ = {"PENSTOCK_HOME": str(tmp_path), "PENSTOCK_DATABASE_URL": database_url.reveal()}
    for number, moment in enumerate(moments):
        arguments: tuple[str, ...] = (command,)
        if command == "add":
            file = tmp_path / f"note-{number}.txt"
            file.write_text(f"The gate of weir {number} is of oak.")
            arguments = ("add", str(file))
        code, printed = interrupted(moment, *arguments, environ=environ)
        assert (code in OUTCOMES, "Traceback" in printed) == (True, False), (moment, code, printed)


def test_at_the_start_it_is_130(tmp_path: Path) -> None:
    """Before anything is opened."""
    assert interrupted(0.0, "status", environ={"PENSTOCK_HOME": str(tmp_path)}) == (130, "")
