"""Parents and children: who ends a child tells its parent, and what happens to one happens to its whole tree.

`fanouts.unfinished` counts the children that are neither over nor dead, whatever the parent does meanwhile. Whoever ends or
buries a child counts down in the same transaction; at zero the waiting parent becomes ready. All locks are taken in one
order (children, fan-outs by number, parents), so that nobody waits in a circle. The SQL is in family.sql.
"""

from collections import Counter
from collections.abc import Iterable

from asyncpg import Record

from penstock import telemetry
from penstock.database import Session, statements
from penstock.engine.failpoint import reach
from penstock.engine.lanes import wake_lanes
from penstock.engine.queue import sql as queue_sql
from penstock.telemetry import log

sql = statements(__file__)

mended = telemetry.counter("penstock_fanouts_mended_total", "Fan-outs whose count was wrong: this should stay zero")


async def count_down(tx: Session, fanouts: Iterable[int | None]) -> None:
    """One fan-out for each child that has ended; None for a job without a parent. The last thing in its transaction."""
    ended = Counter(fanout for fanout in fanouts if fanout is not None)
    if not ended:
        return
    reach("before-count-down", tx)
    rows = await sql.count_down(tx, ids=list(ended), counts=list(ended.values()))
    lanes: set[int] = set()
    for row in rows:
        if row["at_once"] is not None and row["unfinished"]:
            lanes |= _lanes(await sql.release_held(tx, fanout=row["id"], count=ended[row["id"]]))
    if over := [row["id"] for row in rows if not row["unfinished"]]:
        lanes |= _lanes(await sql.wake_parents(tx, fanouts=over))
    await wake_lanes(tx, lanes)


async def count_up(tx: Session, fanouts: Iterable[int | None]) -> None:
    """Children that were dead and run again."""
    again = Counter(fanout for fanout in fanouts if fanout is not None)
    if again:
        await sql.count_up.run(tx, ids=list(again), counts=list(again.values()))


async def cancel_trees(tx: Session, job_ids: Iterable[int], reason: str) -> list[int]:
    """Cancel jobs and all that descends from them; a running one is asked. The numbers of those that were alive."""
    tree = await _lock_trees(tx, list(job_ids))
    members = {row["id"] for row in tree}
    ended = await queue_sql.cancel_idle(tx, ids=list(members), outcome="cancelled", reason=reason)
    asked = await queue_sql.cancel_running(tx, ids=list(members))
    outside = {row["id"]: row["fanout"] for row in tree if row["parent"] not in members}
    await count_down(tx, [outside.get(row["id"]) for row in ended if row["state"] != "dead"])
    return sorted(row["id"] for row in [*ended, *asked])


async def _lock_trees(tx: Session, job_ids: list[int]) -> list[Record]:
    """Lock a whole tree, children first. A parent may make children until we have its lock: then begin anew."""
    while True:
        tree = await sql.tree_of(tx, ids=job_ids)
        try:
            async with tx.transaction():  # a savepoint: going back to it frees the locks, and keeps their order
                await sql.lock_jobs(tx, ids=[row["id"] for row in tree])
                if len(await sql.tree_of(tx, ids=job_ids)) > len(tree):
                    raise _Grown  # noqa: TRY301  the way out of the savepoint
        except _Grown:
            continue
        return tree


class _Grown(Exception):
    """There are more children than we have locked."""


async def sweep_families(session: Session, bite: int) -> None:
    """Forget the fan-outs of parents that are over, cancel children that nobody wants, and see that no parent waits in vain."""
    await sql.sweep_fanouts.run(session, bite=bite)
    if orphans := [row["id"] for row in await sql.orphans(session, bite=bite)]:
        async with session.transaction():
            await cancel_trees(session, orphans, "its parent is over")
    async with session.transaction():
        if doubtful := [row["id"] for row in await sql.doubtful_fanouts(session, bite=bite)]:
            # Only now, with their locks: who ends a child meanwhile waits for us, and counts down afterwards.
            rows = await sql.recount_fanouts(session, ids=doubtful)
            wrong = [row["id"] for row in rows if not row["unfinished"]]
            mended.inc(len(wrong))
            log.error("parents waited for children that are not there", fanouts=wrong)
            await wake_lanes(session, _lanes(await sql.wake_parents(session, fanouts=wrong)))


def _lanes(rows: list[Record]) -> set[int]:
    return {row["lane"] for row in rows}
