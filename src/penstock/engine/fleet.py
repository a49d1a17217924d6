"""Who works: a worker's row among the others, from registration to leaving. The SQL is in fleet.sql.

Its sign of life is in beat.py, what it does for all the others in chores.py.
"""

import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta

from penstock import __version__
from penstock.database import Session, statements

sql = statements(__file__)


@dataclass(frozen=True)
class Member:
    """How a worker presents itself."""

    queues: list[str]
    kinds: list[str]
    slots: int
    lease: timedelta
    connections: int = 0  # the most that it may open: see budget.py
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


async def register(session: Session, member: Member) -> int:
    """Join the fleet; the number is the worker's identity until it leaves or is declared gone."""
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
    """Go, owning nothing."""
    return await sql.leave.value(session, worker_id=worker_id) is not None
