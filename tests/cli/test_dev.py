"""`./dev`: its help is the one that CONTRIBUTING.md shows, and Ctrl-C ends it without a traceback."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INTERRUPT = """
import builtins, os, runpy, signal
imported = builtins.__import__

def interrupt(name, *arguments, **options):
    if name == "fcntl":  # the first of its imports
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *arguments, **options)

builtins.__import__ = interrupt
runpy.run_path("dev", run_name="__main__")
"""


def test_the_help_is_in_contributing() -> None:
    printed = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    assert f"$ ./dev help\n{printed}```" in (ROOT / "CONTRIBUTING.md").read_text()


def test_no_traceback_while_it_imports() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_a_command_that_does_not_exist() -> None:
    ended = subprocess.run([ROOT / "dev", "chekc"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "Command chekc does not exist: ./dev help lists all.\n")
