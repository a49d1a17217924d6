"""`./dev bench engine`: all measures, one after the other, on one server."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks.cost import clock
from benchmarks.machine import describe
from benchmarks.measures import (
    asleep,
    backlog,
    ballast,
    drain,
    enqueue,
    fanout,
    idle,
    kill,
    limiter,
    pickup,
    schedules,
    steps,
)
from benchmarks.report import Report, Row
from benchmarks.stage import Scale, SideFailed, Stage, open_stage

Measure = Callable[[Stage], Awaitable[list[Row]]]
MEASURES: dict[str, Measure] = {
    "drain": drain.measure,
    "enqueue": enqueue.measure,
    "pickup": pickup.measure,
    "asleep": asleep.measure,
    "backlog": backlog.measure,
    "ballast": ballast.measure,
    "kill": kill.measure,
    "idle": idle.measure,
}
FLOW: dict[str, Measure] = {  # the second half: --flow
    "fanout": fanout.measure,
    "steps": steps.measure,
    "schedules": schedules.measure,
    "limiter": limiter.measure,
}


async def run(scale: Scale, names: list[str], file: Path | None) -> None:
    """Run the named measures and report."""
    began = clock()
    async with open_stage(scale) as stage:
        report = Report(await describe(stage.admin), asdict(scale))
        for name, measure in (MEASURES | FLOW).items():
            if name not in names:
                continue
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
