"""One worker process and a queue of no-op jobs: from the first handler until all are settled; and what each job costs."""

from collections import defaultdict

from benchmarks.measures import arenas, in_rounds
from benchmarks.report import Row, ratio
from benchmarks.stage import Arena, Stage

COSTS = {"worker CPU": ("own_cpu", "µs/job"), "server CPU": ("server_cpu", "µs/job"), "WAL": ("wal", "bytes/job")}


async def measure(stage: Stage) -> list[Row]:
    sides = await arenas(stage, ["penstock", "pgqueuer", "procrastinate", "raw"])
    rates: dict[str, list[float]] = defaultdict(list)
    commits: dict[str, list[float]] = defaultdict(list)
    costs: dict[tuple[str, str], list[float]] = defaultdict(list)

    async def step(side: Arena) -> None:
        count = stage.scale.slow_jobs if side.name == "procrastinate" else stage.scale.jobs
        await side.empty()
        await side.run("enqueue", count=count)
        before = await side.commits()
        answer = await side.run("drain", count=count)
        rates[side.name].append(answer["settled"] / answer["seconds"])
        commits[side.name].append((await side.commits() - before) / answer["settled"])
        for what, (key, unit) in COSTS.items():
            costs[side.name, what].append(answer[key] / answer["settled"] * (1e6 if unit == "µs/job" else 1))

    await in_rounds(stage, list(sides.values()), step)
    drains = {
        name: Row("drain", side.label, "jobs/s", rates[name], failure=side.broken) for name, side in sides.items()
    }
    drains["procrastinate"].note = f"of {stage.scale.slow_jobs:,} jobs"
    drains["penstock"].note = f"of {stage.scale.jobs:,} jobs"
    rows = list(drains.values())
    rows.append(
        ratio("drain", "Penstock / PgQueuer", drains["penstock"], drains["pgqueuer"]).judged(
            "≥ 2.5", lambda value: value >= 2.5
        )
    )
    rows.append(
        ratio("drain", "Penstock / raw limit", drains["penstock"], drains["raw"]).judged(
            "≥ 0.4", lambda value: value >= 0.4
        )
    )
    for name, side in sides.items():
        rows.append(Row("commits per job", side.label, "commits/job", commits[name], failure=side.broken))
    next(row for row in rows if row.measure == "commits per job").judged("≤ 0.05", lambda value: value <= 0.05)
    for what, (_, unit) in COSTS.items():
        rows += [Row(what, side.label, unit, costs[name, what], failure=side.broken) for name, side in sides.items()]
    return rows
