"""A database role with a small connection limit."""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from penstock.database import Database, open_database
from penstock.database.migrations import grant_use
from penstock.engine.fleet import Registration
from penstock.engine.fleet import sql as fleet_sql
from penstock.settings import DatabaseUrl, PoolSettings, Settings

MEMBER = Registration(queues=["default"], kinds=["nothing"], slots=1, lease=timedelta(seconds=15))


@dataclass
class LimitedRole:
    """A role of its own with a small limit, so that tests that run at the same time do not count."""

    role: str
    url: DatabaseUrl
    admin: "asyncpg.Connection[asyncpg.Record]"
    home: Path
    stack: AsyncExitStack

    async def limit(self, connections: int) -> None:
        await self.admin.execute(f"alter role {self.role} connection limit {connections}")

    async def database(self, pool_size: int = 2) -> Database:
        pool = PoolSettings(size=pool_size, warm=1, step=1)
        return await self.stack.enter_async_context(
            open_database(Settings(home=self.home, database_url=self.url, pool=pool), role="worker")
        )

    async def stranger(self) -> "asyncpg.Connection[asyncpg.Record]":
        """A session of some other program."""
        connection = await asyncpg.connect(self.url.reveal())
        self.stack.callback(connection.terminate)
        return connection

    async def worker(self, connections: int, name: str = "elsewhere:1") -> int:
        """A worker that lives on another machine: a row, and the lock that shows that it lives."""
        host, pid = name.split(":")
        member = replace(MEMBER, connections=connections, host=host, pid=int(pid))
        worker_id: int = await fleet_sql.register_worker.value(
            self.admin, name=member.name, host=host, pid=int(pid), version="1", queues=member.queues,
            kinds=member.kinds, slots=1, lease=member.lease, connections=connections,
        )  # fmt: skip
        assert await fleet_sql.hold_lock.value(self.admin, worker_id=worker_id)
        return worker_id


@asynccontextmanager
async def make_limited_role(database_url: DatabaseUrl, home: Path) -> AsyncIterator[LimitedRole]:
    role, password = f"tenant_{os.getpid()}_{secrets.token_hex(4)}", secrets.token_hex(8)
    admin = await asyncpg.connect(database_url.reveal())
    await admin.execute(f"create role {role} login password '{password}'")
    await grant_use(admin, role=role)  # type: ignore[arg-type]
    text = database_url.reveal().replace(f"//penstock:{database_url.password}@", f"//{role}:{password}@")
    try:
        async with AsyncExitStack() as stack:
            yield LimitedRole(role, DatabaseUrl(text), admin, home, stack)
    finally:
        await admin.execute(f"drop owned by {role}")
        await admin.execute(f"drop role {role}")
        await admin.close()


@pytest.fixture
async def limited_role(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[LimitedRole]:
    async with make_limited_role(database_url, tmp_path) as made:
        yield made
