"""Does a drain slow down when a million rows that cannot run lie in the table? They are there first, seen by ANALYZE."""

from collections import defaultdict

from benchmarks.measures import in_rounds
from benchmarks.report import Row, ratio
from benchmarks.stage import Arena, Stage

BALLAST = {
    "paused": """
        insert into penstock.jobs (lane, args)
        select lane.id, '{"n":0}' from penstock.lanes as lane cross join generate_series(1, $1::int)
        where lane.kind = 'paused'
    """,
    "later": """
        insert into penstock.jobs (lane, args, state, run_at)
        select lane.id, '{"n":0}', 'later', penstock.now() + interval '1 day' + n * interval '1 ms'
        from penstock.lanes as lane cross join generate_series(1, $1::int) as n
        where lane.kind = 'noop'
    """,
    "dead": """
        insert into penstock.jobs (lane, args, state, attempt, failures, error, fingerprint)
        select lane.id, '{"n":0}', 'dead', 4, 4, '{"class":"Transient","type":"OSError","message":"no route"}', 'f00'
        from penstock.lanes as lane cross join generate_series(1, $1::int)
        where lane.kind = 'noop'
    """,
}
PAUSE = "insert into penstock.pauses (what, name, reason) values ('kind', 'paused', 'benchmark')"


async def measure(stage: Stage) -> list[Row]:
    sides = [await stage.database("penstock", "without")]
    for what, insert in BALLAST.items():
        side = await stage.database("penstock", f"{stage.scale.many:,} {what}")
        await side.execute(PAUSE)
        await side.execute(insert, arguments=[stage.scale.many])
        await side.tidy()
        sides.append(side)
    rates: dict[str, list[float]] = defaultdict(list)

    async def step(side: Arena) -> None:
        await side.execute("truncate penstock.job_history")
        await side.execute(side.sql.fill, arguments=[stage.scale.jobs])
        answer = await side.run("drain", count=stage.scale.jobs)
        rates[side.label].append(answer["settled"] / answer["seconds"])

    await in_rounds(stage, sides, step)
    name = "drain beside ballast"
    rows = [Row(name, side.label, "jobs/s", rates[side.label], failure=side.broken) for side in sides]
    judged = [
        ratio(name, f"{row.what} / without", row, rows[0]).judged("≥ 0.9", lambda value: value >= 0.9)
        for row in rows[1:]
    ]
    return [*rows, *judged]
