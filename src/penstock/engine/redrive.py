"""What people do with dead letters: give them another chance in growing stages, or give them up with a reason.

A redrive tries one job, then ten, then the rest in bites, and waits for each stage to end. As soon as one of them fails
again with a fingerprint that was redriven it stops: what is left stays dead, and its evidence stays with it. Before the
start it looks whether anything has changed since the failure. The SQL is in queue.sql.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from penstock.database import Database, Session
from penstock.engine.family import count_up
from penstock.engine.family import sql as family_sql
from penstock.engine.lanes import wake_lanes
from penstock.engine.queue import sql
from penstock.engine.wording import counted, listed, span
from penstock.errors import BadJob, NothingChanged

STAGES = (1, 10)
BITE = 1000  # the last stage goes on in bites of this size, so that a late return of the cause spares the rest
MOST = 100_000  # in one call
LOOK_AFTER = (0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between looks at jobs that have not ended


@dataclass(frozen=True)
class Selection:
    """Which dead jobs; at least one of the three."""

    ids: tuple[int, ...] = ()
    fingerprint: str | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        if not (self.ids or self.fingerprint or self.kind):
            raise BadJob("Say which dead jobs: by their numbers, by a fingerprint, or by a kind.")


@dataclass
class Redriven:
    """What became of a redrive."""

    done: int = 0
    failed_again: list[int] = field(default_factory=list)  # with a fingerprint that was redriven
    failed_otherwise: list[int] = field(default_factory=list)
    unfinished: list[int] = field(default_factory=list)
    left: int = 0  # still dead, not touched
    refused: list[int] = field(default_factory=list)  # children of jobs that are over
    stopped: str = ""  # why it ended before all had their chance

    @property
    def sentence(self) -> str:
        unwanted = f" {_tell_unwanted(self.refused)}" if self.refused else ""
        if not (self.done or self.failed_again or self.failed_otherwise or self.unfinished):
            return f"No dead job matches.{unwanted}"
        parts = [f"{counted(self.done, 'job')} done"]
        if self.failed_otherwise:
            parts.append(f"{len(self.failed_otherwise)} dead for another reason ({_numbers(self.failed_otherwise)})")
        said = ", ".join(parts) + "." + unwanted
        return f"Stopped: {self.stopped} {said} {self.left:,} left as they were." if self.stopped else said


async def redrive(
    database: Database,
    selection: Selection,
    *,
    force: bool = False,
    patience: timedelta = timedelta(minutes=10),
    tell: Callable[[str], None] = lambda _: None,
) -> Redriven:
    """Redrive in stages. Raises NothingChanged, before anything is touched, unless forced."""
    fingerprints = await _find(database, selection)
    refused = await _find_unwanted(database, list(fingerprints))
    if refused and selection.ids:
        raise BadJob(_tell_unwanted(refused))
    waiting = [number for number in fingerprints if number not in refused]
    if waiting and not force:
        await _refuse_unchanged(database, waiting[:BITE])
    result = Redriven(refused=refused)
    for size in _stages():
        if not waiting or result.stopped:
            break
        stage, waiting = waiting[:size], waiting[size:]
        tell(f"Redriving {counted(len(stage), 'job')}, {len(waiting):,} to go")
        async with database.pool.transaction() as tx:
            await make_ready(tx, stage)
        await _watch(database, stage, set(fingerprints.values()), patience, result)
    result.left = len(waiting)
    return result


async def redrive_some(database: Database, selection: Selection, *, most: int, force: bool = False) -> list[int]:
    """The oldest of them, without waiting for their end: for a person who looks at what becomes of one before trying ten.

    The numbers of those that were dead. Raises NothingChanged unless forced.
    """
    ids = list(await _find(database, selection))
    refused = set(await _find_unwanted(database, ids))
    if refused and selection.ids:
        raise BadJob(_tell_unwanted(sorted(refused)))
    chosen = [number for number in ids if number not in refused][:most]
    if chosen and not force:
        await _refuse_unchanged(database, chosen)
    async with database.pool.transaction() as tx:
        return sorted(await make_ready(tx, chosen))


async def discard(database: Database, selection: Selection, reason: str) -> list[int]:
    """Give dead jobs up; the reason is kept with them in the history. The numbers of those that were dead."""
    if not reason.strip():
        raise BadJob("A discard needs a reason: it is all that the history will say about it.")
    ids = list(await _find(database, selection))
    discarded: list[int] = []
    for start in range(0, len(ids), BITE):
        async with database.pool.transaction() as tx:
            rows = await sql.discard_dead(tx, ids=ids[start : start + BITE], reason=reason.strip())
        discarded += sorted(row["id"] for row in rows)
    return discarded


def _stages() -> Iterator[int]:
    yield from STAGES
    while True:
        yield BITE


async def _find(database: Database, selection: Selection) -> dict[int, str]:
    """Fingerprints by number, oldest first."""
    rows = await database.pool.repeat(
        lambda session: sql.dead_ids(
            session,
            ids=list(selection.ids),
            fingerprint=selection.fingerprint,
            kind=selection.kind,
            most=MOST,
        )
    )
    return {row["id"]: row["fingerprint"] for row in rows}


async def _find_unwanted(database: Database, ids: list[int]) -> list[int]:
    """Children of parents that are over: nobody would see their results."""
    rows = await database.pool.repeat(lambda session: family_sql.families_of(session, ids=ids))
    return sorted(row["id"] for row in rows if not row["parent_alive"])


def _tell_unwanted(ids: list[int]) -> str:
    are = "is a child of a job that is" if len(ids) == 1 else "are children of jobs that are"
    return (
        f"Refused: {_numbers(ids)} {are} over, so the result would reach nobody. Enqueue the parent anew, or give up with "
        "`penstock dead discard`."
    )


async def _refuse_unchanged(database: Database, ids: list[int]) -> None:
    """Where the failure's code is unknown, or nobody serves the kind, nothing can be said, and nothing is refused."""
    rows = await database.pool.repeat(lambda session: sql.codes_of_dead(session, ids=ids))
    if rows and all(row["failed_in"] and row["served_by"] == [row["failed_in"]] for row in rows):
        codes = sorted({row["failed_in"] for row in rows})
        raise NothingChanged(
            f"Nothing has changed since the failure: the workers still run the same code and settings ({listed(codes)}). "
            "Mend the cause and restart them, or add --force."
        )


async def make_ready(tx: Session, ids: list[int]) -> set[int]:
    """dead -> ready, in the caller's transaction; the numbers of those that were dead.

    With their dead descendants: a parent whose children stay dead would die of them again.
    """
    family = [row["id"] for row in await family_sql.tree_of(tx, ids=ids)]
    await family_sql.lock_jobs(tx, ids=family)
    rows = await sql.redrive_jobs(tx, ids=family)
    await count_up(tx, [row["fanout"] for row in rows])
    await family_sql.forget_cancelled_children.run(tx, parents=[row["id"] for row in rows])
    await wake_lanes(tx, {row["lane"] for row in rows})
    return {row["id"] for row in rows}


async def _watch(database: Database, stage: list[int], known: set[str], patience: timedelta, result: Redriven) -> None:
    """Wait until all have ended, or one shows the old fingerprint: also before its last try, for it would only repeat it."""
    pending = set(stage)
    pauses = iter(LOOK_AFTER)
    deadline = time.monotonic() + patience.total_seconds()
    while pending and not result.stopped:
        ended = await _look(database, sorted(pending)[:BITE], known, result)
        pending -= ended
        if ended:
            pauses = iter(LOOK_AFTER)
        elif time.monotonic() > deadline:
            result.unfinished = sorted(pending)
            result.stopped = (
                f"{counted(len(pending), 'job')} did not end within {span(patience)}; "
                f"`penstock why {result.unfinished[0]}` says why."
            )
        else:
            await asyncio.sleep(next(pauses, LOOK_AFTER[-1]))


async def _look(database: Database, ids: list[int], known: set[str], result: Redriven) -> set[int]:
    """One look; the jobs that have ended, counted in the result."""
    rows = await database.pool.repeat(lambda session: sql.ended_of(session, ids=ids))
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
        result.stopped = f"the same failure has returned ({_numbers(result.failed_again)})."
    return ended


def _numbers(ids: list[int]) -> str:
    return f"job {listed([str(number) for number in ids])}"
