"""Lists of live jobs: the same whichever way they are found, and never longer than a bounded look."""

import pytest

from penstock.engine.inspect import list_finished, queries
from penstock.engine.inspect.queries import JobFilter, list_jobs
from tests.engine.conftest import JobQueue

# Every seventh is dead, every eleventh of the rest is later, and the last ones run; two kinds.
FILL = """
insert into penstock.jobs (id, lane, state, quarantined, args, run_at, worker_id, claimed_at, waits_for, error, fingerprint)
select n, 1 + n % 2, state, state = 'ready' and n % 5 = 0, '{}', case state when 'later' then now() end,
  case state when 'running' then 1 end, case state when 'running' then now() end, case state when 'waiting' then 1 end,
  case state when 'dead' then '{"message": "boom"}'::json end, case state when 'dead' then 'f' || n % 3 end
from (
  select n, case when n % 7 = 0 then 'dead' when n % 11 = 0 then 'later' when n > 190 then 'running'
    when n % 13 = 0 then 'waiting' else 'ready' end::penstock.job_state as state
  from generate_series(1, 200) as n
) as made
"""


async def walk(job_queue: JobQueue, wanted: JobFilter, most: int = 7) -> list[int]:
    """All pages of a list."""
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        async with job_queue.database.pool.session() as session:
            page = await list_jobs(session, wanted, after=after, most=most)
        assert len(page.jobs) <= most
        assert page.next is None or page.next > after, "it goes on"
        found += [row["id"] for row in page.jobs]
        after = page.next
    return found


@pytest.mark.parametrize(("few", "window"), [(2_000, 50_000), (3, 20), (3, 50_000)])
async def test_all_ways_find_the_same(
    job_queue: JobQueue, monkeypatch: pytest.MonkeyPatch, few: int, window: int
) -> None:
    monkeypatch.setattr(queries, "FEW", few)
    monkeypatch.setattr(queries, "FINISHED_WINDOW", window)
    for name in ("greet", "read"):
        await job_queue.run(
            "insert into penstock.lanes (queue, kind, fairness_key) values ('default', $1, 'default')", name
        )
    [first] = await job_queue.run("select min(id) as id from penstock.lanes")
    await job_queue.run(FILL.replace("1 + n % 2", f"{first['id']} + n % 2"))
    for state in (None, "ready", "later", "running", "waiting", "dead"):
        for kind in (None, "greet", "read", "nothing"):
            rows = await job_queue.run(
                "select jobs.id from penstock.jobs join penstock.lanes on lanes.id = lane "
                "where state::text = coalesce($1, nullif(state::text, 'dead')) and ($2::text is null or kind = $2) order by 1",
                state,
                kind,
            )
            assert await walk(job_queue, JobFilter(state, kind)) == [row["id"] for row in rows], (state, kind)
    live = [row["id"] for row in await job_queue.run("select id from penstock.jobs where state <> 'dead' order by id")]
    assert await walk(job_queue, JobFilter(queue="default", fairness_key="default"), most=50) == live
    assert await walk(job_queue, JobFilter("dead", queue="other")) == []


async def test_list_finished(job_queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history by outcome and kind, newest first, through a window at a time."""
    for name in ("greet", "read"):
        await job_queue.run(
            "insert into penstock.lanes (queue, kind, fairness_key) values ('default', $1, 'default')", name
        )
    [first] = await job_queue.run("select min(id) as id from penstock.lanes")
    await job_queue.run(
        """
        insert into penstock.job_history
          (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, args, attempts)
        select n, $1::int + n % 2, case n % 5 when 0 then 'cancelled' else 'done' end, 0, 1, 0, now(), now(),
          json_build_object('n', n), '{}'
        from generate_series(1, 60) as n
        """,
        first["id"],
    )

    async def find(most: int = 7, **wanted: str) -> list[int]:
        found: list[int] = []
        before: int | None = 2**63 - 1
        while before is not None:
            async with job_queue.database.pool.session() as session:
                page = await list_finished(session, before=before, most=most, **wanted)
            assert all(each.args == {"n": each.id} for each in page.jobs)
            found += [each.id for each in page.jobs]
            before = page.next
        return found

    for window in (20_000, 10):
        monkeypatch.setattr(queries, "FINISHED_WINDOW", window)
        assert await find() == list(range(60, 0, -1))
        assert await find(outcome="cancelled") == list(range(60, 0, -5))
        assert await find(kind="read", outcome="done") == [n for n in range(60, 0, -1) if n % 2 and n % 5]
        assert await find(kind="nothing") == []
