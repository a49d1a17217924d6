"""An idle worker: from just before the COMMIT of one enqueue in another process until its handler is entered.

The floor is a listener's callback for a transaction that inserts one row and notifies.
"""

import asyncio
import statistics
from collections import defaultdict

from benchmarks.measures import arenas, in_rounds
from benchmarks.report import Row, ratio
from benchmarks.stage import Arena, Process, Stage

PAUSE = 0.05


async def measure(stage: Stage) -> list[Row]:
    sides = await arenas(stage, ["penstock", "pgqueuer", "procrastinate", "notify", "bare"])
    sides["notify"].label, sides["bare"].label = "insert + NOTIFY floor", "NOTIFY alone"
    delays: dict[str, list[list[float]]] = defaultdict(list)

    async def step(side: Arena) -> None:
        await side.empty()
        async with side.running("work") as worker:
            await worker.answer()
            await asyncio.sleep(1.5)  # it listens and has nothing to do
            async with side.running("send", count=stage.scale.pickups, pause=PAUSE) as sender:
                delays[side.name].append(await _delays(worker, sender, stage.scale.pickups))

    await in_rounds(stage, list(sides.values()), step)
    halves: dict[str, Row] = {}
    rows = []
    for name, side in sides.items():
        rounds = delays[name]
        every = sorted(1000 * delay for one in rounds for delay in one)
        medians = [1000 * statistics.median(one) for one in rounds]
        halves[name] = Row("pickup, p50", side.label, "ms", medians, failure=side.broken)
        halves[name].note = f"{len(every)} jobs"
        p99 = [every[min(len(every) - 1, round(0.99 * len(every)))]] if every else []
        rows.append(Row("pickup, p99", side.label, "ms", p99, failure=side.broken))
    against = ratio("pickup, p50", "Penstock / insert + NOTIFY floor", halves["penstock"], halves["notify"])
    bare = ratio("pickup, p50", "Penstock / NOTIFY alone", halves["penstock"], halves["bare"])
    return [*halves.values(), against.judged("≤ 3", lambda value: value <= 3), bare, *rows]


async def _delays(worker: Process, sender: Process, count: int) -> list[float]:
    sent: dict[int, float] = {}
    entered: dict[int, float] = {}
    while len(sent) < count:
        answer = await sender.answer(30)
        if answer["number"] >= 0:
            sent[answer["number"]] = answer["at"]
    while len(entered) < count:
        answer = await worker.answer(30)
        if answer["number"] >= 0:
            entered[answer["number"]] = answer["at"]
    return [entered[number] - at for number, at in sent.items()]
