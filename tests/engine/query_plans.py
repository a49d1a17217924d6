"""Plans of statements on a jobs table of some size, as JSON nodes."""

import json
from typing import Any

from penstock.database import Session, Statement
from tests.engine.conftest import JobQueue

FILL = """
insert into penstock.jobs (lane, state, args, run_at, worker_id, claimed_at, error, fingerprint)
select 1 + n % 50, state, '{}',
  case state when 'later' then now() + interval '1 hour' end,
  case state when 'running' then 1 + n % 3 end, case state when 'running' then now() end,
  case state when 'dead' then '{}'::json end, case state when 'dead' then 'f' || n % 7 end
from generate_series(1, $2) as n, (select $1::text::penstock.job_state as state) as given
"""


async def prepare(job_queue: JobQueue, statistics: str, rows: int = 20_000) -> None:
    await job_queue.run("alter table penstock.jobs set (autovacuum_enabled = off)")
    if statistics == "empty":
        await job_queue.run("analyze penstock.jobs")
    for number in range(50):
        await job_queue.run(
            "insert into penstock.lanes (queue, kind, fairness_key) values ('default', 'nothing', $1)", f"s{number}"
        )
    await job_queue.worker()
    await job_queue.run(FILL, "ready", rows)
    if statistics == "skewed":  # nothing runs, nothing is later or dead, when the statistics are taken
        await job_queue.run("analyze penstock.jobs")
    for state in ("later", "dead"):
        await job_queue.run(FILL, state, rows)
    await job_queue.run(FILL, "running", 300)
    if statistics == "fresh":
        await job_queue.run("analyze penstock.jobs")


async def plan_of(
    session: Session, statement: Statement, values: dict[str, Any], *, generic: bool
) -> list[dict[str, Any]]:
    options = "format json, generic_plan" if generic else "format json"
    [row] = await session.fetch(f"explain ({options}) {statement.text}", *statement.arguments(values))
    [whole] = json.loads(row[0])
    return list(nodes(whole["Plan"]))


def nodes(node: dict[str, Any]) -> Any:
    yield node
    for child in node.get("Plans", []):
        yield from nodes(child)
