"""A parent of 10,000 no-op children, from its first line to its results, beside as many plain jobs in the queue.

The plain jobs are there when the clock starts; the children must be written first, and their results read at the end.
"""

from benchmarks.measures import arenas, in_rounds
from benchmarks.report import Row, ratio
from benchmarks.stage import Arena, Stage

COUNT = 10_000


async def measure(stage: Stage) -> list[Row]:
    [side] = (await arenas(stage, ["penstock"])).values()
    plain: list[float] = []
    spread: list[float] = []

    async def step(arena: Arena) -> None:
        await arena.empty()
        await arena.run("enqueue", count=COUNT)
        answer = await arena.run("drain", count=COUNT)
        plain.append(answer["settled"] / answer["seconds"])
        await arena.empty()
        answer = await arena.run("flow", kind="fan", count=COUNT)
        spread.append(COUNT / answer["inside"])

    await in_rounds(stage, [side], step)
    rows = [
        Row("fan-out", "plain jobs", "jobs/s", plain, failure=side.broken, note=f"of {COUNT:,} jobs, already enqueued"),
        Row("fan-out", "children of one parent", "jobs/s", spread, note="written, run, and their results read"),
    ]
    rows.append(ratio("fan-out", "children / plain", rows[1], rows[0]).judged("≥ 0.5", lambda value: value >= 0.5))
    return rows
