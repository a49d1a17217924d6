"""Actors for `explore`: the engine's own functions, each on a stepped connection. What they return is their answer."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from penstock.engine.children import cancel_trees
from penstock.engine.claim import Claimer
from penstock.engine.fleet import sql as fleet_sql
from penstock.engine.inspect.dead_letters import make_ready
from penstock.engine.job import Done, Job, Outcome
from penstock.engine.limits.declare import Limit, Limits
from penstock.engine.limits.exchange import Limiters
from penstock.engine.maintenance import rescue
from penstock.engine.maintenance import sql as chores_sql
from penstock.engine.scheduler import tick
from penstock.engine.settle import Settlement, settle
from penstock.errors import LeaseLost
from tests.engine.conftest import JobQueue
from tests.proofs.explore import ProofDatabase
from tests.proofs.stepped_session import Play, Seat


def shop_of(seat: Seat) -> JobQueue:
    """A shop that does everything on the actor's connection."""
    return JobQueue(SimpleNamespace(pool=seat.pool))  # type: ignore[arg-type]


def again_of(job: Job, attempt: int) -> Job:
    """The same job, claimed anew as a quarantined job."""
    return replace(job, attempt=attempt, quarantined=True)


def in_turn(*plays: Play) -> Play:
    """One actor that does several things."""

    async def play(seat: Seat) -> tuple[Any, ...]:
        return tuple([await one(seat) for one in plays])

    return play


# -- a worker -------------------------------------------------------------------------------------------------------


def claims(proof_database: ProofDatabase, worker: int, slots: int = 1) -> Play:
    """Look for lanes, and take from them: the numbers and attempts."""

    async def play(seat: Seat) -> list[tuple[int, int]]:
        claimer = Claimer(proof_database.job_queue.database, proof_database.job_queue.lanes, worker)
        claimer._own = seat.session
        return [(job.id, job.attempt) for job in await claimer.claim({"default": slots})]

    return play


def claims_quarantined(proof_database: ProofDatabase, worker: int) -> Play:
    async def play(seat: Seat) -> int | None:
        """The new attempt."""
        claimer = Claimer(proof_database.job_queue.database, proof_database.job_queue.lanes, worker)
        claimer._own = seat.session
        job = await claimer.claim_quarantined(["default"])
        return None if job is None else job.attempt

    return play


def settles(worker: int, *jobs: Job, outcome: Outcome | None = None) -> Play:
    """A batch of the settler, done unless it says otherwise: the numbers that were still ours."""

    async def play(seat: Seat) -> set[int]:
        async with seat.pool.transaction() as tx:
            return await settle(tx, worker, [Settlement(job, outcome or Done(), 0.1) for job in jobs])

    return play


def finishes(worker: int, job: Job) -> Play:
    """A handler's own transaction, with an effect."""

    async def play(seat: Seat) -> str:
        try:
            async with shop_of(seat).context(job, worker).finish() as tx:
                await tx.execute("insert into proofs.effects values ($1, $2)", job.id, job.attempt)
        except LeaseLost:
            return "lost"
        return "done"

    return play


def keeps_step(worker: int, job: Job) -> Play:
    """A step whose result tells the attempt that computed it, or an earlier one that had kept it."""

    async def compute() -> int:
        return job.attempt

    async def play(seat: Seat) -> int | None:
        try:
            kept: int = await shop_of(seat).context(job, worker).step("s", compute)
        except LeaseLost:
            return None
        return kept

    return play


def heartbeats(worker: int) -> Play:
    async def play(seat: Seat) -> bool:
        row = await fleet_sql.heartbeat.first(seat.session, worker_id=worker, draining=False, load="{}")
        return row is not None

    return play


def exchanges(worker: int, permits: int) -> Play:
    """A heartbeat's exchange of permits, by a worker that could use all of them: what it may use then."""

    async def play(seat: Seat) -> int:
        limits = Limits()
        limits.declare(Limit("llm", permits))
        limiters = Limiters(limits)
        limiters._worker_id = worker
        limiters["llm"].short = True
        await limiters.exchange(seat.session)
        return limiters["llm"].cap

    return play


# -- what every worker does for all -----------------------------------------------------------------------------------


def rescues(gone: int) -> Play:
    """Declare a lost worker gone, and take its jobs back: whom it declared."""

    async def play(seat: Seat) -> list[int]:
        declared = [row["id"] for row in await chores_sql.declare_gone(seat.session, worker_id=0)]
        for row in await chores_sql.gone_with_jobs(seat.session):
            assert row["worker_id"] == gone
            await rescue(seat.session, gone)
        return declared

    return play


def declares_gone() -> Play:
    async def play(seat: Seat) -> list[int]:
        return [row["id"] for row in await chores_sql.declare_gone(seat.session, worker_id=0)]

    return play


def promotes() -> Play:
    async def play(seat: Seat) -> int:
        return len(await chores_sql.promote_jobs(seat.session, batch=500))

    return play


def ticks() -> Play:
    async def play(seat: Seat) -> int:
        return await tick(seat.session)

    return play


# -- people -----------------------------------------------------------------------------------------------------------


def cancels(*numbers: int) -> Play:
    """As `app.cancel` does: the numbers of those that were alive."""

    async def play(seat: Seat) -> list[int]:
        async with seat.pool.transaction() as tx:
            return await cancel_trees(tx, numbers, "test")

    return play


def redrives(*numbers: int) -> Play:
    """One step of `app.redrive`."""

    async def play(seat: Seat) -> None:
        async with shop_of(seat).database.pool.transaction() as tx:
            await make_ready(tx, list(numbers))

    return play
