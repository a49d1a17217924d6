"""What ticking costs: 10,000 schedules are due at once, as they are at a full minute, and a worker fires them all.

CPU of this process and of the whole server, per tick, and from it the share of a core for a tick every five minutes and every
minute. Rules are of several kinds and time zones. The keys of earlier ticks are there, as they would be: sixty of each.

    python -m benchmarks.measures.schedules
"""

import asyncio
from typing import Any

from benchmarks.cost import Mark
from benchmarks.report import Report, Row
from benchmarks.stage import Arena, Scale, Stage, open_stage
from penstock import Penstock
from penstock.engine.scheduler import BATCH, Scheduler

COUNT = 10_000
RULES = ["every 5m", *(f"{minute}-59/5 * * * *" for minute in range(5))]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo"]
OLD_KEYS = """
insert into penstock.job_keys (key, job_id, until)
select format('schedule/2026-01-01T%s/_system/s%s', old, n), 0, penstock.now() + interval '1 day'
from generate_series(1, $1::int) as n cross join generate_series(1, 60) as old
"""
# One tick of each rule lies between.
MAKE_DUE = "update penstock.schedules set next_at = penstock.now() - interval '5 minutes' + interval '1 microsecond'"
FORGET = "delete from penstock.job_keys where until is null"


async def measure(stage: Stage) -> list[Row]:
    arena = await stage.database("penstock", "Penstock")
    app = Penstock(database_url=arena.url)
    kind = app.job(name="tick")(_nothing)
    for n in range(COUNT):
        app.schedule(f"s{n}", RULES[n % len(RULES)], kind(n=n), timezone=ZONES[n % len(ZONES)])
    await arena.execute(OLD_KEYS, arguments=[COUNT])
    ours: list[float] = []
    servers: list[float] = []
    async with app:
        scheduler = Scheduler(app.settings, app.schedules)
        async with app.database.pool.session() as session:
            while await scheduler.do(session) == 0.0:
                pass
        for _ in range(stage.scale.rounds + 1):
            own, server = await _tick_all(stage, arena, app, scheduler)
            ours.append(own)
            servers.append(server)
    return _rows(ours[1:], servers[1:])  # the first has warmed the caches up


async def _nothing(ctx: Any, n: int) -> None:
    """Nobody runs it: what is measured is the making of jobs."""


async def _tick_all(stage: Stage, arena: Arena, app: Penstock, scheduler: Scheduler) -> tuple[float, float]:
    """Seconds of CPU for one tick of each, of this process and of the server."""
    await arena.execute("truncate penstock.jobs", FORGET, MAKE_DUE)
    await arena.execute("vacuum (analyze) penstock.schedules", "vacuum (analyze) penstock.job_keys", "checkpoint")
    async with app.database.pool.session() as session:
        begun = await Mark.take(stage.admin, stage.postmaster)
        begun = begun.moved()
        while await scheduler.do(session) == 0.0:
            pass
        cost = begun.until(await Mark.take(stage.admin, stage.postmaster))
        made = await session.fetchval("select count(*) from penstock.jobs")
    assert made >= COUNT, f"{made} jobs of {COUNT} ticks"  # more when a minute begins meanwhile
    return cost["own_cpu"] / made, cost["server_cpu"] / made


def _rows(ours: list[float], servers: list[float]) -> list[Row]:
    both = [own + server for own, server in zip(ours, servers, strict=True)]
    name = f"{COUNT:,} schedules"
    rows = [Row(name, "a tick", "µs of CPU", [1e6 * each for each in both])]
    worker, server = (1e6 * sorted(each)[len(each) // 2] for each in (ours, servers))
    rows[0].note = f"worker {worker:.0f}, server {server:.0f}, in batches of {BATCH}"
    for minutes in (5, 1):
        fairness_key = [100 * each * COUNT / (60 * minutes) for each in both]
        rows.append(Row(name, f"each ticks every {minutes} min", "% of a core", fairness_key))
    rows[1].judged("≤ 2", lambda value: value <= 2)
    return rows


async def main() -> None:
    async with open_stage(Scale.quick().with_rounds(3)) as stage:
        Report({}, {}, await measure(stage)).show()


if __name__ == "__main__":
    asyncio.run(main())
