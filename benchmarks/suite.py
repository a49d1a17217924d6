"""Runs measures, one after the other, on one server, and reports."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks.cost import clock
from benchmarks.machine import describe
from benchmarks.report import Report, Row
from benchmarks.stage import Scale, SideFailed, Stage, open_stage

Measure = Callable[[Stage], Awaitable[list[Row]]]


async def run(scale: Scale, measures: Mapping[str, Measure], file: Path | None) -> None:
    """Run the measures and report."""
    began = clock()
    async with open_stage(scale) as stage:
        report = Report(await describe(stage.admin), asdict(scale))
        for name, measure in measures.items():
            print(f"{name} …", end="", flush=True)
            since = clock()
            try:
                report.rows += await measure(stage)
            except SideFailed as failure:
                report.rows.append(Row(name, "Penstock", "", [], failure=str(failure)))
            print(f" {clock() - since:.0f} s", flush=True)
            if file is not None:
                report.write(file)
    report.machine["load after"] = f"{os.getloadavg()[0]:.2f} (1 min), {os.getloadavg()[1]:.2f} (5 min)"
    report.machine["took"] = f"{clock() - began:.0f} s, {scale.rounds} rounds"
    report.show()
    if file is not None:
        report.write(file)
