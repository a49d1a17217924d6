"""kill -9 of the worker that runs a job: how long until another one has begun its second attempt."""

import asyncio

from benchmarks.cost import clock
from benchmarks.report import Row
from benchmarks.stage import Arena, Process, Stage


async def measure(stage: Stage) -> list[Row]:
    side = await stage.database("penstock", "Penstock")
    values = [await _starts_again_after(side) for _ in range(stage.scale.deaths)]
    row = Row("kill -9 of a worker", "runs again elsewhere after", "s", values, note=f"{len(values)} deaths")
    worst = Row("kill -9 of a worker", "at the worst", "s", [max(values)])
    return [row.judged("≤ 2", lambda value: value <= 2), worst.judged("≤ 2", lambda value: value <= 2)]


async def _starts_again_after(side: Arena) -> float:
    await side.empty()
    async with side.running("work") as one, side.running("work") as other:
        for worker in (one, other):
            await worker.answer()
        await asyncio.sleep(2)
        async with side.running("enqueue", count=1, kind="sleep", warm=False) as sender:
            await sender.answer()
        victim, heir = await _who_runs_it(one, other)
        killed_at = clock()
        await victim.kill()
        while (answer := await heir.answer(60))["attempt"] != 2:
            pass
        return float(answer["at"] - killed_at)


async def _who_runs_it(one: Process, other: Process) -> tuple[Process, Process]:
    tasks = {asyncio.create_task(worker.answer(30)): worker for worker in (one, other)}
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    victim = tasks[done.pop()]
    return victim, other if victim is one else one
