"""The twelve scenarios. Each stands for a kind of public bug report; the comment above it names an example."""

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from benchmarks.gauntlet.arena import POLL, Arena
from benchmarks.gauntlet.jobs import numbered
from benchmarks.gauntlet.systems import EVERY

SETTLED = 2.0  # seconds without a live job until a scenario is over
UNSEEN = 30.0  # the same while jobs have no effect: Celery does not count those that it acknowledged and still runs
LONG = 20.0  # seconds of a job that a fault hits: long enough for a second worker to start meanwhile


@dataclass
class Outcome:
    """What became of the jobs of one scenario. `seconds` is the time until the work went on, if it did."""

    lost: int = 0
    twice: int = 0
    stuck: int = 0
    seconds: float | None = None
    note: str = ""


async def judge(arena: Arena, wanted: Iterable[int], since: float) -> Outcome:
    """Wait until all wanted jobs are done and none is alive, at most the limit after the fault; then count.

    A job without an effect is stuck if the system still has it, and lost if not. A job that stays alive is stuck, too.
    """
    numbers = set(wanted)
    busy = time.time()
    while (waited := time.time() - since) < arena.limit + LONG:
        effects, alive = await arena.effects(), await arena.alive()
        busy = time.time() if alive else busy
        missing = numbers - {each.n for each in effects}
        if time.time() - busy >= (UNSEEN if missing else SETTLED):
            break
        if waited > arena.limit and not {n for n, _ in arena.began(missing, since)}:
            break  # what has begun again by now may be finished
        await asyncio.sleep(POLL)
    effects, alive = await arena.effects(), await arena.alive()
    done = Counter(each.n for each in effects)
    undone = sum(done[n] == 0 for n in numbers)
    later = [at for n, at in arena.began(numbers, since)] + [e.at for e in effects if e.n in numbers and e.at > since]
    return Outcome(
        lost=max(0, undone - alive),
        twice=sum(done[n] > 1 for n in numbers),
        stuck=alive,
        seconds=min(later) - since if later else None,
    )


# A worker dies and the jobs that it ran never run again: procrastinate-org/procrastinate#307.
async def worker_killed(arena: Arena) -> Outcome:
    """A worker with four running jobs is killed; another one is idle."""
    first = await arena.worker("a")
    await arena.enqueue(numbered(range(1, 5), seconds=LONG))
    await arena.until_begun(range(1, 5))
    await arena.worker("b")
    return await judge(arena, range(1, 5), first.kill())


# A worker that could not renew its lock goes on, and the job completes twice: OptimalBits/bull#308.
async def worker_frozen(arena: Arena) -> Outcome:
    """A worker with four running jobs is frozen for half of the limit, then goes on; another one is idle."""
    first = await arena.worker("a")
    await arena.enqueue(numbered(range(1, 5), seconds=LONG))
    await arena.until_begun(range(1, 5))
    await arena.worker("b")
    frozen = first.freeze()
    await asyncio.sleep(arena.limit / 2)
    first.thaw()
    await asyncio.sleep(5)
    return await judge(arena, range(1, 5), frozen)


# Workers hang or end for good when their database restarts: tobymao/saq#162.
async def database_restarted(arena: Arena) -> Outcome:
    """A worker with four running jobs is killed, and the database crashes right after it; it is away for 5 s."""
    first = await arena.worker("a")
    await arena.enqueue(numbered(range(1, 5), seconds=LONG))
    await arena.until_begun(range(1, 5))
    await arena.worker("b")
    first.kill()
    return await judge(arena, range(1, 5), await arena.restart_database(5))


# Jobs are stuck after SIGTERM and block further ones: janbjorge/pgqueuer#630.
async def rolling_restart(arena: Arena) -> Outcome:
    """Two workers are restarted in turn, twice each, 5 s after SIGTERM by SIGKILL; two of the jobs last longer than that."""
    workers = [await arena.worker("a", 2), await arena.worker("b", 2)]
    await arena.enqueue([*numbered(range(1, 3), seconds=15), *numbered(range(3, 27), seconds=2)])
    await arena.until_begun(range(1, 3))
    began = time.time()
    for worker in workers * 2:
        await worker.restart(5)
    outcome = await judge(arena, range(1, 27), began)
    ends: dict[int, float] = {}
    for each in await arena.effects():
        ends.setdefault(each.n, each.at)
    outcome.seconds = max(ends.values()) - began if len(ends) == 26 else None
    return outcome


# A job is done again, because its outcome was not recorded when its process ended: celery/celery#5120.
async def finished_twice(arena: Arena) -> Outcome:
    """A worker is killed between the effect of its job and the record of the outcome; another one is idle."""
    await arena.worker("a")
    await arena.worker("b")
    await arena.enqueue(numbered([1], "die after effect"))
    await arena.until_begun([1])
    began = time.time()
    outcome = await judge(arena, [1], began)
    begins = [at for _, at in arena.began([1])]
    outcome.seconds = begins[1] - begins[0] if len(begins) > 1 else None
    return outcome


# A job is lost when the producer dies between its commit and the enqueue: eneo-ai/eneo#632.
async def lost_outbox(arena: Arena) -> Outcome:
    """A producer writes ten orders with a job each; one is rolled back, and the producer dies after the last commit."""
    await arena.worker("a")
    await arena.run("orders", count=10, roll_back=5, crash=10)
    outcome = await judge(arena, [n for n in range(1, 11) if n != 5], time.time() - 0.01)
    outcome.seconds = None
    if any(each.n == 5 for each in await arena.effects()):
        outcome.note = "a job of the order that was rolled back"
    return outcome


# Two schedulers for high availability send every task twice: celery/celery#2856.
async def duplicate_schedule(arena: Arena) -> Outcome:
    """Two workers with the same schedule, every 10 s; one of them is killed between two ticks."""
    first = await arena.worker("a", schedule=True)
    await arena.worker("b", schedule=True)
    if not await _until_tick(arena, 0.0, 60):
        return Outcome(lost=int(60 / EVERY), note="no tick within a minute")
    await asyncio.sleep(EVERY * 2.5)
    killed = first.kill()
    await asyncio.sleep(max(arena.limit / 2, EVERY * 3))
    times = [each.at for each in await arena.effects()][1:]  # the first may be one that was due before the start
    ticks = Counter(int((at - times[0] + 1) // EVERY) for at in times)  # up to a second early, or 9 s late
    after = [at for at in times if at > killed]
    return Outcome(
        lost=sum(ticks[each] == 0 for each in range(max(ticks))),
        twice=sum(later - earlier < EVERY / 2 for earlier, later in itertools.pairwise(times)),
        seconds=min(after) - killed if after else None,
    )


async def _until_tick(arena: Arena, since: float, within: float) -> bool:
    deadline = time.time() + within
    while time.time() < deadline:
        if any(each.at > since for each in await arena.effects()):
            return True
        await asyncio.sleep(POLL)
    return False


# A job that kills its worker comes back again and again: sidekiq/sidekiq#5300.
async def poison_job(arena: Arena) -> Outcome:
    """A job that kills its worker, next to six good ones. Stuck is the poison job that is still tried after the limit."""
    await arena.worker("a")
    await arena.worker("b")
    await arena.enqueue([*numbered([1], "poison", 1), *numbered(range(2, 8), seconds=3)])
    await arena.until_begun([1])
    outcome = await judge(arena, range(2, 8), time.time())
    ends: dict[int, float] = {}
    for each in await arena.effects():
        ends.setdefault(each.n, each.at)
    outcome.seconds = max(ends.values()) - arena.began([1])[0][1] if len(ends) == 6 else None
    deaths = len(arena.began([1]))
    outcome.note = f"{deaths} death{'s' if deaths > 1 else ''}"
    return outcome


# An outage of a provider uses up the attempts of good jobs: RakuenSoftware/aimee#2120.
async def dependency_away(arena: Arena) -> Outcome:
    """A service that six jobs call is away for half of the limit."""
    await arena.worker("a", 8)
    arena.place.away.touch()
    await arena.enqueue(numbered(range(1, 7), "call"))
    await arena.until_begun(range(1, 7))
    await asyncio.sleep(arena.limit / 2)
    arena.place.away.unlink()
    return await judge(arena, range(1, 7), time.time())


# Handlers hold all connections, and the worker cannot go on: rails/solid_queue#137.
async def pool_exhausted(arena: Arena) -> Outcome:
    """Six jobs hold a connection for 40 s in a worker with eight slots; then four quick ones come, later a second worker."""
    await arena.worker("a", 8)
    await arena.enqueue(numbered(range(1, 7), "hold", 40))
    await arena.until(lambda: len(arena.began(range(1, 7))) == 6, 10)
    await asyncio.sleep(2)
    await arena.enqueue(numbered(range(7, 11)))
    sent = time.time()
    await asyncio.sleep(20)
    await arena.worker("b", 8)
    outcome = await judge(arena, range(1, 11), sent)
    quick = [at for _, at in arena.began(range(7, 11))]
    outcome.seconds = max(0.0, min(quick) - sent) if quick else None
    return outcome


# A revoked task runs on: celery/celery#7529.
async def cancelled_but_running(arena: Arena) -> Outcome:
    """Two jobs of a minute are cancelled after 3 s. Stuck are those that go on for a third of the limit or to their end."""
    await arena.worker("a")
    ids = await arena.enqueue(numbered(range(1, 3), "long", 60))
    await arena.until_begun(range(1, 3))
    await asyncio.sleep(3)
    await arena.run("cancel", ids=ids)
    cancelled = time.time()
    await asyncio.sleep(arena.limit / 3)
    lasts = [arena.last_sign(n) for n in range(1, 3)]
    stuck = sum(time.time() - last < 3 for last in lasts)
    return Outcome(stuck=stuck, seconds=None if stuck else max(0.0, max(lasts) - cancelled))


# A document is "processing" for days, because the worker that had it no longer exists: DeytaHQ/khora#885.
async def stuck_processing(arena: Arena) -> Outcome:
    """The only worker dies with four running jobs and does not come back; 15 s later one with another name starts."""
    first = await arena.worker("a")
    await arena.enqueue(numbered(range(1, 5), seconds=LONG))
    await arena.until_begun(range(1, 5))
    first.kill(for_good=True)
    await asyncio.sleep(15)
    since = time.time()
    await arena.worker(f"c{os.getpid()}")
    return await judge(arena, range(1, 5), since)


SCENARIOS: dict[str, Callable[[Arena], Awaitable[Outcome]]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(worker_killed, worker_frozen, database_restarted, rolling_restart, finished_twice, lost_outbox),
        *(duplicate_schedule, poison_job, dependency_away, pool_exhausted, cancelled_but_running, stuck_processing),
    )
}
