"""The database of a process: the embedded server unless another one is set, the pool, the schema, and LISTEN.

    async with open_database(settings, role="worker") as database:
        async with database.pool.transaction() as tx: …

Opening proves that the configuration works (reachable, new enough, migrated) before anything else starts; every failure
is one sentence. `direct` opens a session that is not behind a pooler, for what belongs to a session: LISTEN, advisory
locks, the heartbeat.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from penstock.database.embedded import EmbeddedServer, ServerJoin
from penstock.database.migrations import check_schema, grant_use, migrate
from penstock.database.notifications import Notifications
from penstock.database.pool import Pool
from penstock.database.session import Session, connect, unreachable
from penstock.database.tenancy import is_guarded
from penstock.errors import DatabaseUnsuitable, MigrationRefused, SchemaMismatch, ServerUnusable
from penstock.settings import DatabaseUrl, Settings
from penstock.telemetry import hide, hide_secrets, log

OLDEST_SERVER = 15
FULL_SERVER_PATIENCE = 30.0  # seconds to wait while the server has no connection left

Progress = Callable[[str], None]
AWAY = (ConnectionError, FileNotFoundError, asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError)


class DatabaseAddress:
    """The address of the database. Opening a session revives the embedded server, and waits while a server is full."""

    def __init__(self, settings: Settings, server: EmbeddedServer | None, url: DatabaseUrl) -> None:
        self._settings = settings
        self._server = server
        self.url = url
        hide_secrets(settings)
        hide(url.password or "")  # that of the embedded server, which is not a setting
        self.pooled = False

    @property
    def direct_url(self) -> DatabaseUrl:
        return self._settings.database_direct_url or self.url

    async def open_session(self, role: str, *, direct: bool = False) -> Session:
        began = time.monotonic()
        pause = 0.05
        while True:
            url = self.direct_url if direct else self.url
            try:
                return await connect(url, self._settings.pool, role, pooled=self.pooled and not direct)
            except asyncpg.TooManyConnectionsError as error:
                if time.monotonic() - began > FULL_SERVER_PATIENCE:
                    raise unreachable(url, error) from error
                log.warning("the server has no connection left", again_in=round(pause, 2))
            except AWAY as error:
                if self._server is None:
                    raise unreachable(url, error) from error
                self.url = await self._revive(self._server, url)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
                raise unreachable(url, error) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  jitter, not a secret
            pause = min(2 * pause, 2.0)

    async def _revive(self, server: EmbeddedServer, url: DatabaseUrl) -> DatabaseUrl:
        try:
            return await server.revive()
        except (ServerUnusable, OSError, asyncpg.PostgresError) as error:
            raise unreachable(url, error) from error


@dataclass(frozen=True)
class DatabaseEndpoint:
    """A database that is there, suitable and migrated."""

    address: DatabaseAddress
    server: EmbeddedServer | None
    joined: ServerJoin | None


@dataclass(frozen=True)
class Database:
    """An open database, as the layers above use it."""

    settings: Settings
    endpoint: DatabaseEndpoint
    pool: Pool
    notifications: Notifications

    @property
    def url(self) -> DatabaseUrl:
        return self.endpoint.address.url

    async def direct(self, role: str) -> Session:
        """A session of its own, past any pooler; the caller ends it with `terminate`."""
        return await self.endpoint.address.open_session(role, direct=True)


@asynccontextmanager
async def reach_database(
    settings: Settings, *, progress: Progress = lambda _: None, migrating: bool = True
) -> AsyncIterator[DatabaseEndpoint]:
    """Join the embedded server or reach the given one, check it, and migrate it unless told not to; at the end, leave it."""
    server = joined = None
    url = settings.database_url
    if url is None:
        server = EmbeddedServer(settings.home, settings.postgres, progress)
        joined = await server.join()
        url = joined.url
    try:
        address = DatabaseAddress(settings, server, url)
        address.pooled = await _examine(address, settings)
        if migrating:
            await bring_schema(settings, address, progress)
        yield DatabaseEndpoint(address, server, joined)
    finally:
        if server is not None:
            await server.leave()


@asynccontextmanager
async def open_database(
    settings: Settings, *, role: str, progress: Progress = lambda _: None
) -> AsyncIterator[Database]:
    """Reach the database and open a warm pool and the listening session; everything is closed at the end."""
    async with reach_database(settings, progress=progress) as reached:
        address = reached.address
        pool = Pool(lambda: address.open_session(role), settings.pool, pooled=address.pooled)
        notifications = Notifications(lambda: address.open_session("listen", direct=True), pool)
        try:
            await pool.open()
            pool.guarded = await pool.repeat(is_guarded)
            await notifications.start()
            yield Database(settings, reached, pool, notifications)
        finally:
            await notifications.close()
            await pool.close()


async def bring_schema(settings: Settings, address: DatabaseAddress, progress: Progress) -> list[str]:
    """Migrate as the owner, if one is set, otherwise as the current role; then check that code and schema fit."""
    owner = address
    if settings.database_owner_url is not None:
        owner = DatabaseAddress(settings, None, settings.database_owner_url)
    session = await owner.open_session("migrate", direct=owner is address)
    try:
        applied = await migrate(session, progress=progress)
        await check_schema(session)
        if owner is not address:
            await grant_use(session, role=await _role(address))
    except asyncpg.InsufficientPrivilegeError as error:
        raise DatabaseUnsuitable(
            f"The database user may not change the schema ({error}): set database_owner_url to one that may, or run "
            "`penstock db migrate` with it."
        ) from error
    except (SchemaMismatch, MigrationRefused) as error:
        raise DatabaseUnsuitable(str(error)) from error
    else:
        return applied
    finally:
        session.terminate()


async def _role(address: DatabaseAddress) -> str:
    session = await address.open_session("migrate", direct=True)
    try:
        return str(await session.fetchval("select current_user"))
    finally:
        session.terminate()


async def _examine(address: DatabaseAddress, settings: Settings) -> bool:
    """The first session: is the server new enough, and is there a pooler between?

    A pooler answers with a process number of its own making, so the number in the handshake differs from the one that the
    server itself gives.
    """
    address.pooled = True  # until we know: nothing that a pooler would refuse
    session = await address.open_session("probe")
    try:
        version = session.get_server_version().major
        if version < OLDEST_SERVER:
            raise DatabaseUnsuitable(
                f"The server runs PostgreSQL {version}, and Penstock needs {OLDEST_SERVER} or newer: upgrade it, or leave "
                "database_url empty to use the one that comes with Penstock."
            )
        async with session.transaction():
            pooled: bool = await session.fetchval("select pg_backend_pid()") != session.get_server_pid()
    finally:
        session.terminate()
    if pooled and settings.database_direct_url is None:
        raise DatabaseUnsuitable(
            "database_url goes through a pooler such as pgbouncer: set database_direct_url to the server itself as well, for "
            "notifications and locks."
        )
    return pooled
