"""Two and three actors through claim, heartbeat, finish, settle, rescue, cancel and promote, in every order there is.

Each exploration says how many schedules it went through, and that number is part of the proof: it changes only when an
actor gets another statement or another lock. Where nobody waits for a lock it is also compared with the formula.
"""

import zlib
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from penstock.database import Session
from penstock.database.sql_files import Statements
from penstock.engine.children import sql as family_sql
from penstock.engine.children import sql as fanout_sql
from penstock.engine.claim import sql as lanes_sql
from penstock.engine.job import Dead, Failure, Retry
from penstock.engine.limits.exchange import sql as permits_sql
from penstock.engine.maintenance import sql as chores_sql
from penstock.engine.schedules import Schedule, declare
from penstock.engine.settle import sql as settler_sql
from penstock.engine.steps import sql as checkpoint_sql
from tests.engine.conftest import nothing
from tests.proofs.actors import (
    again_of,
    cancels,
    claims,
    claims_quarantined,
    declares_gone,
    exchanges,
    finishes,
    heartbeats,
    in_turn,
    keeps_step,
    promotes,
    redrives,
    rescues,
    settles,
    ticks,
)
from tests.proofs.explore import ProofDatabase, Violation, explore
from tests.proofs.explored_jobs import BEGIN, LEASE_OVER, Answers, fan_out, parent_states, running_job, state_of, told
from tests.proofs.stepped_session import Altered, Seat

failure = Failure("Transient", "ValueError", "no", "trace", "f00")


# --- Two actors -------------------------------------------------------------------------------------------------------


async def test_claim_claim(proof_database: ProofDatabase) -> None:
    """Two workers and two jobs: nobody gets what the other has."""
    numbers = await proof_database.job_queue.enqueue(nothing(n=1), nothing(n=2))
    first, second = await proof_database.job_queue.worker(), await proof_database.job_queue.worker()
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert sorted(answers["claim"] + answers["other"]) == [(number, 1) for number in numbers]

    told(
        await explore(
            proof_database,
            {"claim": claims(proof_database, first), "other": claims(proof_database, second)},
            check=check,
        ),
        20,
    )


@pytest.mark.slow
async def test_claim_cancel(proof_database: ProofDatabase) -> None:
    """Cancelled in time, or running and asked to end: one of the two, and never both."""
    [number] = await proof_database.job_queue.enqueue(unique="k")
    worker = await proof_database.job_queue.worker()
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert answers["cancel"] == [number]
        asked = await session.fetchval("select cancelling from penstock.jobs where id = $1", number)
        assert await state_of(session, number) == (("running", 1) if answers["claim"] else ("cancelled", 0))
        assert asked is (True if answers["claim"] else None)

    told(
        await explore(
            proof_database, {"claim": claims(proof_database, worker), "cancel": cancels(number)}, check=check
        ),
        96,
    )


@pytest.mark.slow
async def test_settle_rescue(proof_database: ProofDatabase) -> None:
    worker, job = await running_job(proof_database, lost=True, unique="k")
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert await state_of(session, job.id) == ("done" if answers["settle"] else "ready", 1)

    told(await explore(proof_database, {"settle": settles(worker, job), "rescue": rescues(worker)}, check=check), 278)


@pytest.mark.slow
async def test_finish_rescue(proof_database: ProofDatabase) -> None:
    worker, job = await running_job(proof_database, lost=True)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        effects = await session.fetchval("select count(*) from proofs.effects")
        assert await state_of(session, job.id) == ("done" if answers["finish"] == "done" else "ready", 1)
        assert effects == (answers["finish"] == "done")

    told(
        await explore(
            proof_database, {"finish": finishes(worker, job), "rescue": rescues(worker)}, check=check, unstepped=BEGIN
        ),
        197,
    )


async def test_finish_cancel(proof_database: ProofDatabase) -> None:
    worker, job = await running_job(proof_database)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert answers["finish"] == "done", "a wish to cancel takes no job away from its worker"
        assert await state_of(session, job.id) == ("done", 1)

    told(await explore(proof_database, {"finish": finishes(worker, job), "cancel": cancels(job.id)}, check=check), 82)


async def test_settle_cancel(proof_database: ProofDatabase) -> None:
    """A failed try on its way to a retry: the wish to cancel must reach the job, whatever it does just now."""
    worker, job = await running_job(proof_database)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert answers["cancel"] == [job.id], "it was alive all the time"
        asked = await session.fetchval("select cancelling from penstock.jobs where id = $1", job.id)
        state, _ = await state_of(session, job.id)
        assert state == "cancelled" or asked

    retries = settles(worker, job, outcome=Retry(failure, timedelta(seconds=5)))
    told(await explore(proof_database, {"settle": retries, "cancel": cancels(job.id)}, check=check), 46)


async def test_settle_settle(proof_database: ProofDatabase) -> None:
    """One batch, written twice at once: an answer was lost, and the repetition overtakes the original."""
    worker, job = await running_job(proof_database, unique="k")
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert sorted(map(len, answers.values())) == [0, 1]

    told(
        await explore(proof_database, {"settle": settles(worker, job), "again": settles(worker, job)}, check=check), 24
    )


async def test_promote_promote(proof_database: ProofDatabase) -> None:
    await proof_database.job_queue.enqueue(nothing(n=1), nothing(n=2), delay=timedelta(seconds=5))
    await proof_database.job_queue.advance(6)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert sum(answers.values()) == 2
        assert await session.fetchval("select count(*) from penstock.jobs where state = 'ready'") == 2

    told(await explore(proof_database, {"promote": promotes(), "other": promotes()}, check=check), 4)


@pytest.mark.slow
async def test_rescue_rescue(proof_database: ProofDatabase) -> None:
    """Two of the fleet find the same dead worker."""
    worker, job = await running_job(proof_database, lost=True)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert sorted(answers.values()) == [[], [worker]]
        tries = await session.fetchval("select cardinality(attempts) from penstock.jobs where id = $1", job.id)
        state, attempt = await state_of(session, job.id)
        # Running still, and found by the next look: one had it locked, or had not committed, when the other came.
        assert (state, attempt, tries) in (("ready", 1, 1), ("running", 1, 0))
        assert state == "ready" or await chores_sql.gone_with_jobs(session)

    told(
        await explore(
            proof_database, {"rescue": rescues(worker), "other": rescues(worker)}, check=check, unstepped=BEGIN
        ),
        144,
    )


async def test_claim_rescue(proof_database: ProofDatabase) -> None:
    """A worker claims while others give it up: it gets nothing, or what it gets is found and taken back."""
    await proof_database.job_queue.enqueue()
    worker = await proof_database.job_queue.worker()
    await proof_database.job_queue.run(LEASE_OVER, worker)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        running = await session.fetch("select id from penstock.jobs where state = 'running'")
        alive = await session.fetchval("select gone_at is null from penstock.workers where id = $1", worker)
        left = await chores_sql.gone_with_jobs(session)
        assert not running or alive or [row["worker_id"] for row in left] == [worker]

    told(
        await explore(
            proof_database, {"claim": claims(proof_database, worker), "rescue": rescues(worker)}, check=check
        ),
        13,
    )


@pytest.mark.slow
async def test_zombie(proof_database: ProofDatabase) -> None:
    """It wakes up at any moment of its job's second life, and writes nothing once the job was taken from it."""
    frozen, job = await running_job(proof_database, lost=True)
    healthy = await proof_database.job_queue.worker()
    await proof_database.keep()

    async def finish_what_was_taken(seat: Seat) -> str:
        attempt = await claims_quarantined(proof_database, healthy)(seat)
        return "nothing" if attempt is None else await finishes(healthy, again_of(job, attempt))(seat)

    async def check(session: Session, answers: Answers) -> None:
        _, second = answers["healthy"]
        assert await session.fetchval("select count(*) from proofs.effects") == [answers["zombie"], second].count(
            "done"
        )
        # Nobody, when the zombie still has the row's lock at the moment of the claim: the next claim will have it.
        assert (
            await state_of(session, job.id)
            == {
                ("done", "nothing"): ("done", 1),
                ("lost", "done"): ("done", 2),
                ("lost", "nothing"): ("ready", 1),
            }[answers["zombie"], second]
        )

    plays = {"zombie": finishes(frozen, job), "healthy": in_turn(rescues(frozen), finish_what_was_taken)}
    told(await explore(proof_database, plays, check=check, unstepped=BEGIN), 326)


# --- Three actors -----------------------------------------------------------------------------------------------------


async def test_settle_promote_claim(proof_database: ProofDatabase) -> None:
    """A retry that is due at once goes through three hands."""
    worker, job = await running_job(proof_database)
    other = await proof_database.job_queue.worker()
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        expected = ("running", 2) if answers["claim"] else ("ready" if answers["promote"] else "later", 1)
        assert await state_of(session, job.id) == expected

    plays = {
        "settle": settles(worker, job, outcome=Retry(failure, timedelta(0))),
        "promote": promotes(),
        "claim": claims(proof_database, other),
    }
    told(await explore(proof_database, plays, check=check), 21)


async def test_beat_declare_claim(proof_database: ProofDatabase) -> None:
    """A late heartbeat, a declaration and a claim: who was declared gone has no heartbeat, and claims nothing afterwards."""
    await proof_database.job_queue.enqueue()
    worker = await proof_database.job_queue.worker()
    await proof_database.job_queue.run(LEASE_OVER, worker)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        gone = await session.fetchval("select gone_at is not null from penstock.workers where id = $1", worker)
        assert gone == bool(answers["declare"])
        assert answers["heartbeat"] != gone

    plays = {"heartbeat": heartbeats(worker), "declare": declares_gone(), "claim": claims(proof_database, worker)}
    told(await explore(proof_database, plays, check=check), 73)


@pytest.mark.slow
async def test_zombie_rescue_claim(proof_database: ProofDatabase) -> None:
    """The zombie settles, one rescues, and another one claims and settles."""
    frozen, job = await running_job(proof_database, lost=True)
    healthy = await proof_database.job_queue.worker()
    await proof_database.keep()

    async def claim_and_settle(seat: Seat) -> set[int]:
        attempt = await claims_quarantined(proof_database, healthy)(seat)
        return set() if attempt is None else await settles(healthy, again_of(job, attempt))(seat)

    async def check(session: Session, answers: Answers) -> None:
        state, attempt = await state_of(session, job.id)
        if answers["zombie"]:
            assert (state, attempt) == ("done", 1)
        elif answers["healthy"]:
            assert (state, attempt) == ("done", 2)
        else:
            assert (state, attempt) == ("ready", 1)

    plays = {"zombie": settles(frozen, job), "rescue": rescues(frozen), "healthy": claim_and_settle}
    told(await explore(proof_database, plays, check=check, unstepped=BEGIN), 209)


# --- Families ---------------------------------------------------------------------------------------------------------


async def test_settle_settle_last_children(proof_database: ProofDatabase) -> None:
    """The last two children end at the same time in two workers: one of them wakes the parent, exactly once."""
    worker, [one, two] = await fan_out(proof_database)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert await parent_states(session) == ["ready"]

    told(
        await explore(proof_database, {"settle": settles(worker, one), "other": settles(worker, two)}, check=check), 50
    )


async def test_settle_settle_of_the_same_parents(proof_database: ProofDatabase) -> None:
    """Each has a child of both parents in its batch, in opposite orders: nobody waits in a circle."""
    worker, [a1, a2, b1, b2] = await fan_out(proof_database, parents=2)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert await parent_states(session) == ["ready", "ready"]

    plays = {"settle": settles(worker, a1, b1), "other": settles(worker, b2, a2)}
    told(await explore(proof_database, plays, check=check), 50)


@pytest.mark.slow
async def test_holder_settle_settle(proof_database: ProofDatabase) -> None:
    """The same while a third one has the first fan-out: within their one statement, too, both begin with the same."""
    worker, [a1, a2, b1, b2] = await fan_out(proof_database, parents=2)
    [first] = await proof_database.job_queue.run("select min(id) as id from penstock.fanouts")
    await proof_database.keep()

    async def hold(seat: Seat) -> None:
        async with seat.pool.transaction() as tx:
            await fanout_sql.lock_fanout.value(tx, id=first["id"])

    plays = {"holder": hold, "settle": settles(worker, a1, b1), "other": settles(worker, b2, a2)}
    told(await explore(proof_database, plays, unstepped=BEGIN), 240)


@pytest.mark.slow
async def test_settle_children_cancel_tree(proof_database: ProofDatabase) -> None:
    """A batch of two children while somebody cancels the whole tree."""
    worker, [one, two] = await fan_out(proof_database)
    [parent] = await proof_database.job_queue.run("select id from penstock.jobs where fanout is null")
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert parent["id"] in answers["cancel"]
        assert await state_of(session, parent["id"]) == ("cancelled", 1)
        assert {(await state_of(session, job.id))[0] for job in (one, two)} == {"done"}

    told(
        await explore(
            proof_database, {"settle": settles(worker, one, two), "cancel": cancels(parent["id"])}, check=check
        ),
        110,
    )


async def test_rescue_child_settle_child(proof_database: ProofDatabase) -> None:
    """A child dies with its worker as a lonely quarantined job for the last time, while its sister ends."""
    worker, [one, two] = await fan_out(proof_database)
    gone = await proof_database.job_queue.worker()
    await proof_database.job_queue.run(
        "update penstock.jobs set worker_id = $1, quarantined = true, deaths = 1 where id = $2", gone, one.id
    )
    await proof_database.job_queue.run(LEASE_OVER, gone)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert await parent_states(session) == ["ready"]
        assert await state_of(session, one.id) == ("dead", 1)

    told(
        await explore(
            proof_database, {"settle": settles(worker, two), "rescue": rescues(gone)}, check=check, unstepped=BEGIN
        ),
        63,
    )


@pytest.mark.slow
async def test_redrive_child_settle_sister(proof_database: ProofDatabase) -> None:
    """A dead child gets another chance while its sister, the last one, ends."""
    worker, [one, two] = await fan_out(proof_database)
    await proof_database.job_queue.settle(worker, (one, Dead(failure)))
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert (await state_of(session, one.id))[0] == "ready"
        assert await session.fetchval("select unfinished from penstock.fanouts") == 1

    told(
        await explore(
            proof_database, {"settle": settles(worker, two), "redrive": redrives(one.id)}, check=check, unstepped=BEGIN
        ),
        147,
    )


# --- Steps, schedules, limits -----------------------------------------------------------------------------------------


async def test_step_zombie(proof_database: ProofDatabase) -> None:
    """A step is kept by the attempt that has the job: a zombie does not replace what the next attempt has kept."""
    frozen, job = await running_job(proof_database, lost=True)
    healthy = await proof_database.job_queue.worker()
    await proof_database.keep()

    async def claim_and_keep(seat: Seat) -> int | None:
        attempt = await claims_quarantined(proof_database, healthy)(seat)
        return None if attempt is None else await keeps_step(healthy, again_of(job, attempt))(seat)

    async def check(session: Session, answers: Answers) -> None:
        kept = [int(zlib.decompress(row["content"])) for row in await session.fetch("table penstock.checkpoints")]
        _, second = answers["healthy"]
        used = [answer for answer in (second, answers["zombie"]) if answer is not None]
        assert kept == used[:1], "what is kept is what the last attempt has used"

    plays = {"zombie": keeps_step(frozen, job), "healthy": in_turn(rescues(frozen), claim_and_keep)}
    told(await explore(proof_database, plays, check=check, unstepped=BEGIN), 35)


async def test_tick_tick(proof_database: ProofDatabase) -> None:
    """Two workers at the same tick: one job."""
    await proof_database.job_queue.enqueue()  # makes the lane
    schedule = Schedule("nightly", "default", "every 1h", "UTC", "default", "nothing", "{}", "one", "allow")
    async with proof_database.job_queue.database.pool.transaction() as tx:
        await declare(tx, [schedule], "code", timedelta(hours=1))
    await proof_database.job_queue.advance(3601)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert await session.fetchval("select count(*) from penstock.jobs where unique_key is not null") == 1
        assert await session.fetchval("select fired from penstock.schedules") == 1

    told(await explore(proof_database, {"tick": ticks(), "other": ticks()}, check=check), 80)


@pytest.mark.slow
async def test_permits_permits(proof_database: ProofDatabase) -> None:
    """Two hungry workers and three permits: whatever each sees of the other, there are never more than three."""
    first, second = await proof_database.job_queue.worker(), await proof_database.job_queue.worker()
    await proof_database.job_queue.run("insert into penstock.limits (name, permits) values ('llm', 3)")
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        granted = [row["granted"] for row in await session.fetch("select granted from penstock.allotments")]
        assert len(granted) == 2
        assert sum(answers.values()) <= sum(granted) <= 3

    plays = {"exchange": exchanges(first, 3), "other": exchanges(second, 3)}
    with Altered(permits_sql, "bound_waiting", "100ms", "10s"):  # here a wait ends when the other one goes on
        told(await explore(proof_database, plays, check=check), 148)


# --- It would notice --------------------------------------------------------------------------------------------------

FENCE = "and jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id"
STEP_FENCE = "and attempt = $2 and worker_id = $3"
ANYBODY = "and $2::int is not null and $3::bigint is not null"
UNSAFE = [
    pytest.param(
        test_zombie_rescue_claim,
        settler_sql,
        "settle_done",
        FENCE,
        "",
        id="settle without a fence",
        marks=pytest.mark.slow,
    ),
    pytest.param(test_claim_claim, lanes_sql, "claim_jobs", "for update skip locked", "", id="claim without a lock"),
    pytest.param(test_promote_promote, chores_sql, "promote_jobs", "for update skip locked", "", id="promote twice"),
    pytest.param(test_step_zombie, checkpoint_sql, "keep_checkpoint", STEP_FENCE, ANYBODY, id="step without a fence"),
    pytest.param(
        test_holder_settle_settle,
        family_sql,
        "count_down",
        "order by fanout.id",
        "",
        id="any order of locks",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        test_permits_permits,
        permits_sql,
        "lock_limits",
        "for update",
        "",
        id="permits without a lock",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("scenario", "statements", "name", "old", "new"), UNSAFE)
async def test_an_exploration_notices(
    proof_database: ProofDatabase,
    scenario: Callable[[ProofDatabase], Awaitable[None]],
    statements: Statements,
    name: str,
    old: str,
    new: str,
) -> None:
    """The same scenario with a condition missing: it finds a schedule that shows what the condition is for."""
    with Altered(statements, name, old, new), pytest.raises(Violation) as found:
        await scenario(proof_database)
    print(f"\n{found.value}")  # noqa: T201  the schedule is the point
    assert "found by interleaving" in str(found.value)
    assert name in str(found.value)
