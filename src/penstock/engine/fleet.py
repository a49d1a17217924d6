"""The fleet: the rows of workers, from registration to leaving, and queries about them.

A worker's heartbeat is in heartbeat.py, its part of the fleet's maintenance in maintenance.py.
"""

import json
import os
import socket
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from asyncpg import Record
from pydantic import Field

from penstock import __version__
from penstock.database import Session, statements

sql = statements(__file__)


@dataclass(frozen=True)
class Registration:
    """A worker as it registers: what it serves, and what it may use."""

    queues: list[str]
    kinds: list[str]
    slots: int
    lease: timedelta
    connections: int = 0  # the most that it may open: see connection_budget.py
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker process."""

    id: int
    name: str
    host: str
    pid: int
    version: str
    status: Literal["alive", "draining", "silent", "gone"]
    queues: list[str]
    kinds: list[str]
    slots: int
    running: int
    started_at: datetime
    heartbeat_at: datetime
    lease_seconds: Annotated[float, Field(description="After so long without a heartbeat its jobs are taken over.")]
    load: Annotated[dict[str, Any], Field(description="Its last report: its pool, its code.")]
    gone_at: datetime | None
    gone_why: str | None
    draining: Annotated[bool, Field(exclude=True)]
    lease: Annotated[timedelta, Field(exclude=True)]
    silent_for: Annotated[timedelta, Field(exclude=True)]


async def register(session: Session, member: Registration) -> int:
    """Join the fleet; the id is the worker's identity until it leaves or is declared gone."""
    worker_id: int = await sql.register_worker.value(
        session,
        name=member.name,
        host=member.host,
        pid=member.pid,
        version=__version__,
        queues=member.queues,
        kinds=member.kinds,
        slots=member.slots,
        lease=member.lease,
        connections=member.connections,
    )
    return worker_id


async def leave(session: Session, worker_id: int) -> bool:
    """Deregister the worker. It must hold no jobs."""
    return await sql.leave.value(session, worker_id=worker_id) is not None


async def hold_lock(session: Session, worker_id: int) -> None:
    """Take the lock that the worker's session holds while it lives: others see a death by its absence."""
    await sql.hold_lock.value(session, worker_id=worker_id)


async def heartbeat(session: Session, worker_id: int, *, draining: bool, load: str) -> Record | None:
    """Renew the lease; the commands for the worker, or None when it was declared gone."""
    return await sql.heartbeat.first(session, worker_id=worker_id, draining=draining, load=load)


async def membership(session: Session, worker_id: int) -> Record | None:
    """One worker's row: its lease, for how long it has been silent, and whether it is gone."""
    return await sql.membership.first(session, worker_id=worker_id)


async def list_workers(session: Session, gone_within: timedelta = timedelta(0)) -> list[WorkerState]:
    """The workers that are not gone, and those that went within this time, with what they run."""
    return [_read(row) for row in await sql.workers(session, gone_within=gone_within)]


def _read(row: Record) -> WorkerState:
    if row["gone_at"] is not None:
        status = "gone"
    elif row["silent_for"] > row["lease"]:
        status = "silent"
    else:
        status = "draining" if row["draining"] else "alive"
    derived = {"status": status, "load": json.loads(row["load"]), "lease_seconds": row["lease"].total_seconds()}
    return WorkerState(**dict(row) | derived)


async def acknowledge_lost(session: Session) -> list[int]:
    """Have `doctor` report later losses of workers only; the ids of those that were new."""
    return [row["id"] for row in await sql.acknowledge_lost(session)]


async def is_served(session: Session, kind: str) -> bool:
    """Whether a live worker would take jobs of a kind."""
    return bool(await sql.is_served.value(session, kind=kind))


async def count_serving(session: Session, kind: str) -> int:
    return int(await sql.count_serving.value(session, kind=kind))
