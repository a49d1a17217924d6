"""Putting jobs in: many at once, one after the other, and from a hundred coroutines."""

from collections import defaultdict

from benchmarks.measures import arenas, in_rounds
from benchmarks.report import Row, ratio
from benchmarks.stage import Arena, Stage

WAYS = {"bulk": "many at once", "one": "1 coroutine", "hundred": "100 coroutines"}


async def measure(stage: Stage) -> list[Row]:
    sides = await arenas(stage, ["penstock", "pgqueuer", "procrastinate", "raw"])
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)

    async def step(side: Arena) -> None:
        await side.empty()
        few = 0 if side.name == "raw" else stage.scale.slow_jobs // 3
        for way, rate in (await side.run("enqueue", count=stage.scale.jobs, few=few)).items():
            rates[side.name, way].append(rate)

    await in_rounds(stage, list(sides.values()), step)
    rows = []
    for way, name_of_way in WAYS.items():
        for name, side in sides.items():
            if way == "bulk" or name != "raw":
                rows.append(Row(f"enqueue, {name_of_way}", side.label, "jobs/s", rates[name, way], failure=side.broken))
        if way == "bulk":
            ours, theirs = rows[0], rows[1]
            rows.append(
                ratio(ours.measure, "Penstock / PgQueuer", ours, theirs).judged("≥ 1.5", lambda value: value >= 1.5)
            )
    return rows
