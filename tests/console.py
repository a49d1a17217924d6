"""The shell sessions of the docs, and running them: in page order, from an empty home, with the demo's files in `papers`.

A block ```console has lines `$ command` and what the command prints. `…` stands for anything, also for several lines when it is
alone on one. What needs another server or never ends is shown as text and is not run here.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(page for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if BLOCK.search(page.read_text()))


@dataclass(frozen=True)
class Shown:
    """A command and what the page says that it prints."""

    command: str
    output: str

    def fits(self, printed: str) -> bool:
        lines = [r"(?:.*\n)*?" if line == "…" else _pattern(line) + r"\n" for line in self.output.splitlines()]
        return re.fullmatch("".join(lines), printed) is not None


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"\s*"


def sessions(page: Path) -> list[Shown]:
    found: list[Shown] = []
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        commands = re.split(r"^\$ ", block, flags=re.MULTILINE)
        assert commands[0] == "", f"{page.name}: a session begins with a command"
        for each in commands[1:]:
            command, _, output = each.replace("\\\n", "").partition("\n")
            found.append(Shown(command, output))
    return found


def run_page(page: Path, home: Path, programs: Path) -> None:
    """Run the sessions of a page with the `penstock` of a folder of programs, and compare what they print."""
    folder = home / "work"
    shutil.copytree(ROOT / "examples/documents/mill", folder / "papers")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTHON"))}
    environ |= {"PENSTOCK_HOME": str(home / "penstock"), "COLUMNS": "120", "NO_COLOR": "1"}
    environ["PATH"] = f"{programs}:{environ['PATH']}"
    try:
        for shown in sessions(page):
            done = subprocess.run(
                ["bash", "-c", shown.command],
                cwd=folder,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            # Progress is on stderr, and so is a sentence about what cannot be done; a page shows the one or the other.
            printed = done.stdout or done.stderr
            assert shown.fits(printed), (
                f"$ {shown.command}\n{printed}{done.stderr}--- but the page says:\n{shown.output}"
            )
            assert done.returncode != 2 or "…" not in shown.output.split("\n"), f"{shown.command} could not run"
    finally:
        subprocess.run([programs / "penstock", "db", "stop"], env=environ, capture_output=True, check=False)
