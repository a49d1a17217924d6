"""The gauntlet: twelve kinds of public bug reports as small programs, run by Penstock's engine and its peers side by side.

`jobs` has the work and its records, `systems` one module for each system, `process` what runs in a process of its own,
`arena` the servers and the supervised workers, `scenarios` the faults, `report` the tables. Run it by `./dev bench gauntlet`.
"""

import asyncio
import json
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gauntlet.arena import ROOT, open_arena, open_server
from benchmarks.gauntlet.report import SETTINGS, Cell, Results
from benchmarks.gauntlet.scenarios import SCENARIOS
from benchmarks.gauntlet.systems import NAMES, load


@dataclass(frozen=True)
class Choice:
    """What to run."""

    scenarios: Sequence[str] = ()
    systems: Sequence[str] = ()
    settings: Sequence[str] = ()
    quick: bool = False
    fresh: bool = False

    def cells(self) -> list[Cell]:
        return [
            Cell(system, settings, scenario)
            for scenario in self.scenarios or SCENARIOS
            for system in self.systems or NAMES
            for settings in self.settings or SETTINGS
            if scenario not in load(system).missing
        ]


async def run(choice: Choice, file: Path | None) -> None:
    """Run every chosen cell that has no result yet, then report all results."""
    results = Results(ROOT / "build" / ("gauntlet-quick" if choice.quick else "gauntlet"))
    wanted = [cell for cell in choice.cells() if choice.fresh or not results.has(cell)]
    if any(cell.system == "celery" for cell in wanted) and shutil.which("redis-server") is None:
        print("MISSING: redis-server, so Celery is not measured. `apt install redis-server`, then run this again.")
        wanted = [cell for cell in wanted if cell.system != "celery"]
    if wanted:
        async with open_server() as server:
            for cell in wanted:
                print(f"{cell.scenario}, {cell.system}, {cell.settings} …", end="", flush=True)
                try:
                    async with open_arena(
                        server, cell.system, cell.settings == "recommended", 30 if choice.quick else 120
                    ) as arena:
                        results.write(cell, await SCENARIOS[cell.scenario](arena))
                except (RuntimeError, TimeoutError) as failure:
                    results.write(cell, None, str(failure))
                print(f" {results.cell(cell)}", flush=True)
    results.show()
    if file is not None:
        file.write_text(results.as_markdown() if file.suffix == ".md" else json.dumps(results.all(), indent=1) + "\n")


def main(choice: Choice, file: Path | None) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also then, no server or worker stays behind
    asyncio.run(run(choice, file))
    return 0
