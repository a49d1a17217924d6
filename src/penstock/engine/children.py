"""Parents and children: `ctx.map` runs calls as child jobs on the whole fleet, and continues with their results.

Children, their count and the parent's `waiting` commit together; then the handler is left by `Suspended`, and the parent
has neither slot nor connection. The last child makes it ready (`count_down`). Its next attempt runs the handler from the top:
steps come from their checkpoints, and `map` finds its children by the fan-out's name and returns what they returned. A
child that is neither alive nor in the history any more is made again. A cancellation of a job cancels its whole tree.
"""

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from asyncpg import Record

from penstock import telemetry
from penstock.database import Session, statements
from penstock.engine.claim import LaneKey, wake_lanes, wake_queues
from penstock.engine.failpoint import reach
from penstock.engine.job import Job, StopReason
from penstock.engine.kinds import Call, is_count
from penstock.engine.queue import BATCH, cancel_idle, cancel_running
from penstock.engine.steps import check_step_name
from penstock.engine.trace_context import stamp_args
from penstock.errors import BadStep, CallTimedOut, ChildFailed, ConnectionLost, LeaseLost
from penstock.telemetry import log

if TYPE_CHECKING:
    from penstock.engine.context import Context

sql = statements(__file__)

MOST = 100_000  # children of one map
GAPS = ("refuse", "allow")
ENDS = frozenset({"done", "cancelled", "discarded", "dead"})
KEPT_MOST = 2**20  # bytes of all results, to be kept for other jobs of the same scope
REASONS_MOST = 3  # failed children whose reasons are reported

Gaps = Literal["refuse", "allow"]

fixed = telemetry.counter("penstock_fanouts_fixed_total", "Fan-outs whose count was wrong: this should stay zero")


# -- counting ------------------------------------------------------------------------------------------------------


async def count_down(tx: Session, fanouts: Iterable[int | None]) -> None:
    """Count children that have ended: one fan-out for each, None for a job without a parent. Call it last in a transaction."""
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
    """Count children that were dead and run again."""
    again = Counter(fanout for fanout in fanouts if fanout is not None)
    if again:
        await sql.count_up.run(tx, ids=list(again), counts=list(again.values()))


async def cancel_trees(tx: Session, job_ids: Iterable[int], reason: str) -> list[int]:
    """Cancel jobs and all that descends from them; a running one is asked. The ids of those that were alive."""
    tree = await _lock_trees(tx, list(job_ids))
    members = {row["id"] for row in tree}
    ended = await cancel_idle(tx, list(members), reason)
    asked = await cancel_running(tx, list(members))
    outside = {row["id"]: row["fanout"] for row in tree if row["parent"] not in members}
    await count_down(tx, [outside.get(row["id"]) for row in ended if row["state"] != "dead"])
    return sorted([*(row["id"] for row in ended), *asked])


async def lock_tree(tx: Session, job_ids: list[int]) -> list[int]:
    """Lock jobs and all that descends from them, as they are now; their ids."""
    tree = [row["id"] for row in await sql.tree_of(tx, ids=job_ids)]
    await sql.lock_jobs(tx, ids=tree)
    return tree


async def parents_alive(session: Session, job_ids: list[int]) -> dict[int, bool]:
    """Those of these jobs that are children, and whether their parents are alive."""
    return {row["id"]: row["parent_alive"] for row in await sql.parents_alive(session, ids=job_ids)}


async def forget_cancelled_children(tx: Session, parents: list[int]) -> None:
    """Let parents that run again recreate the children that were cancelled."""
    await sql.forget_cancelled_children.run(tx, parents=parents)


async def _lock_trees(tx: Session, job_ids: list[int]) -> list[Record]:
    """Lock a whole tree, children first. A parent may make children until we have its lock: then begin again."""
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


async def sweep_fanouts(session: Session, batch: int) -> None:
    """Delete fan-outs of finished parents, cancel their children, and wake parents whose children are gone."""
    await sql.sweep_fanouts.run(session, batch=batch)
    if orphans := [row["id"] for row in await sql.orphans(session, batch=batch)]:
        async with session.transaction():
            await cancel_trees(session, orphans, "its parent is over")
    async with session.transaction():
        if doubtful := [row["id"] for row in await sql.doubtful_fanouts(session, batch=batch)]:
            # Only now, with their locks: a transaction that ends a child meanwhile waits for us, and counts down afterwards.
            rows = await sql.recount_fanouts(session, ids=doubtful)
            wrong = [row["id"] for row in rows if not row["unfinished"]]
            fixed.inc(len(wrong))
            log.error("parents waited for children that do not exist", fanouts=wrong)
            await wake_lanes(session, _lanes(await sql.wake_parents(session, fanouts=wrong)))


def _lanes(rows: list[Record]) -> set[int]:
    return {row["lane"] for row in rows}


# -- map ----------------------------------------------------------------------------------------------------------


class Suspended(BaseException):
    """Leaves a handler whose job waits for its children. Not an Exception: a handler's own `except` must not stop it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A missing result, with `gaps="allow"`: the child that has none, and the reason."""

    job: int
    reason: str
    cls: str = field(default="", compare=False)  # the error class of one that is dead: Transient, Poison, …


async def run_map(context: "Context", name: str, calls: Iterable[Call], limit: int | None, gaps: Gaps) -> list[Any]:
    """The results in the order of the calls. Leaves by `Suspended` as long as there are children to wait for."""
    several = list(calls)
    _check(name, several, limit, gaps)
    digest = digest_calls(several)
    key = (f"map:{name}", 0, digest)
    steps = context.steps
    if not steps.own:
        found, value = await steps.find(key)
        if found:
            return list(value)
    while True:
        fanout = await _find(context, name, digest)
        if fanout is None or fanout["digest"] != digest:
            await _begin(context, name, several, digest, limit)
            continue
        ended = {} if fanout["unfinished"] else await _ended(context, fanout["id"])
        if fanout["unfinished"] or any(row["state"] not in ENDS for row in ended.values()):
            await _wait_again(context, fanout["id"])
        elif missing := [(turn, call) for turn, call in enumerate(several) if turn not in ended]:
            await _make_anew(context, fanout["id"], missing)
        else:
            break
    results = _results(name, ended, gaps)
    if not steps.own and not any(isinstance(result, Gap) for result in results):
        raw = json.dumps(results, ensure_ascii=False, separators=(",", ":")).encode()
        if len(raw) <= KEPT_MOST:  # another job of this scope need not do it again
            await steps.keep(key, "json", raw, 0.0)
    return results


async def _find(context: "Context", name: str, digest: bytes) -> Record | None:
    fanout = await context.runtime.pool.repeat(sql.find_fanout.first, parent=context.job.id, name=name)
    if fanout is not None and fanout["digest"] != digest and fanout["code"] == context.code:
        raise BadStep(
            f"The map {name} was called with other calls before, by the same code: compute what they are made of in a step, "
            "so that every attempt makes the same calls, and give each map its own name."
        )
    return fanout


async def _ended(context: "Context", fanout: int) -> dict[int, Record]:
    """The children by their turn."""
    rows = await context.runtime.pool.repeat(sql.ended_children, fanout=fanout)
    return {row["turn"]: row for row in rows}


def _check(name: str, calls: list[Call], limit: int | None, gaps: str) -> None:
    check_step_name("map", name)
    if not all(isinstance(call, Call) for call in calls):
        raise BadStep(f"The map {name} takes calls of decorated functions, as in [read(page=1), read(page=2)].")
    if not calls:
        raise BadStep(
            f"The map {name} has no calls: there is nothing to wait for. Skip the map when the list is empty."
        )
    if len(calls) > MOST:
        raise BadStep(f"The map {name} has {len(calls):,} calls, more than {MOST:,}: map over parts of them.")
    if limit is not None and not is_count(limit):
        raise BadStep(f"The limit of the map {name} is {limit!r}: use an integer of at least 1, or none.")
    if gaps not in GAPS:
        raise BadStep(f"Invalid gaps={gaps!r} of the map {name}: use {' or '.join(GAPS)}.")


def digest_calls(calls: Sequence[Call]) -> bytes:
    read = hashlib.sha256()
    for call in calls:
        read.update(f"{call.kind.name}\0{call.args}\0".encode())
    return read.digest()


# -- waiting --------------------------------------------------------------------------------------------------------


async def _suspend(context: "Context", open_or_find: Callable[[Session], Awaitable[int | None]]) -> None:
    """One transaction: what to wait for, and the parent's waiting, under its fence. Then leave the handler.

    Returns when the last child, or an earlier claim that a crashed server forgot, was faster: the caller checks again.
    """
    fanout = None
    try:
        async with context.runtime.pool.transaction() as tx:
            fanout = await open_or_find(tx)
            if fanout is not None and not await _wait(tx, context, fanout):
                raise _refused(context, cancelling=await _is_cancelling(tx, context))
            reach("mid-map", tx)
    except (ConnectionLost, CallTimedOut):
        if not await context.committed():
            raise
    if fanout is not None:
        context.suspended = True
        raise Suspended


async def _begin(context: "Context", name: str, calls: list[Call], digest: bytes, limit: int | None) -> None:
    """Insert the children, then wait for them."""
    lanes = await _find_lanes(context, calls)
    job = context.job

    async def open_fanout(tx: Session) -> int | None:
        await sql.drop_fanout.run(tx, parent=job.id, name=name, digest=digest)
        fanout: int | None = await sql.open_fanout.value(
            tx, parent=job.id, name=name, digest=digest, code=context.code, total=len(calls), at_once=limit
        )
        if fanout is not None:
            await _insert(tx, job, lanes, fanout, list(enumerate(calls)), limit=limit)
        return fanout

    await _suspend(context, open_fanout)


async def _wait_again(context: "Context", fanout: int) -> None:
    """Wait for the unfinished children; there is nothing to wait for if they have ended meanwhile."""

    async def find_unfinished(tx: Session) -> int | None:
        return fanout if await sql.lock_fanout.value(tx, id=fanout) else None

    await _suspend(context, find_unfinished)


async def _make_anew(context: "Context", fanout: int, calls: list[tuple[int, Call]]) -> None:
    """Insert children again that are neither alive nor in the history."""
    lanes = await _find_lanes(context, [call for _, call in calls])

    async def reopen_fanout(tx: Session) -> int:
        await sql.reopen_fanout.run(tx, id=fanout, count=len(calls))
        await _insert(tx, context.job, lanes, fanout, calls)
        return fanout

    await _suspend(context, reopen_fanout)


async def _find_lanes(context: "Context", calls: Iterable[Call]) -> Mapping[LaneKey, int]:
    """Find the lanes before the transaction: new ones are added on a session of their own."""
    kinds = {call.kind.name: call.kind for call in calls}
    return await context.runtime.find_lanes(
        (kind.queue, kind.name, context.job.fairness_key) for kind in kinds.values()
    )


async def _wait(tx: Session, context: "Context", fanout: int) -> bool:
    job = context.job
    waiting = await sql.wait_for_children.value(
        tx,
        id=job.id,
        attempt=job.attempt,
        worker_id=context.runtime.worker_id,
        fanout=fanout,
        seconds=time.monotonic() - context.started_at,
    )
    return waiting is not None


async def _is_cancelling(tx: Session, context: "Context") -> bool:
    job = context.job
    return bool(await sql.is_cancelling.value(tx, id=job.id, attempt=job.attempt, worker_id=context.runtime.worker_id))


def _refused(context: "Context", *, cancelling: bool) -> BaseException:
    """The reason for a refused write: another worker has the job, or a cancellation that no heartbeat has brought yet."""
    if cancelling:
        context.stop = StopReason.CANCEL
        return asyncio.CancelledError()
    return LeaseLost(f"Job {context.job.id} is not ours any more (attempt {context.job.attempt}); nothing was written.")


async def _insert(
    tx: Session,
    job: Job,
    lanes: Mapping[LaneKey, int],
    fanout: int,
    calls: Sequence[tuple[int, Call]],
    *,
    limit: int | None = None,
) -> None:
    """Insert children in batches that fit a message; they inherit the parent's fairness key and priority."""
    for start in range(0, len(calls), BATCH):
        part = calls[start : start + BATCH]
        await sql.insert_children.run(
            tx,
            fanout=fanout,
            priority=job.priority,
            at_once=limit,
            lanes=[lanes[call.kind.queue, call.kind.name, job.fairness_key] for _, call in part],
            args=stamp_args(call.args for _, call in part),
            turns=[turn for turn, _ in part],
        )
    await wake_queues(tx, {call.kind.queue for _, call in calls})


# -- results --------------------------------------------------------------------------------------------------------


def _results(name: str, ended: dict[int, Record], gaps: Gaps) -> list[Any]:
    rows = [ended[turn] for turn in sorted(ended)]
    failed = [row for row in rows if row["state"] != "done"]
    if failed and gaps == "refuse":
        raise ChildFailed(_describe_failed(name, failed, len(rows)), children=[row["id"] for row in failed])
    return [_result(row) for row in rows]


def _result(row: Record) -> Any:
    if row["state"] != "done":
        dead = json.loads(row["error"] or "{}") if row["state"] == "dead" else {}
        return Gap(row["id"], _reason(row), dead.get("class", ""))
    return None if row["result"] is None else json.loads(row["result"])


def _reason(row: Record) -> str:
    error = json.loads(row["error"]) if row["error"] else {}
    return f"{row['state']}: {error.get('discarded') or error.get('message') or 'no reason is known'}"


def _describe_failed(name: str, failed: list[Record], total: int) -> str:
    causes = "; ".join(f"job {row['id']} {_reason(row)}" for row in failed[:REASONS_MOST])
    more = f"; and {len(failed) - REASONS_MOST:,} more" if len(failed) > REASONS_MOST else ""
    return f"{len(failed):,} of the {total:,} children of the map {name} have no result ({causes}{more})."
