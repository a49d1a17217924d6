"""The planner must have no choice: no statement of the hot path may scan the table, whatever the statistics say.

A partial index that looked empty to ANALYZE once made a finish walk it instead of the primary key: from 43,000 jobs per
second to 400. So each statement is planned here, with its values known and unknown, after an ANALYZE of an empty table,
of a skewed one, and after none at all.
"""

from typing import Any

import pytest

from penstock.database import Statement
from penstock.engine.claim import sql as lanes
from penstock.engine.fleet import sql as fleet
from penstock.engine.inspect.queries import sql as listing
from penstock.engine.maintenance import sql as chores
from penstock.engine.settle import sql as settler
from tests.engine.conftest import JobQueue
from tests.engine.query_plans import plan_of, prepare
from tests.slow import slow_but_first

IDS = list(range(1, 301))
ONES = [1] * len(IDS)
LIST: dict[str, Any] = {"after": 0, "most": 51, "any_lane": True, "kind": None, "queue": None, "fairness_key": None}
PROOF: dict[str, Any] = {"ids": IDS, "attempts": ONES, "workers": ONES}

HOT: dict[str, tuple[Statement, dict[str, Any]]] = {
    "active_lanes": (lanes.active_lanes, {"worker_id": 1, "band": None, "cursor": 3, "hops": 64}),
    "claim_jobs": (
        lanes.claim_jobs,
        {
            "worker_id": 1,
            "priorities": [0] * 40,
            "lanes": list(range(1, 41)),
            "afters": [0] * 40,
            "takes": [5] * 40,
            "slots": 200,
        },
    ),
    "settle_done": (settler.settle_done, PROOF | {"seconds": [0.1] * 300, "results": [None] * 300, "outcome": "done"}),
    "settle_requeue": (settler.settle_requeue, PROOF | {"seconds": [0.1] * 300, "reasons": ["x"] * 300}),
    "settle_progress": (settler.settle_progress, PROOF | {"progresses": ["{}"] * 300}),
    "hold_fence": (settler.hold_fence, {"id": 1, "attempt": 1, "worker_id": 1}),
    "promote_jobs": (chores.promote_jobs, {"batch": 500}),
    "next_due": (chores.next_due, {}),
    "rescue_jobs": (chores.rescue_jobs, {"gone_id": 1, "batch": 500, "deaths_allowed": 2}),
    "requeue_unknown": (lanes.requeue_unknown, {"worker_id": 1, "ids": IDS}),
    "owned_jobs": (lanes.owned_jobs, {"worker_id": 1}),
    "walk_jobs": (listing.walk_jobs, LIST | {"state": "dead", "window": 50_000}),
    "walked_to": (listing.walked_to, {"after": 0, "window": 50_000}),
    **{
        f"few_{state}": (getattr(listing, f"few_{state}"), LIST | {"bound": 2_001})
        for state in ("ready", "later", "running", "waiting", "dead")
    },
    "heartbeat": (fleet.heartbeat, {"worker_id": 1, "draining": False, "load": "{}"}),
}


@pytest.mark.parametrize("statistics", slow_but_first(["skewed", "none", "empty", "fresh"]))
async def test_no_hot_statement_scans_the_table(job_queue: JobQueue, statistics: str) -> None:
    await prepare(job_queue, statistics)
    for name, (statement, values) in HOT.items():
        for generic in (False, True):
            async with job_queue.database.pool.transaction() as tx:
                found = await plan_of(tx, statement, values, generic=generic)
            scans = [
                node["Node Type"]
                for node in found
                if node.get("Relation Name") == "jobs" and "Scan" in node["Node Type"]
            ]
            how = f"{name}, statistics {statistics}, {'generic' if generic else 'custom'}: {scans}"
            assert "Seq Scan" not in scans, how
            assert scans, how


@pytest.mark.parametrize("statistics", slow_but_first(["skewed", "none", "empty", "fresh"]))
async def test_a_claim_walks_the_index_of_what_is_ready(job_queue: JobQueue, statistics: str) -> None:
    """With `order by id` alone the planner preferred the primary key, and walked over a million rows of a paused lane."""
    await prepare(job_queue, statistics)
    statement, values = HOT["claim_jobs"]
    for generic in (False, True):
        async with job_queue.database.pool.transaction() as tx:
            found = await plan_of(tx, statement, values, generic=generic)
        indexes = [node["Index Name"] for node in found if node.get("Relation Name") == "jobs" and "Index Name" in node]
        assert sorted(indexes) == ["jobs_pkey", "jobs_ready"], "one to find them, one to change them"


@pytest.mark.parametrize("rows", slow_but_first([10_000, 2_000, 30_000]))
@pytest.mark.parametrize("statistics", slow_but_first(["skewed", "empty"]))
async def test_a_settle_goes_by_the_primary_key(job_queue: JobQueue, statistics: str, rows: int) -> None:
    """A scan for the worker looked cheap, with the batch walked for each row found: 0.5 s for a flush of 1,000.

    When the batch is a good part of a small table, one pass with a hash of the batch is as good as the index.
    """
    await prepare(job_queue, statistics, rows)
    for name in ("settle_done", "settle_requeue", "settle_progress"):
        statement, values = HOT[name]
        for size in (10, 300, 1000):
            batch = {key: (value * 4)[:size] if isinstance(value, list) else value for key, value in values.items()}
            for generic in (False, True):
                async with job_queue.database.pool.transaction() as tx:
                    found = await plan_of(tx, statement, batch, generic=generic)
                indexes = {node["Index Name"] for node in found if "Index Name" in node}
                filtered = any("Filter" in node for node in found if node.get("Relation Name") == "jobs")
                hashed = "Hash Join" in {node["Node Type"] for node in found} and size * 20 > rows and not filtered
                how = f"{name}, {size} of {rows}, {'generic' if generic else 'custom'}: {indexes}"
                assert indexes == {"jobs_pkey"} or (hashed and not indexes), how
