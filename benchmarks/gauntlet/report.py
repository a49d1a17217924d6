"""The results of the gauntlet: a file for each cell, so that a run can be resumed, and the tables of them."""

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.gauntlet.scenarios import SCENARIOS, Outcome
from benchmarks.gauntlet.systems import NAMES, load

SETTINGS = ("defaults", "recommended")
TITLES = {"defaults": "With defaults", "recommended": "With recommended settings"}


@dataclass(frozen=True)
class Cell:
    """One scenario of one system with one of its settings."""

    system: str
    settings: str
    scenario: str

    def path(self, folder: Path) -> Path:
        return folder / f"{self.system}-{self.settings}-{self.scenario}.json"


class Results:
    """The cells that were measured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def has(self, cell: Cell) -> bool:
        return cell.path(self.folder).exists()

    def write(self, cell: Cell, outcome: Outcome | None, failure: str = "") -> None:
        versions = {name: version(name) for name in load(cell.system).packages}
        result = asdict(cell) | {
            "outcome": asdict(outcome) if outcome else None,
            "failure": failure,
            "versions": versions,
        }
        cell.path(self.folder).write_text(json.dumps(result, indent=1) + "\n")

    def read(self, cell: Cell) -> dict[str, Any] | None:
        if not self.has(cell):
            return None
        result: dict[str, Any] = json.loads(cell.path(self.folder).read_text())
        return result

    def all(self) -> list[dict[str, Any]]:
        cells = (
            Cell(system, settings, scenario) for settings in SETTINGS for scenario in SCENARIOS for system in NAMES
        )
        return [result for cell in cells if (result := self.read(cell)) is not None]

    def cell(self, cell: Cell) -> str:
        """One cell of a table: how many jobs were lost, done twice or stuck, if any, and the seconds."""
        if cell.scenario in load(cell.system).missing:
            return "not offered"
        result = self.read(cell)
        if result is None:
            return "not measured"
        if result["outcome"] is None:
            return f"failed: {result['failure']}"
        outcome = Outcome(**result["outcome"])
        counts = ((outcome.lost, "lost"), (outcome.twice, "twice"), (outcome.stuck, "stuck"))
        words = [f"{count} {word}" for count, word in counts if count]
        words += [f"{outcome.seconds:.1f} s"] if outcome.seconds is not None else []
        return ", ".join(words) or "ok"

    def rows(self, settings: str) -> list[list[str]]:
        return [[scenario, *(self.cell(Cell(name, settings, scenario)) for name in NAMES)] for scenario in SCENARIOS]

    def show(self) -> None:
        console = Console(width=None if Console().is_terminal else 190)
        for settings in SETTINGS:
            table = Table(title=f"Gauntlet, {settings}", title_justify="left")
            for heading in ("scenario", *(load(name).label for name in NAMES)):
                table.add_column(heading)
            for row in self.rows(settings):
                table.add_row(*row)
            console.print(table)
        for name in NAMES:
            side = load(name)
            versions = ", ".join(f"{package} {version(package)}" for package in side.packages)
            console.print(f"{side.label} ({versions}), recommended: {side.recommended}", highlight=False)

    def as_markdown(self) -> str:
        """For docs/reliability.md."""
        heading = ["scenario", *(load(name).label for name in NAMES)]
        parts = []
        for settings in SETTINGS:
            lines = [heading, ["---"] * len(heading), *self.rows(settings)]
            parts.append(f"{TITLES[settings]}:\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
        return "\n\n".join(parts) + "\n"
