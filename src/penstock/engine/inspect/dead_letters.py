"""Dead letters: redrive them in growing stages, or discard them with a reason.

A redrive tries one job, then ten, then the rest in batches, and waits for each stage to end. As soon as one of them fails
again with a fingerprint that was redriven it stops: what is left stays dead, and its evidence stays with it. Before the
start it checks whether anything has changed since the failure. The command line runs the stages in its own process;
the API and the pages start a job for them.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from asyncpg import Record

from penstock.database import Database, Session, statements
from penstock.engine.children import count_up, forget_cancelled_children, lock_tree, parents_alive
from penstock.engine.claim import wake_lanes
from penstock.engine.queue import holders_of
from penstock.errors import BadJob, NothingChanged
from penstock.text import counted, listed, span

sql = statements(__file__)

STAGES = (1, 10)
BATCH = 1000  # the last stage goes on in batches of this size, so that a late return of the cause spares the rest
MOST = 100_000  # in one call
POLL_AFTER = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between polls of jobs that have not ended
PATIENCE = timedelta(minutes=10)  # with a stage


@dataclass(frozen=True)
class Selection:
    """A selection of dead jobs, by at least one of the three."""

    ids: tuple[int, ...] = ()
    fingerprint: str | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        if not (self.ids or self.fingerprint or self.kind):
            raise BadJob("No dead jobs are selected: name them by ids, by a fingerprint, or by a kind.")

    @property
    def key(self) -> str:
        """The unique key of a redrive's job: two of the same cause would count each other's failures as their own."""
        if self.fingerprint and not (self.ids or self.kind) and len(self.fingerprint) <= 64:
            return f"redrive {self.fingerprint}"
        wanted = json.dumps([self.fingerprint, self.kind, sorted(self.ids)])
        return f"redrive {hashlib.sha256(wanted.encode()).hexdigest()}"


@dataclass(frozen=True)
class RedrivePlan:
    """The jobs of a redrive, oldest first, each with its last attempt: a larger number means that it was retried meanwhile."""

    attempts: dict[int, int]
    fingerprints: list[str]
    refused: list[int] = field(default_factory=list)  # children of jobs that are over

    def stages(self) -> Iterator[tuple[list[int], int]]:
        """Stages of one, ten, then the rest in batches, each with the number of jobs after it."""
        waiting = list(self.attempts)
        for size in _sizes():
            if not waiting:
                return
            stage, waiting = waiting[:size], waiting[size:]
            yield stage, len(waiting)

    def as_json(self) -> dict[str, Any]:
        return {"jobs": list(self.attempts.items()), "fingerprints": self.fingerprints, "refused": self.refused}

    @classmethod
    def of_json(cls, kept: dict[str, Any]) -> "RedrivePlan":
        return cls(dict(kept["jobs"]), kept["fingerprints"], kept["refused"])


@dataclass
class Stage:
    done: int = 0
    failed_again: list[int] = field(default_factory=list)  # with a fingerprint that was redriven
    failed_otherwise: list[int] = field(default_factory=list)
    unfinished: list[int] = field(default_factory=list)
    stopped: str = ""  # the reason to stop


@dataclass
class RedriveResult(Stage):
    """The outcome of a redrive; `stopped` is the reason for an early end."""

    left: int = 0  # still dead, not touched
    refused: list[int] = field(default_factory=list)  # children of jobs that are over

    def add(self, stage: Stage, left: int) -> None:
        self.done += stage.done
        self.failed_again += stage.failed_again
        self.failed_otherwise += stage.failed_otherwise
        self.unfinished += stage.unfinished
        self.stopped, self.left = stage.stopped, left

    @property
    def sentence(self) -> str:
        unwanted = f" {_describe_unwanted(self.refused)}" if self.refused else ""
        if not (self.done or self.failed_again or self.failed_otherwise or self.unfinished):
            return f"No dead job matches.{unwanted}"
        parts = [f"{counted(self.done, 'job')} done"]
        if self.failed_otherwise:
            parts.append(f"{len(self.failed_otherwise)} dead for another reason ({_ids(self.failed_otherwise)})")
        said = ", ".join(parts) + "." + unwanted
        return f"Stopped: {self.stopped} {said} {self.left:,} left as they were." if self.stopped else said


RunStage = Callable[[int, list[int], int], Awaitable[Stage]]  # its number from 1 on, its jobs, how many come after it


async def redrive(
    database: Database,
    selection: Selection,
    *,
    force: bool = False,
    patience: timedelta = PATIENCE,
    tell: Callable[[str], None] = lambda _: None,
) -> RedriveResult:
    """Redrive in stages, here. Raises NothingChanged, before anything is touched, unless forced."""
    await _refuse_concurrent(database, selection)
    plan = await plan_redrive(database, selection, force=force)

    async def run(_: int, stage: list[int], left: int) -> Stage:
        tell(describe_stage(stage, left))
        async with database.pool.transaction() as tx:
            await try_stage(tx, plan, stage)
        return await watch_stage(database, plan, stage, patience=patience)

    return await run_stages(plan, run)


async def dead_by_cause(
    session: Session, most: int, *, without: Sequence[str] = (), kinds: Sequence[str] = ()
) -> list[Record]:
    """The causes of dead jobs, the most frequent first, with how many there are of each.

    Jobs of `kinds` that failed with an error of one of the types `without` are left out.
    """
    return await sql.dead_by_cause(session, most=most, without=list(without), kinds=list(kinds))


async def dead_jobs(session: Session, *, fingerprint: str | None, kind: str | None = None, most: int) -> list[Record]:
    """The dead jobs of a cause or kind, the oldest first, with their errors."""
    return await sql.dead_jobs(session, fingerprint=fingerprint, kind=kind, ids=[], most=most)


async def redrives_of(session: Session, keys: Iterable[str]) -> list[Record]:
    """The jobs that redrive these selections now (`Selection.key`), and how far they are."""
    return await sql.redrives_of(session, keys=list(keys))


async def run_stages(plan: RedrivePlan, run: RunStage) -> RedriveResult:
    """Run the stages one after the other, until one stops the redrive."""
    result = RedriveResult(refused=plan.refused)
    for number, (stage, left) in enumerate(plan.stages(), 1):
        result.add(await run(number, stage, left), left)
        if result.stopped:
            break
    return result


def describe_stage(stage: list[int], left: int) -> str:
    return f"Redriving {counted(len(stage), 'job')}, {left:,} to go"


async def plan_redrive(database: Database, selection: Selection, *, force: bool = False) -> RedrivePlan:
    """Select the jobs; refuse single children without a live parent, and failures in code that still runs."""
    rows = await _find(database, selection)
    refused = await _find_unwanted(database, [row["id"] for row in rows])
    if refused and selection.ids:
        raise BadJob(_describe_unwanted(refused))
    unwanted = set(refused)
    attempts = {row["id"]: row["attempt"] for row in rows if row["id"] not in unwanted}
    if attempts and not force:
        await _refuse_unchanged(database, list(attempts)[:BATCH])
    return RedrivePlan(attempts, sorted({row["fingerprint"] for row in rows}), refused)


async def try_stage(tx: Session, plan: RedrivePlan, stage: list[int]) -> None:
    """dead -> ready, once: a job that was retried since the selection is left as it is, also when the redrive is repeated."""
    rows = await sql.untried_of(tx, ids=stage, attempts=[plan.attempts[number] for number in stage])
    await make_ready(tx, [row["id"] for row in rows])


async def discard(database: Database, selection: Selection, reason: str) -> list[int]:
    """Discard dead jobs; the reason is kept with them in the history. The ids of those that were dead."""
    if not reason.strip():
        raise BadJob("A discard needs a reason: the history keeps it.")
    ids = [row["id"] for row in await _find(database, selection)]
    discarded: list[int] = []
    for start in range(0, len(ids), BATCH):
        async with database.pool.transaction() as tx:
            rows = await sql.discard_dead(tx, ids=ids[start : start + BATCH], reason=reason.strip())
        discarded += sorted(row["id"] for row in rows)
    return discarded


def _sizes() -> Iterator[int]:
    yield from STAGES
    while True:
        yield BATCH


async def _find(database: Database, selection: Selection) -> list[Any]:
    """Their ids, fingerprints and attempts, oldest first."""
    return await database.pool.repeat(
        sql.dead_ids, ids=list(selection.ids), fingerprint=selection.fingerprint, kind=selection.kind, most=MOST
    )


async def _find_unwanted(database: Database, ids: list[int]) -> list[int]:
    """Children of parents that are over: their results are not needed."""
    alive = await database.pool.repeat(lambda session: parents_alive(session, ids))
    return sorted(child for child, parent_alive in alive.items() if not parent_alive)


def _describe_unwanted(ids: list[int]) -> str:
    are = "is a child of a job that is" if len(ids) == 1 else "are children of jobs that are"
    return (
        f"Refused: {_ids(ids)} {are} over, so the result would not be used. Enqueue the parent again, or run "
        "`penstock dead discard`."
    )


async def _refuse_concurrent(database: Database, selection: Selection) -> None:
    """Refuse a second redrive: two of them would count each other's failures as their own."""
    holders = await database.pool.repeat(lambda session: holders_of(session, [selection.key]))
    for job in holders.values():
        raise BadJob(f"Job {job} redrives them already: `penstock why {job}` shows its progress.")


async def _refuse_unchanged(database: Database, ids: list[int]) -> None:
    """Refuse a redrive into unchanged code; not if the failure's code is unknown, or no worker serves the kind."""
    rows = await database.pool.repeat(lambda session: sql.codes_of_dead(session, ids=ids))
    if rows and all(row["failed_in"] and row["served_by"] == [row["failed_in"]] for row in rows):
        codes = sorted({row["failed_in"] for row in rows})
        raise NothingChanged(
            f"Nothing has changed since the failure: the workers still run the same code and settings ({listed(codes)}). "
            "Fix the cause and restart the workers, or use --force."
        )


async def make_ready(tx: Session, ids: list[int]) -> set[int]:
    """dead -> ready, in the caller's transaction; the ids of those that were dead.

    With their dead descendants: a parent whose children stay dead would die of them again.
    """
    rows = await sql.redrive_jobs(tx, ids=await lock_tree(tx, ids))
    await count_up(tx, [row["fanout"] for row in rows])
    await forget_cancelled_children(tx, [row["id"] for row in rows])
    await wake_lanes(tx, {row["lane"] for row in rows})
    return {row["id"] for row in rows}


async def watch_stage(
    database: Database,
    plan: RedrivePlan,
    stage: list[int],
    *,
    patience: timedelta = PATIENCE,
    ended: Callable[[int], Awaitable[None]] | None = None,
) -> Stage:
    """Wait until all have ended, or one shows the old fingerprint: also before its last try, for it would only repeat it.

    No connection is held between two polls.
    """
    result, pending = Stage(), set(stage)
    pauses = iter(POLL_AFTER)
    deadline = time.monotonic() + patience.total_seconds()
    while pending and not result.stopped:
        over = await _check_ended(database, sorted(pending)[:BATCH], set(plan.fingerprints), result)
        pending -= over
        if ended is not None:
            await ended(len(stage) - len(pending))
        if over:
            pauses = iter(POLL_AFTER)
        elif time.monotonic() > deadline:
            result.unfinished = sorted(pending)
            result.stopped = (
                f"{counted(len(pending), 'job')} did not end within {span(patience)}; "
                f"`penstock why {result.unfinished[0]}` shows why."
            )
        else:
            await asyncio.sleep(next(pauses, POLL_AFTER[-1]))
    return result


async def _check_ended(database: Database, ids: list[int], known: set[str], result: Stage) -> set[int]:
    """The jobs that have ended, counted in the result."""
    rows = await database.pool.repeat(sql.ended_of, ids=ids)
    ended = set()
    for row in rows:
        if row["fingerprint"] in known:
            result.failed_again.append(row["id"])
        elif row["state"] == "dead":
            result.failed_otherwise.append(row["id"])
        elif row["state"] == "done":
            result.done += 1
        elif row["state"] in {"ready", "running", "later", "waiting"}:
            continue
        ended.add(row["id"])
    if result.failed_again:
        result.stopped = f"the same failure has returned ({_ids(result.failed_again)})."
    return ended


def _ids(ids: list[int]) -> str:
    return f"job {listed([str(job_id) for job_id in ids])}"
