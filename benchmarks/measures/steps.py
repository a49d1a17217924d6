"""Steps that do nothing, one after the other in one job: what the engine adds to each, and how many commits."""

from benchmarks.measures import arenas, in_rounds
from benchmarks.report import Row
from benchmarks.stage import Arena, Stage

COUNT = 500


async def measure(stage: Stage) -> list[Row]:
    [side] = (await arenas(stage, ["penstock"])).values()
    times: list[float] = []
    commits: list[float] = []

    async def step(arena: Arena) -> None:
        await arena.empty()
        before = await arena.commits()
        answer = await arena.run("flow", kind="climb", count=COUNT)
        times.append(1000 * answer["inside"] / COUNT)
        commits.append((await arena.commits() - before) / COUNT)

    await in_rounds(stage, [side], step)
    return [
        Row("step", "with its checkpoint", "ms", times, failure=side.broken).judged("≤ 2", lambda value: value <= 2),
        Row("step", "commits", "commits/step", commits, note="with those of the whole process").judged(
            "about 1", lambda value: value <= 1.2
        ),
    ]
