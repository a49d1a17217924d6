"""What came out: rows of figures for people, and the same for machines."""

import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass
class Row:
    """One figure. `values` are the rounds; the median counts, unless there is a `headline`."""

    measure: str
    what: str
    unit: str
    values: list[float]
    target: str = ""
    met: bool | None = None
    note: str = ""
    failure: str = ""
    headline: float | None = None
    held: int = 0  # rounds that alone would have met the target

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.headline is None else self.headline

    def judged(self, target: str, fits: Callable[[float], bool]) -> "Row":
        self.target = target
        self.met = None if self.failure else fits(self.median)
        self.held = sum(fits(value) for value in self.values)
        return self

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"median": self.median if self.values else None}

    @property
    def shown(self) -> str:
        return "failed" if self.failure else figure(self.median)

    @property
    def spread(self) -> str:
        if len(self.values) < 2:
            return ""
        return f"{figure(min(self.values))} – {figure(max(self.values))}"

    @property
    def verdict(self) -> str:
        if self.met is None:
            return "not measured" if self.target else ""
        verdict = "met" if self.met else "NOT MET"
        # A verdict that single rounds contradict is not finer than the noise: say so.
        agree = self.held if self.met else len(self.values) - self.held
        return verdict if agree == len(self.values) else f"{verdict} ({agree} of {len(self.values)} rounds)"


def ratio(measure: str, what: str, above: Row, below: Row) -> Row:
    """The ratio of medians, because a disturbance hits one side of a round; the rounds' own ratios are its spread."""
    if above.failure or below.failure:
        return Row(measure, what, "×", [], failure=above.failure or below.failure)
    rounds = [one / other for one, other in zip(above.values, below.values, strict=True)]
    return Row(measure, what, "×", rounds, headline=above.median / below.median)


def figure(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


@dataclass
class Report:
    """All rows of a run, and where it ran."""

    machine: dict[str, str]
    scale: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    def show(self) -> None:
        table = Table(title="Engine", title_justify="left")
        for heading in ("measure", "what"):
            table.add_column(heading)
        for heading in ("median", "unit", "spread"):
            table.add_column(heading, justify="right", no_wrap=True)
        for heading in ("target", "", "note"):
            table.add_column(heading)
        last = ""
        for row in self.rows:
            if row.measure != last:
                table.add_section()
            name = row.measure if row.measure != last else ""
            table.add_row(
                *(name, row.what, row.shown, row.unit, row.spread, row.target, row.verdict, row.failure or row.note)
            )
            last = row.measure
        console = Console(width=None if Console().is_terminal else 190)
        console.print(table)
        for name, value in self.machine.items():
            console.print(f"{name}: {value}", highlight=False)

    def as_markdown(self) -> str:
        """For docs/performance.md."""
        lines = ["| measure | what | median | spread | target | |", "|---|---|---|---|---|---|"]
        for row in self.rows:
            median = row.shown if row.failure or row.unit == "×" else f"{row.shown} {row.unit}"
            words = (row.measure, row.what, median, row.spread, row.target, row.failure or row.verdict)
            lines.append("| " + " | ".join(words) + " |")
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        rows = [row.as_json() for row in self.rows]
        if path.suffix == ".md":
            path.write_text(self.as_markdown())
            return
        path.write_text(json.dumps({"machine": self.machine, "scale": self.scale, "rows": rows}, indent=1) + "\n")
