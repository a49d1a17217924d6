"""What `doctor` finds at the workers: nobody there, silent, lost too often, without connections, deaf.

The SQL is in fleet.sql.
"""

import json
from collections.abc import Iterator

from asyncpg import Record

from penstock.database import Session, statements
from penstock.engine.wording import counted, listed, span
from penstock.operations.finding import START, Finding

sql = statements(__file__)

LOST_IN_AN_HOUR = 3


async def examine_lost(session: Session) -> list[Finding]:
    """More workers than a deploy or a spot machine explains were lost without saying good-bye."""
    row = await sql.lost_lately.first(session)
    if row is None or row["lost"] <= LOST_IN_AN_HOUR:
        return []
    said = (
        f"{counted(row['lost'], 'worker')} were lost in the last hour, the last one {row['last_name']} "
        f"({row['last_why']}): they are "
        "killed, run out of memory, or hang. Their logs say which; `penstock fleet` lists them. What they ran is run again. "
        "When the cause is mended, say so, and only later ones are told:"
    )
    return [Finding("workers-lost", said, "penstock fleet --acknowledge", dict(row))]


def direct_url() -> str:
    return "export PENSTOCK_DATABASE_DIRECT_URL='postgresql://…'  # the same database, around any pooler; then restart"


def examine_fleet(workers: list[Record]) -> Iterator[Finding]:
    alive = [worker for worker in workers if worker["silent_for"] <= worker["lease"]]
    if not alive:
        yield Finding("no-worker", "No worker is alive: nothing that is enqueued will run.", START)
    for worker in workers:
        if worker["silent_for"] > worker["lease"] / 2:
            said = (
                f"The worker {worker['name']} has been silent for {span(worker['silent_for'])} of its lease of "
                f"{span(worker['lease'])}, with {counted(worker['running'], 'job')} running: its process hangs, or cannot "
                f"reach the database. On {worker['host']}, end it; others take over."
            )
            # Nobody else is there who could notice its end: a new worker does.
            others = any(other["id"] != worker["id"] for other in alive)
            command = f"kill -KILL {worker['pid']}" if others else START
            yield Finding("silent-worker", said, command, {"worker": worker["id"], "running": worker["running"]})


def examine_pools(workers: list[Record]) -> Iterator[Finding]:
    for worker in workers:
        load = json.loads(worker["load"])
        if load.get("pool_waiting", 0) > 0 and load["pool"] >= load["pool_size"]:
            said = (
                f"The pool of the worker {worker['name']} is exhausted: all {load['pool_size']} connections are in use, and "
                f"{load['pool_waiting']} wait for one. Hold them for a shorter time, or restart it with more."
            )
            command = f"PENSTOCK_POOL__SIZE={2 * load['pool_size']} {START}"
            yield Finding("pool-full", said, command, {"worker": worker["id"], **load})


def examine_reported_notifications(workers: list[Record]) -> Iterator[Finding]:
    deaf = [worker["name"] for worker in workers if json.loads(worker["load"]).get("notified") is False]
    if deaf:
        said = f"Notifications do not arrive at {counted(len(deaf), 'worker')} ({listed(deaf)}): they poll."
        yield Finding("notifications", said, direct_url(), {"workers": deaf})
