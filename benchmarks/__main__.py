"""`python -m benchmarks WHAT [--rounds N] [--quick] [--json FILE] [--only NAME]`: WHAT is one of `SUITES`, or gauntlet."""

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import dashboard, documents, engine, gauntlet, life, models, packet, parts
from benchmarks.gauntlet.report import SETTINGS
from benchmarks.gauntlet.scenarios import SCENARIOS
from benchmarks.gauntlet.systems import NAMES
from benchmarks.stage import Scale
from benchmarks.suite import run

SUITES = {
    "engine": engine.MEASURES,
    "documents": documents.MEASURES,
    "life": life.MEASURES,
    "packet": packet.MEASURES,
    "parts": parts.MEASURES,
    "dashboard": dashboard.MEASURES,
    "models": models.MEASURES,
}
EVERY = {name: measure for suite in (*SUITES.values(), engine.FLOW) for name, measure in suite.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure side by side; medians of rounds.")
    parser.add_argument("what", choices=[*SUITES, "gauntlet"])
    parser.add_argument("--rounds", type=int, help="rounds of each measure, interleaved (default 5; quick: 2)")
    parser.add_argument("--quick", action="store_true", help="under three minutes: fewer rounds, a tenth of the rows")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write everything there; as the table of the docs if it ends in .md",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[*EVERY, *SCENARIOS],
        metavar="NAME",
        help="this measure or scenario alone; may be repeated",
    )
    parser.add_argument("--flow", action="store_true", help="engine: steps, fan-out, schedules and limits instead")
    parser.add_argument("--million", action="store_true", help="documents: search in a million chunks")
    parser.add_argument("--system", action="append", choices=NAMES, help="gauntlet: this system alone; may be repeated")
    parser.add_argument("--settings", action="append", choices=SETTINGS, help="gauntlet: these settings alone")
    parser.add_argument(
        "--fresh", action="store_true", help="gauntlet: measure again what has a result in build/gauntlet"
    )
    given = parser.parse_args()
    if given.what == "gauntlet":
        chosen = (given.only or (), given.system or (), given.settings or ())
        return gauntlet.main(gauntlet.Choice(*chosen, quick=given.quick, fresh=given.fresh), given.json)
    scale = Scale.quick() if given.quick else Scale(rounds=5 if given.what == "engine" else 3)
    if given.rounds is not None:
        scale = scale.with_rounds(max(1, given.rounds))
    if given.million:
        scale = replace(scale, chunks=1_000_000)
    usual = engine.FLOW if given.flow else SUITES[given.what]
    asyncio.run(run(scale, {name: EVERY[name] for name in given.only or usual}, given.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
