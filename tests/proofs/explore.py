"""Every interleaving of a few actors, statement by statement, on a real PostgreSQL with the engine's own functions.

An actor is a coroutine with a pool of one connection, whose every statement (BEGIN, COMMIT and ROLLBACK, too) first waits
for its turn. The exploration lets one actor do one statement at a time, and walks through all choices depth first; each
schedule starts from the same rows. A statement that waits for another actor's lock, by `pg_blocking_pids`, leaves its
actor blocked until somebody else's step frees it. If nobody can go on, that is a deadlock.

    await proof_database.keep()
    explored = await explore(proof_database, {"claim": claim, "settle": settle})
    assert explored.schedules == 126

After every step, what is committed must satisfy the invariants (holding.py); after every schedule `check` may ask for more. The
first violation ends the exploration, and tells the schedule that shows it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import factorial, prod
from typing import Any

import asyncpg

from penstock.database import Database, Pool, Session
from tests.engine.conftest import JobQueue
from tests.proofs.all_invariants import violations
from tests.proofs.stepped_session import SAVEPOINTS, Actor, Play, Seat, Step, SteppedSession

LOOK_EVERY = 0.001  # seconds between looks at who waits for whom, while a statement has not come back

PROOF_SCHEMA = """
create schema proofs;
create table proofs.effects (job bigint not null, attempt int not null);
-- A clock that stands still: an exploration takes as long as it takes, and no lease ends by that.
create or replace function penstock.now() returns timestamptz language sql stable parallel safe
  as $$ select timestamptz '2030-01-01 UTC' + shift from penstock.test_clock $$;
create function proofs.refuse_shrinking() returns trigger language plpgsql as $$
begin
  if new.attempt < old.attempt then raise exception 'the attempt number of job % shrank', old.id; end if;
  return new;
end $$;
create trigger attempts_never_shrink before update on penstock.jobs
  for each row execute function proofs.refuse_shrinking();
create function proofs.refuse_the_gone() returns trigger language plpgsql as $$
begin
  if exists (select from penstock.workers where id = new.worker_id and gone_at is not null) then
    raise exception 'worker % was declared gone, and claims job %', new.worker_id, new.id;
  end if;
  return new;
end $$;
create trigger the_gone_claim_nothing before update on penstock.jobs
  for each row when (new.state = 'running' and old.state <> 'running') execute function proofs.refuse_the_gone();
"""


class Violation(AssertionError):
    """What went wrong, and the schedule that shows it."""


class ProofDatabase:
    """A database with a clock that stands still, rows to start from, and a seat for each actor."""

    def __init__(self, job_queue: JobQueue) -> None:
        self.job_queue = job_queue
        self._seats: list[Seat] = []
        self._reset = ""
        self._observer: Session | None = None

    async def open(self) -> None:
        self._observer = await self.job_queue.database.direct("observer")
        await self._observer.execute(PROOF_SCHEMA)

    async def close(self) -> None:
        for seat in self._seats:
            seat.session.terminate()
            await seat.pool.close()
        self.observer.terminate()

    @property
    def observer(self) -> Session:
        assert self._observer is not None
        return self._observer

    async def seats(self, count: int) -> list[Seat]:
        while len(self._seats) < count:
            self._seats.append(await _make_seat(self.job_queue.database))
        return self._seats[:count]

    async def keep(self) -> None:
        """What is in the tables now is what every schedule starts from."""
        # They are not of this process: who ends their sessions must not end ours.
        await self.observer.execute("update penstock.workers set name = 'worker-' || id")
        tables = await self.observer.fetch(
            "select nspname || '.' || relname as name, relname as short from pg_class "
            "join pg_namespace on pg_namespace.oid = relnamespace "
            "where nspname in ('penstock', 'proofs') and relkind in ('r', 'p') and not relispartition "
            "and relname not in ('migrations', 'lanes') order by 1"
        )
        await self.observer.execute("drop schema if exists kept cascade; create schema kept")
        resets = []
        for table in tables:
            resets.append(f"delete from {table['name']}")
            filled = await self.observer.fetchval(f"select exists (select from {table['name']})")
            if filled or table["short"] == "jobs":  # which the invariants read, also when there are none
                await self.observer.execute(f"create table kept.{table['short']} as table {table['name']}")
            if filled:
                resets.append(f"insert into {table['name']} overriding system value table kept.{table['short']}")
        self._reset = "; ".join(resets)

    async def reset(self) -> None:
        await self.observer.execute(self._reset)

    async def blocked(self, actors: Sequence[Actor]) -> set[str]:
        """Who of them waits for a lock of another actor."""
        pids = [actor.pid for actor in actors]
        rows = await self.observer.fetch(
            "select pid from unnest($1::int[]) as pid where pg_blocking_pids(pid) && $2::int[]",
            pids,
            [seat.session.get_server_pid() for seat in self._seats],
        )
        waiting = {row["pid"] for row in rows}
        return {actor.name for actor in actors if actor.pid in waiting}

    async def violations(self) -> list[str]:
        return await violations(self.observer)


async def _make_seat(database: Database) -> Seat:
    made: list[SteppedSession] = []

    async def connect() -> Session:
        session: SteppedSession = await asyncpg.connect(
            database.url.reveal(), connection_class=SteppedSession, server_settings={"jit": "off", "timezone": "UTC"}
        )
        made.append(session)
        return session

    patient = {"size": 1, "warm": 1, "hold_warning": "1h", "hold_limit": None}
    pool = Pool(connect, type(database.settings.pool).model_validate(patient))
    await pool.open()
    return Seat(pool, made[0])


@dataclass
class Explored:
    """What an exploration has seen."""

    names: tuple[str, ...]
    schedules: int = 0
    steps: Counter[str] = field(default_factory=Counter)  # statements over all schedules
    lengths: dict[str, set[int]] = field(default_factory=dict)  # by actor: the numbers of its statements
    blocked: int = 0  # steps at which somebody waited for a lock
    answers: Counter[str] = field(default_factory=Counter)  # what the actors returned, as text

    def __str__(self) -> str:
        ends = ", ".join(f"{count} × {answer}" for answer, count in self.answers.most_common())
        return f"explored {self.schedules} interleavings of {' | '.join(self.names)} ({self.blocked} waits): {ends}"

    @property
    def formula(self) -> int | None:
        """How many there must be if nobody ever waits and nobody's number of statements depends on the others."""
        if self.blocked or any(len(lengths) != 1 for lengths in self.lengths.values()):
            return None
        lengths = [length for [length] in self.lengths.values()]
        return factorial(sum(lengths)) // prod(factorial(length) for length in lengths)


@dataclass
class Choice:
    """A moment of a schedule at which several actors could go on."""

    options: list[str]
    taken: int = 0

    @property
    def name(self) -> str:
        return self.options[self.taken]


Check = Callable[[Session, Mapping[str, Any]], Awaitable[None]]


async def explore(
    proof_database: ProofDatabase,
    plays: Mapping[str, Play],
    *,
    check: Check | None = None,
    unstepped: Collection[str] = SAVEPOINTS,
) -> Explored:
    """Run all schedules. Raises Violation at the first that breaks an invariant, fails in an actor, or cannot end.

    What is `unstepped` needs no turn of its own. That leaves nothing out for a BEGIN or a savepoint: it reads nothing, locks
    nothing, and takes no snapshot.
    """
    explored = Explored(tuple(plays))
    path: list[Choice] = []
    while True:
        await _run_schedule(proof_database, plays, path, explored, check, unstepped)
        explored.schedules += 1
        while path and path[-1].taken == len(path[-1].options) - 1:
            path.pop()
        if not path:
            break
        path[-1].taken += 1
    if explored.formula is not None and explored.formula != explored.schedules:
        raise Violation(f"{explored}, but by the formula there are {explored.formula}: some were left out.")
    return explored


async def _run_schedule(
    proof_database: ProofDatabase,
    plays: Mapping[str, Play],
    path: list[Choice],
    explored: Explored,
    check: Check | None,
    unstepped: Collection[str],
) -> None:
    await proof_database.reset()
    seats = await proof_database.seats(len(plays))
    actors = {name: Actor(name, play, seat, unstepped) for (name, play), seat in zip(plays.items(), seats, strict=True)}
    run = Run(proof_database, actors, path, explored)
    try:
        await run.to_its_end()
        answers = {name: actor.task.result() for name, actor in actors.items()}
        if check is not None:
            await check(proof_database.observer, answers)
    except Violation:
        raise
    except Exception as error:
        raise run.violation(f"{type(error).__name__}: {error}") from error
    finally:
        for actor in actors.values():
            actor.task.cancel()
        await asyncio.gather(*(actor.task for actor in actors.values()), return_exceptions=True)
    explored.answers[", ".join(f"{name} {answer}" for name, answer in answers.items())] += 1
    for name in plays:
        count = sum(step.actor == name for step in run.steps)
        explored.steps[name] += count
        explored.lengths.setdefault(name, set()).add(count)


class Run:
    """One schedule on its way."""

    def __init__(
        self, proof_database: ProofDatabase, actors: dict[str, Actor], path: list[Choice], explored: Explored
    ) -> None:
        self._database = proof_database
        self._actors = actors
        self._path = path
        self._explored = explored
        self.steps: list[Step] = []

    async def to_its_end(self) -> None:
        await self._until_halted()
        while options := [actor.name for actor in self._actors.values() if actor.can_go]:
            going = self._actors[self._choose(options)]
            moving = [going, *(actor for actor in self._actors.values() if not actor.halted.is_set())]
            self.steps.append(going.go())
            await self._until_halted()
            # What is inside a transaction is nobody else's business yet.
            if not all(actor.in_transaction for actor in moving) and (broken := await self._database.violations()):
                raise self.violation("; ".join(broken))
        if waiting := [actor.name for actor in self._actors.values() if not actor.task.done()]:
            raise self.violation(f"deadlock: {' and '.join(waiting)} wait for each other")

    def _choose(self, options: list[str]) -> str:
        depth = len(self.steps)
        if depth == len(self._path):
            self._path.append(Choice(options))
        elif self._path[depth].options != options:
            raise self.violation(f"not repeatable: {self._path[depth].options} could go on before, and now {options}")
        return self._path[depth].name

    async def _until_halted(self) -> None:
        """Until everybody is at its next statement, at its end, or waits for another actor's lock."""
        while moving := [actor for actor in self._actors.values() if not actor.halted.is_set()]:
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await moving[-1].halted.wait()
                continue
            except TimeoutError:
                blocked = await self._database.blocked(moving)
            if all(actor.name in blocked and not actor.halted.is_set() for actor in moving):
                self._explored.blocked += 1
                return

    def violation(self, what: str) -> Violation:
        schedule = "\n".join(f"  {number:>2} {step}" for number, step in enumerate(self.steps, start=1))
        names = " | ".join(self._actors)
        return Violation(f"{what}\nfound by interleaving {self._explored.schedules + 1} of {names}:\n{schedule}")
