"""`why`: each sentence, and that it never disagrees with the claim.

The claim and `why` share gates.sql. A change in gates.sql must turn both red: each of them is compared with a model in plain
Python, and `test_a_changed_gate_turns_both_red` changes the gates to see that it does.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.database import Statements
from penstock.engine import claim
from penstock.engine.claim import Claimer, LaneKey, Lanes
from penstock.engine.inspect import explain as explaining
from penstock.engine.inspect.explain import Explanation, advise, explain_job
from penstock.engine.job import Cancelled, Dead, Done, Retry, Snooze, describe_failure
from tests.engine.conftest import JobQueue, make_kind, nothing
from tests.slow import examples

ENGINE = Path(claim.__file__).parent
# Some live worker would take it, now or when its turn comes.
CLAIMABLE = frozenset({"open", "behind", "quarantined", "permits in use"})


async def why(job_queue: JobQueue, job_id: int) -> Explanation:
    async with job_queue.database.pool.session() as session:
        return await explain_job(session, job_id)


def failure(text: str) -> Any:
    return describe_failure("nothing", ValueError(text), "Transient", "v1")


# -- sentences ----------------------------------------------------------------------------------------------------


async def test_not_found(job_queue: JobQueue) -> None:
    said = await why(job_queue, 404)
    assert (said.state, said.because) == ("not found", "not found")
    assert said.sentence == "Job 404 does not exist, neither alive nor in the history."


async def test_no_worker(job_queue: JobQueue) -> None:
    [job] = await job_queue.enqueue()
    said = await why(job_queue, job)
    assert (said.state, said.because) == ("ready", "no worker")
    assert "none is running" in said.sentence
    assert "penstock worker" in said.sentence


async def test_unserved(job_queue: JobQueue) -> None:
    strange = make_kind("strange")
    [job] = await job_queue.enqueue(strange())
    await job_queue.worker(nothing)
    assert (await why(job_queue, job)).because == "unserved"
    former = await job_queue.worker(strange)
    await job_queue.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'left' where id = $1", former)
    said = await why(job_queue, job)
    assert said.because == "unserved"
    assert "no live worker serves the kind strange in the queue default" in said.sentence
    assert "The last one that served it was" in said.sentence


async def test_only_draining_workers(job_queue: JobQueue) -> None:
    [job] = await job_queue.enqueue()
    worker = await job_queue.worker()
    await job_queue.run("update penstock.workers set draining = true where id = $1", worker)
    said = await why(job_queue, job)
    assert said.because == "draining"
    assert "the only worker that serves it is draining" in said.sentence


async def test_next_and_behind(job_queue: JobQueue) -> None:
    first, second, third = await job_queue.enqueue(nothing(), nothing(), nothing())
    [urgent] = await job_queue.enqueue(nothing(), priority=-7)
    await job_queue.enqueue(nothing(), fairness_key="other")
    await job_queue.worker()
    assert (await why(job_queue, urgent)).because == "open"
    assert "is behind 1 job in its lane (default, nothing, default)" in (await why(job_queue, first)).sentence
    assert (await why(job_queue, second)).evidence["ahead_in_lane"] == 2
    assert "behind 3 jobs" in (await why(job_queue, third)).sentence
    assert "1 worker serves it, with 0 of 10 slots in use" in (await why(job_queue, third)).sentence


async def test_far_behind_is_counted_to_a_thousand(job_queue: JobQueue) -> None:
    jobs = await job_queue.enqueue(*(nothing(n=n) for n in range(1200)))
    await job_queue.worker()
    assert "behind 1,000 jobs" in (await why(job_queue, jobs[1000])).sentence
    assert "behind more than 1,000 jobs" in (await why(job_queue, jobs[1100])).sentence


@pytest.mark.parametrize(("what", "name"), [("queue", "default"), ("kind", "nothing"), ("fairness_key", "default")])
async def test_paused(job_queue: JobQueue, what: str, name: str) -> None:
    [job] = await job_queue.enqueue()
    await job_queue.worker()
    await job_queue.run(
        "insert into penstock.pauses (what, name, reason) values ($1, $2, 'the disk is full')", what, name
    )
    said = await why(job_queue, job)
    assert said.because == "paused"
    assert f"the {what.replace('_', ' ')} {name} has been paused since" in said.sentence
    assert "(the disk is full)" in said.sentence
    assert f"`penstock resume --{what.replace('_', '-')} {name}`" in said.sentence


async def test_running(job_queue: JobQueue) -> None:
    await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    progress = json.dumps({"done": 3, "total": 10, "note": "pages"})
    await job_queue.run("update penstock.jobs set progress = $1 where id = $2", progress, job.id)
    said = await why(job_queue, job.id)
    assert (said.state, said.because) == ("running", "running")
    assert "in attempt 1; progress 3 of 10 (pages); the worker's last heartbeat was" in said.sentence
    await job_queue.run("update penstock.jobs set cancelling = true where id = $1", job.id)
    said = await why(job_queue, job.id)
    assert said.because == "cancelling"
    assert "is being cancelled" in said.sentence


async def test_running_on_a_lost_worker_then_quarantined(job_queue: JobQueue) -> None:
    await job_queue.enqueue(nothing(), nothing())
    worker = await job_queue.worker()
    first, second = await job_queue.claim(worker)
    await job_queue.advance(16)
    said = await why(job_queue, first.id)
    assert said.because == "lost", "silent for longer than its lease, and not yet declared gone"
    assert "as soon as another worker runs" in said.sentence
    other = await job_queue.worker()
    await job_queue.look(other)
    said = await why(job_queue, first.id)
    assert "another worker takes it over within seconds" in said.sentence

    await job_queue.rescue(worker)
    said = await why(job_queue, first.id)
    assert said.because == "quarantined"
    assert "ran when its worker was lost; such jobs run one at a time per worker" in said.sentence
    assert "1 other is before it" in (await why(job_queue, second.id)).sentence
    await job_queue.claim_quarantined(other)
    assert (await why(job_queue, second.id)).because == "quarantine busy"


async def test_later(job_queue: JobQueue) -> None:
    [scheduled] = await job_queue.enqueue(delay=timedelta(hours=2))
    said = await why(job_queue, scheduled)
    assert (said.state, said.because) == ("later", "scheduled")
    assert ", in 2 h" in said.sentence

    await job_queue.enqueue(nothing(), nothing())
    worker = await job_queue.worker()
    failed, limited = await job_queue.claim(worker)
    await job_queue.settle(worker, (failed, Retry(failure("boom"), timedelta(minutes=5))))
    await job_queue.settle(worker, (limited, Snooze(failure("slow down"), timedelta(minutes=5))))
    said = await why(job_queue, failed.id)
    assert said.because == "backoff"
    assert "failed with ValueError (Transient): boom; it is tried again at" in said.sentence
    assert "slow down" in (await why(job_queue, limited.id)).sentence

    await job_queue.run("insert into penstock.pauses (what, name, reason) values ('kind', 'nothing', 'why not')")
    assert "Then it will wait because the kind nothing has been paused" in (await why(job_queue, failed.id)).sentence
    await job_queue.advance(600)
    assert (
        "it is due, and the next heartbeat of any worker makes it ready" in (await why(job_queue, failed.id)).sentence
    )


async def test_due_without_a_worker(job_queue: JobQueue) -> None:
    [job] = await job_queue.enqueue(delay=timedelta(hours=2))
    await job_queue.advance(7200)
    said = await why(job_queue, job)
    assert said.because == "scheduled"
    assert said.sentence.endswith(" ago, but no worker is running: start one with `penstock worker module:app`.")
    await job_queue.run("insert into penstock.pauses (what, name, reason) values ('kind', 'nothing', 'why not')")
    said = await why(job_queue, job)
    assert (
        "`penstock worker module:app`. Then it will wait because the kind nothing has been paused since"
        in said.sentence
    )
    assert said.sentence.endswith(" ago (why not): `penstock resume --kind nothing`.")


async def test_the_parts_of_a_sentence(job_queue: JobQueue) -> None:
    [job] = await job_queue.enqueue()
    said = await why(job_queue, job)
    assert (said.subject, said.advice) == (f"Job {job}", "Start one with `penstock worker module:app`.")
    assert said.predicate == "waits for a worker: none is running. None has done so within the last week."
    assert said.sentence == f"{said.subject} {said.predicate} {said.advice}"
    assert advise(said.because, said.evidence, "`mill worker`") == "Start one with `mill worker`."
    assert said.answer() == {
        "sentence": said.sentence,
        "state": "ready",
        "evidence": said.evidence,
        "because": "no worker",
    }


async def test_dead(job_queue: JobQueue) -> None:
    await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    await job_queue.settle(worker, (job, Dead(failure("the file is encrypted"))))
    said = await why(job_queue, job.id)
    assert (said.state, said.because) == ("dead", "dead")
    assert "dead after 1 attempt, with ValueError (Transient): the file is encrypted." in said.sentence
    assert f"`penstock dead redrive {job.id}`" in said.sentence


async def test_over(job_queue: JobQueue) -> None:
    await job_queue.enqueue(nothing(), nothing())
    worker = await job_queue.worker()
    done, cancelled = await job_queue.claim(worker)
    await job_queue.settle(worker, (done, Done()), (cancelled, Cancelled()))
    said = await why(job_queue, done.id)
    assert (said.state, said.because) == ("done", "done")
    assert "is done: nothing ended at" in said.sentence
    assert "in attempt 1" in said.sentence
    assert "was cancelled at" in (await why(job_queue, cancelled.id)).sentence


async def limited(job_queue: JobQueue, *parts: tuple[int, int]) -> list[int]:
    """A limit of 20 that the kind needs, and workers with what they were granted and use."""
    await job_queue.run("insert into penstock.limits (name, permits) values ('llm', 20)")
    await job_queue.run("insert into penstock.uses (kind, limit_name, amount) values ('nothing', 'llm', 1)")
    workers = [await job_queue.worker() for _ in parts]
    for worker, (granted, used) in zip(workers, parts, strict=True):
        await job_queue.run("update penstock.workers set name = 'w' || id where id = $1", worker)
        await job_queue.run(
            """insert into penstock.allotments (limit_name, worker_id, granted, used, waiting, concurrency)
            values ('llm', $1, $2, $3, 1, 1)""",
            worker,
            granted,
            used,
        )
    return workers


async def test_all_permits_in_use(job_queue: JobQueue) -> None:
    first, second = await limited(job_queue, (12, 12), (8, 8))
    [job] = await job_queue.enqueue()
    said = await why(job_queue, job)
    assert said.because == "permits in use"
    assert said.sentence.endswith(f"waits for llm: all 20 permits are in use (w{first}: 12, w{second}: 8).")
    await job_queue.run("update penstock.allotments set used = 7 where worker_id = $1", second)
    said = await why(job_queue, job)
    assert said.because == "permits in use"
    assert "19 of 20 permits are in use" in said.sentence
    assert "and more concurrent calls are not allowed yet (concurrency limit 1.0, 1.0)" in said.sentence
    await job_queue.run("update penstock.allotments set concurrency = 8 where worker_id = $1", second)
    assert (await why(job_queue, job)).because == "open"


async def test_no_permit_was_granted(job_queue: JobQueue) -> None:
    [worker] = await limited(job_queue, (0, 0))
    [job] = await job_queue.enqueue()
    said = await why(job_queue, job)
    assert said.because == "permits"
    assert f"waits for llm: 0 of 20 permits are in use (w{worker}: 0)" in said.sentence
    assert await job_queue.claim(worker) == []


async def test_an_open_breaker(job_queue: JobQueue) -> None:
    [worker] = await limited(job_queue, (20, 0))
    [job] = await job_queue.enqueue()
    await job_queue.run(
        """update penstock.limits
        set opened_at = penstock.now(), rests_till = penstock.now() + interval '30 s', reason = 'no route'"""
    )
    said = await why(job_queue, job)
    assert said.because == "breaker"
    assert "waits for llm: its breaker has been open since " in said.sentence
    assert ", because no route; the next probe is at " in said.sentence
    assert await job_queue.claim(worker) == []
    await job_queue.run(
        "update penstock.limits set probe_by = $1, probe_till = penstock.now() + interval '5 s'",
        await job_queue.worker(),
    )
    assert "because no route; " in (await why(job_queue, job)).sentence
    assert " probes it now." in (await why(job_queue, job)).sentence
    await job_queue.run("update penstock.limits set probe_by = $1", worker)
    assert (await why(job_queue, job)).because == "open"
    assert len(await job_queue.claim(worker)) == 1


# -- the property -------------------------------------------------------------------------------------------------

QUEUES = ("default", "cpu")
KINDS = ("a", "b")
SHARES = ("x", "y")


@dataclass(frozen=True)
class Fellow:
    """A worker of the model."""

    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    draining: bool = False
    gone: bool = False
    runs_quarantined: bool = False
    granted: int | None = None  # of the limit that the kind b uses, two permits for each job
    probes: bool = False

    def may_take(self, lane: LaneKey, pauses: frozenset[tuple[str, str]], *, quarantined: bool, broken: bool) -> bool:
        queue, kind, fairness_key = lane
        if self.gone or self.draining or pauses & {("queue", queue), ("kind", kind), ("fairness_key", fairness_key)}:
            return False
        if kind == "b" and ((self.granted or 0) < 2 or (broken and not self.probes)):
            return False
        return queue in self.queues and kind in self.kinds and not (quarantined and self.runs_quarantined)


@dataclass(frozen=True)
class World:
    """What is in the database, and what it must mean."""

    jobs: tuple[tuple[LaneKey, int, bool], ...]  # lane, priority, quarantined
    fellows: tuple[Fellow, ...]
    pauses: frozenset[tuple[str, str]]
    broken: bool = False  # the breaker of that limit is open

    def claimable(self) -> set[int]:
        """The jobs, by their place, that some worker would take."""
        return {
            place
            for place, (lane, _, quarantined) in enumerate(self.jobs)
            if any(
                fellow.may_take(lane, self.pauses, quarantined=quarantined, broken=self.broken)
                for fellow in self.fellows
            )
        }


def some(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=len(names)).map(tuple)


LANES = st.tuples(st.sampled_from(QUEUES), st.sampled_from(KINDS), st.sampled_from(SHARES))
PAUSES = st.sampled_from(
    [
        *(("queue", name) for name in QUEUES),
        *(("kind", name) for name in KINDS),
        *(("fairness_key", name) for name in SHARES),
    ]
)
WORLDS = st.builds(
    World,
    st.lists(st.tuples(LANES, st.integers(-1, 1), st.booleans()), min_size=1, max_size=8).map(tuple),
    st.lists(
        st.builds(
            Fellow,
            some(QUEUES),
            some(KINDS),
            st.booleans(),
            st.booleans(),
            st.booleans(),
            st.sampled_from([None, 1, 2, 3]),
        ),
        max_size=3,
    ).map(tuple),
    st.frozensets(PAUSES, max_size=2),
    st.booleans(),
).flatmap(lambda world: st.integers(-1, len(world.fellows) - 1).map(lambda place: with_probe(world, place)))


def with_probe(world: World, place: int) -> World:
    """One of the workers has the probe; -1: nobody."""
    fellows = tuple(replace(fellow, probes=number == place) for number, fellow in enumerate(world.fellows))
    return replace(world, fellows=fellows)


async def build(job_queue: JobQueue, world: World) -> list[int]:
    """The numbers of the world's jobs, in order."""
    await job_queue.run("truncate penstock.jobs, penstock.workers, penstock.pauses")
    await job_queue.run("truncate penstock.limits, penstock.uses, penstock.allotments")
    await job_queue.run("insert into penstock.uses (kind, limit_name, amount) values ('b', 'llm', 2)")
    await job_queue.run(
        """insert into penstock.limits (name, permits, opened_at, rests_till, reason) select 'llm', 9, at, at,
        case when $1 then 'no route' end from (select case when $1 then penstock.now() end as at) as now""",
        world.broken,
    )
    for fellow in world.fellows:
        [worker] = await job_queue.run(
            """insert into penstock.workers (name, host, pid, version, queues, kinds, slots, lease, draining, gone_at, gone_why)
            values ('w', 'h', 1, '1', $1, $2, 10, '1 h', $3,
              case when $4 then penstock.now() end, case when $4 then 'left' end) returning id""",
            list(fellow.queues),
            list(fellow.kinds),
            fellow.draining,
            fellow.gone,
        )
        if fellow.granted is not None:
            await job_queue.run(
                """insert into penstock.allotments (limit_name, worker_id, granted, used, waiting, concurrency)
                values ('llm', $1, $2, $2, 1, 1)""",
                worker["id"],
                fellow.granted,
            )
        if fellow.probes:
            await job_queue.run(
                "update penstock.limits set probe_by = $1, probe_till = penstock.now() + interval '1 h'", worker["id"]
            )
        if fellow.runs_quarantined:
            await job_queue.run(
                """insert into penstock.jobs (lane, args, state, quarantined, worker_id, claimed_at)
                values (0, '{}', 'running', true, $1, penstock.now())""",
                worker["id"],
            )
    for what, name in world.pauses:
        await job_queue.run("insert into penstock.pauses (what, name, reason) values ($1, $2, 'test')", what, name)
    ids = await job_queue.lanes.ids(job_queue.database, (lane for lane, _, _ in world.jobs))
    rows = await job_queue.run(
        """insert into penstock.jobs (lane, priority, quarantined, args)
        select lane, priority, quarantined, '{}' from unnest($1::int[], $2::smallint[], $3::boolean[])
          with ordinality as new(lane, priority, quarantined, turn) order by turn returning id""",
        [ids[lane] for lane, _, _ in world.jobs],
        [priority for _, priority, _ in world.jobs],
        [quarantined for _, _, quarantined in world.jobs],
    )
    return [row["id"] for row in rows]


async def claimed_by_somebody(job_queue: JobQueue) -> set[int]:
    """What the claims of all workers take together, each of them as if it were alone; afterwards all is as before."""
    taken: set[int] = set()
    for row in await job_queue.run("select id from penstock.workers"):
        claimer = Claimer(job_queue.database, Lanes(), row["id"])
        while jobs := await claimer.claim(dict.fromkeys(QUEUES, 10)):
            taken |= {job.id for job in jobs}
        while quarantined := await claimer.claim_quarantined(QUEUES):
            taken.add(quarantined.id)
            await job_queue.run(  # aside, or it would keep the other quarantined jobs from their turn
                "update penstock.jobs set state = 'dead', error = '{}', fingerprint = '', worker_id = null, claimed_at = null "
                "where id = $1",
                quarantined.id,
            )
        await job_queue.run(
            "update penstock.jobs set state = 'ready', worker_id = null, claimed_at = null, error = null, fingerprint = null "
            "where id = any ($1)",
            list(taken),
        )
        claimer.close()
    return taken


async def explained_as_claimable(job_queue: JobQueue, ids: list[int]) -> set[int]:
    return {job_id for job_id in ids if (await why(job_queue, job_id)).because in CLAIMABLE}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=WORLDS)
async def test_why_and_the_claim_never_disagree(job_queue: JobQueue, world: World) -> None:
    ids = await build(job_queue, world)
    allowed = {ids[place] for place in world.claimable()}
    assert await claimed_by_somebody(job_queue) == allowed, "the claim"
    assert await explained_as_claimable(job_queue, ids) == allowed, "why"


GATES: list[tuple[str, Callable[[str], str]]] = [
    ("no pauses", lambda text: text.replace("when pause.since is not null then 'paused'", "")),
    ("a pause of a fairness key", lambda text: text.replace(", ('fairness_key', lane.fairness_key)", "")),
    ("any queue", lambda text: text.replace("lane.queue = any (worker.queues) and ", "")),
    ("any kind", lambda text: text.replace(" and lane.kind = any (worker.kinds)", "")),
    ("draining workers, too", lambda text: text.replace("when worker.draining then 'draining'", "")),
    ("no permits", lambda text: text.replace("coalesce(part.granted, 0) < use.amount", "false")),
    ("a breaker", lambda text: text.replace("bound.opened_at is not null and (", "false and (")),
]
FULL = World(
    jobs=tuple(
        ((queue, kind, fairness_key), 0, False) for queue in QUEUES for kind in KINDS for fairness_key in SHARES
    ),
    fellows=(
        Fellow(("default",), ("a",)),
        Fellow(("cpu",), ("a",), draining=True),
        Fellow(("cpu",), ()),
        Fellow(("default",), ("b",), granted=1, probes=True),
        Fellow(("cpu",), ("b",), granted=2),
    ),
    pauses=frozenset({("fairness_key", "y")}),
    broken=True,
)


@pytest.mark.parametrize("change", [change for _, change in GATES], ids=[name for name, _ in GATES])
async def test_a_changed_gate_turns_both_red(
    job_queue: JobQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]
) -> None:
    ids = await build(job_queue, FULL)
    allowed = {ids[place] for place in FULL.claimable()}
    assert await claimed_by_somebody(job_queue) == await explained_as_claimable(job_queue, ids) == allowed
    copy = shutil.copytree(ENGINE, tmp_path / "engine", ignore=shutil.ignore_patterns("*.py*"))
    gates = copy / "gates.sql"
    changed = change(gates.read_text())
    assert changed != gates.read_text(), "the gate that this test opens is written in another way now"
    gates.write_text(changed)
    monkeypatch.setattr(claim, "sql", Statements(copy / "claim.sql"))
    monkeypatch.setattr(explaining, "sql", Statements(copy / "inspect/explain.sql"))
    assert await claimed_by_somebody(job_queue) != allowed, "the claim does not see it"
    assert await explained_as_claimable(job_queue, ids) != allowed, "why does not see it"


# -- what was measured --------------------------------------------------------------------------------------------


async def test_a_running_job_should_end_when_others_did(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    for seconds in (10, 20, 30, 40, 50):
        await job_queue.enqueue()
        [job] = await job_queue.claim(worker)
        await job_queue.advance(seconds)
        await job_queue.heartbeat(worker)
        await job_queue.settle(worker, (job, Done()))
    await job_queue.enqueue()
    [job] = await job_queue.claim(worker)
    said = await why(job_queue, job.id)
    assert "; it should end in about 30 s, as jobs of its kind take 30 s." in said.sentence
    assert said.evidence["pace"]["jobs"] == 5
    assert "jobs of its kind take 30 s (half of them) to 46 s (nine of ten), by the last 5" in said.evidence_lines
    await job_queue.advance(40)
    await job_queue.heartbeat(worker)
    assert (
        "it should end within 6 s: nine of ten jobs of its kind take at most 46 s"
        in (await why(job_queue, job.id)).sentence
    )
    await job_queue.advance(40)
    await job_queue.heartbeat(worker)
    assert "this is longer than nine of ten jobs of its kind take (46 s)" in (await why(job_queue, job.id)).sentence


async def test_a_worker_that_is_silent_but_not_lost(job_queue: JobQueue) -> None:
    await job_queue.enqueue()
    [job] = await job_queue.claim(await job_queue.worker())
    await job_queue.advance(9)
    said = await why(job_queue, job.id)
    assert said.because == "silent"
    assert (
        "the worker's last heartbeat was 9 s ago, of a lease of 15 s: its event loop is blocked by a handler"
        in said.sentence
    )


async def test_lanes_take_turns(job_queue: JobQueue) -> None:
    worker = await job_queue.worker()
    for _ in range(3):
        await job_queue.enqueue()
        [job] = await job_queue.claim(worker)
        await job_queue.advance(10)
        await job_queue.heartbeat(worker)
        await job_queue.settle(worker, (job, Done()))
    for fairness_key in ("a", "b", "c"):
        await job_queue.enqueue(*(nothing(n=n) for n in range(20)), fairness_key=fairness_key)
    await job_queue.enqueue(nothing(), fairness_key="urgent", priority=5)
    await job_queue.run("insert into penstock.pauses (what, name, reason) values ('fairness_key', 'c', 'x')")
    await job_queue.run("""update penstock.workers set load = '{"running": 10}'""")
    ids = await job_queue.enqueue(*(nothing(n=n) for n in range(10)), fairness_key="mine")
    said = await why(job_queue, ids[-1])
    # 9 of its own lane, and 10 of each of two others, at 10 slots and 10 s each; what is paused takes no turns.
    assert (
        "is behind 9 jobs in its lane (default, nothing, mine), which takes turns with 2 other lanes" in said.sentence
    )
    assert "with all 10 slots in use: it should start in about 30 s, and earlier with another worker." in said.sentence
    assert said.evidence["expected_start_seconds"] == pytest.approx(30, abs=1)
    assert "9 jobs ahead in its lane, 2 other lanes in turn with it" in said.evidence_lines


async def test_a_schema_that_no_worker_of_this_release_can_serve(job_queue: JobQueue) -> None:
    [job] = await job_queue.enqueue()
    await job_queue.run(
        "insert into penstock.migrations (number, name, checksum) values (9998, 'x', 'x'), (9999, 'y', 'y')"
    )
    said = await why(job_queue, job)
    assert said.because == "schema"
    assert "The database is at schema 9999" in said.sentence
    assert "install the newer release" in said.sentence


async def test_the_lines_of_a_failure(job_queue: JobQueue) -> None:
    await job_queue.enqueue()
    worker = await job_queue.worker()
    [job] = await job_queue.claim(worker)
    await job_queue.settle(worker, (job, Retry(failure("it rains"), timedelta(minutes=5))))
    lines = (await why(job_queue, job.id)).evidence_lines
    assert lines[0] == f"job {job.id}: nothing in the queue default, fairness key default, priority 0"
    assert "1 attempt, 1 failure charged" in lines[1]
    assert lines[2].startswith(f"attempt 1 on worker {worker}: ")
    assert lines[2].endswith("after 100 ms: it rains")
    assert lines[3].startswith("failed in the code v1, fingerprint ")
