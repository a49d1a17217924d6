"""`python -m benchmarks engine [--rounds N] [--quick] [--json FILE] [--only NAME]`."""

import argparse
import asyncio
import sys
from pathlib import Path

from benchmarks.engine import FLOW, MEASURES, run
from benchmarks.stage import Scale


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure side by side; medians of rounds.")
    parser.add_argument("what", choices=["engine"])
    parser.add_argument("--rounds", type=int, help="rounds of each measure, interleaved (default 5; quick: 2)")
    parser.add_argument("--quick", action="store_true", help="under three minutes: fewer rounds, a tenth of the rows")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write everything there; as the table of the docs if it ends in .md",
    )
    parser.add_argument(
        "--only", action="append", choices=[*MEASURES, *FLOW], help="this measure alone; may be repeated"
    )
    parser.add_argument("--flow", action="store_true", help="steps, fan-out, schedules and limits instead")
    given = parser.parse_args()
    scale = Scale.quick() if given.quick else Scale()
    if given.rounds is not None:
        scale = scale.with_rounds(max(1, given.rounds))
    asyncio.run(run(scale, given.only or list(FLOW if given.flow else MEASURES), given.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
