"""Explorations that take minutes: three actors with whole transactions. Not part of `./dev test`: `./dev prove --full`."""

import pytest

from penstock.database import Session
from penstock.engine.job import Job
from tests.proofs.actors import again_of, cancels, claims_quarantined, finishes, promotes, rescues, settles
from tests.proofs.explore import ProofDatabase, explore
from tests.proofs.explored_jobs import BEGIN, Answers, fan_out, parent_states, running_job, state_of, told
from tests.proofs.stepped_session import Seat

pytestmark = pytest.mark.timeout(1800)


async def gone_with_a_job(proof_database: ProofDatabase) -> tuple[int, Job]:
    """A worker that was declared gone, and whose job nobody has taken back yet."""
    worker, job = await running_job(proof_database, lost=True)
    assert await proof_database.job_queue.look() == [worker]
    return worker, job


async def test_settle_rescue_cancel(proof_database: ProofDatabase) -> None:
    """A job ends while its worker is given up and somebody cancels it."""
    worker, job = await gone_with_a_job(proof_database)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        state, attempt = await state_of(session, job.id)
        assert attempt == 1
        assert (state == "done") == bool(answers["settle"])
        asked = await session.fetchval("select cancelling from penstock.jobs where id = $1", job.id)
        assert state in ("done", "cancelled") or not answers["cancel"] or asked, "the wish is not forgotten"

    plays = {"settle": settles(worker, job), "rescue": rescues(worker), "cancel": cancels(job.id)}
    told(await explore(proof_database, plays, check=check, unstepped=BEGIN), 9010)


async def test_zombie_rescue_finish(proof_database: ProofDatabase) -> None:
    """Both have effects: the zombie, and the one who runs the job again after somebody else's rescue."""
    frozen, job = await gone_with_a_job(proof_database)
    healthy = await proof_database.job_queue.worker()
    await proof_database.keep()

    async def claim_and_finish(seat: Seat) -> str:
        attempt = await claims_quarantined(proof_database, healthy)(seat)
        return "nothing" if attempt is None else await finishes(healthy, again_of(job, attempt))(seat)

    async def check(session: Session, answers: Answers) -> None:
        done = [answers["zombie"], answers["healthy"]].count("done")
        assert await session.fetchval("select count(*) from proofs.effects") == done <= 1

    plays = {"zombie": finishes(frozen, job), "rescue": rescues(frozen), "healthy": claim_and_finish}
    told(await explore(proof_database, plays, check=check, unstepped=BEGIN), 1135)


async def test_three_settlers_of_one_family(proof_database: ProofDatabase) -> None:
    """Three children in three workers, all at once."""
    worker, [one, two, three] = await fan_out(proof_database, children=3)
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert await parent_states(session) == ["ready"]

    plays = {"first": settles(worker, one), "second": settles(worker, two), "third": finishes(worker, three)}
    told(await explore(proof_database, plays, check=check, unstepped=BEGIN), 3774)


async def test_settle_cancel_promote(proof_database: ProofDatabase) -> None:
    """A child ends, the tree is cancelled, and something else becomes due, which is nobody's business."""
    worker, [one, two] = await fan_out(proof_database)
    [parent] = await proof_database.job_queue.run("select id from penstock.jobs where fanout is null")
    await proof_database.keep()

    async def check(session: Session, answers: Answers) -> None:
        assert parent["id"] in answers["cancel"]
        assert (await state_of(session, one.id))[0] == "done"
        assert await session.fetchval("select cancelling from penstock.jobs where id = $1", two.id)

    plays = {"settle": settles(worker, one), "cancel": cancels(parent["id"]), "promote": promotes()}
    told(await explore(proof_database, plays, check=check, unstepped=BEGIN), 140)
