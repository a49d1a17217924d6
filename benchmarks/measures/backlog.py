"""Does a drain slow down when a million jobs stand behind it? Beside the raw loop, which also has a larger table to touch."""

from collections import defaultdict

from benchmarks.measures import in_rounds
from benchmarks.report import Row, ratio
from benchmarks.stage import Arena, Stage

SMALL = 10_000


async def measure(stage: Stage) -> list[Row]:
    jobs, many = stage.scale.jobs, stage.scale.many
    sides = []
    for name, label in (("penstock", "Penstock"), ("raw", "raw limit")):
        for behind in (SMALL, many):
            side = await stage.database(name, f"{label}, {behind:,} behind")
            if behind == many:
                await side.fill(many + stage.scale.rounds * jobs)
            sides.append(side)
    rates: dict[str, list[float]] = defaultdict(list)

    async def step(side: Arena) -> None:
        if side.label.endswith(f" {SMALL:,} behind"):
            await side.empty()
            await side.fill(SMALL + jobs)
        else:
            await side.tidy()
        answer = await side.run("drain", count=jobs)
        rates[side.label].append(answer["settled"] / answer["seconds"])

    await in_rounds(stage, sides, step)
    name = "drain of a backlog"
    rows = [Row(name, side.label, "jobs/s", rates[side.label], failure=side.broken) for side in sides]
    ours, theirs = ratio(name, "Penstock, large / small", rows[1], rows[0]), ratio(name, "raw", rows[3], rows[2])
    theirs.what = "raw limit, large / small"
    against = ratio(name, "ratio / raw limit's ratio", ours, theirs).judged("≥ 0.9", lambda value: value >= 0.9)
    return [*rows, ours, theirs, against]
