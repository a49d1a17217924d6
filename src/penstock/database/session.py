"""A connection to PostgreSQL whose every call ends by a deadline, and the sentences for one that cannot be made.

`Session` is asyncpg's connection with three additions: a call that gets no answer in time *terminates* the connection
(closing it politely would wait for the same silent server), a lost connection is one exception whatever the driver
calls it, and the time of the last answer is known, from which the pool's hold budget is measured.
"""

import os
import socket
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import asyncpg

from penstock.errors import CallTimedOut, ConnectionLost, DatabaseUnreachable, HeldTooLong
from penstock.settings import DatabaseUrl, PoolSettings

T = TypeVar("T")

if TYPE_CHECKING:  # generic in its type stubs only
    _Driver = asyncpg.Connection[asyncpg.Record]
else:
    _Driver = asyncpg.Connection

MARK_MAX = 40  # characters

# PostgreSQL's arrays of its own types, which the driver would otherwise ask the server for: type, its id, its array's id.
ARRAYS = (
    ("bool", 16, 1000),
    ("bytea", 17, 1001),
    ("int2", 21, 1005),
    ("int4", 23, 1007),
    ("int8", 20, 1016),
    ("float4", 700, 1021),
    ("float8", 701, 1022),
    ("json", 114, 199),
    ("jsonb", 3802, 3807),
    ("date", 1082, 1182),
    ("timestamptz", 1184, 1185),
    ("interval", 1186, 1187),
    ("uuid", 2950, 2951),
)

_ARRAY_TYPES: list[dict[str, Any]] = [
    {
        "oid": array,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "basetype": None,
        "elemtype": element,
        "elemtype_name": name,
        "elemdelim": ",",
        "range_subtype": None,
        "attrtypoids": None,
    }
    for name, element, array in ARRAYS
]

LOST = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,  # the driver's state after a server's last word that it had not asked for
)


class Session(_Driver):
    """asyncpg's connection with deadlines that also hold against a frozen server."""

    idle_since = inf  # monotonic time of the last answer; infinity while a call runs
    on_work: Callable[[], None] | None = (
        None  # called before each call, so that the pool can measure the pause before it
    )
    overheld = False  # the pool has taken the connection away because nothing was done with it
    opening = ""  # what the next transaction begins with, in the round trip of its BEGIN

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        if self.opening and query.startswith("BEGIN"):
            query, self.opening = query + self.opening, ""
        return await self._bounded(super().execute(query, *args, timeout=timeout))

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> None:
        await self._bounded(super().executemany(command, args, timeout=timeout))

    async def fetch(self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None) -> Any:
        return await self._bounded(super().fetch(query, *args, timeout=timeout, record_class=record_class))

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None) -> Any:
        return await self._bounded(super().fetchrow(query, *args, timeout=timeout, record_class=record_class))

    async def fetchval(self, query: str, *args: Any, column: int = 0, timeout: float | None = None) -> Any:
        return await self._bounded(super().fetchval(query, *args, column=column, timeout=timeout))

    async def copy_records_to_table(self, table_name: str, **options: Any) -> str:
        return await self._bounded(super().copy_records_to_table(table_name, **options))

    async def copy_to_table(self, table_name: str, **options: Any) -> str:
        return await self._bounded(super().copy_to_table(table_name, **options))

    async def _bounded(self, call: Awaitable[T]) -> T:
        if self.on_work is not None:
            self.on_work()
        self.idle_since = inf
        try:
            return await call
        except TimeoutError as error:  # before OSError, of which it is one
            self.terminate()
            raise CallTimedOut(
                "PostgreSQL did not answer in time; whether the statement took effect is unknown."
            ) from error
        except LOST as error:
            self.terminate()
            raise self.lost(error) from error
        except asyncpg.InterfaceError as error:  # misuse, or the driver's word for "closed under my hands"
            if not self.is_closed():
                raise
            raise self.lost(error) from error
        finally:
            self.idle_since = time.monotonic()

    def lost(self, error: Exception) -> Exception:
        """The driver's words for a closed connection, as ours."""
        if self.overheld:
            return HeldTooLong(
                "The transaction kept its connection without using it and was ended; do slow work outside."
            )
        return ConnectionLost(
            f"The connection to PostgreSQL was lost ({error}); whether the statement took effect is unknown."
        )


async def connect(url: DatabaseUrl, pool: PoolSettings, role: str, *, pooled: bool = False) -> Session:
    """Open a session. Raises the driver's errors: the caller knows whether to wait, to revive the server, or to give up."""
    session: Session = await asyncpg.connect(
        url.reveal(),
        timeout=pool.connect_timeout.total_seconds(),
        command_timeout=pool.call_timeout.total_seconds(),
        # A pooler gives each transaction another server: what was prepared or set on one is unknown to the next.
        statement_cache_size=0 if pooled else 200,
        server_settings={"application_name": f"penstock-{role}"}
        if pooled  # the client of a pooler's connection changes with each transaction
        else {"application_name": f"penstock-{role} {process_mark()}"} | session_settings(pool),
        connection_class=Session,
    )
    session.get_settings().register_data_types(_ARRAY_TYPES)
    session.idle_since = time.monotonic()
    return session


def process_mark() -> str:
    """Host and process, as in a worker's name: so the server's list of sessions shows their owners.

    An application_name has 63 bytes, so of a long host name only the end is left. engine/connection_budget.sql cuts names in
    the same way.
    """
    return f"{socket.gethostname()}:{os.getpid()}"[-MARK_MAX:]


def session_settings(pool: PoolSettings) -> dict[str, str]:
    """Set at connect, or by SET LOCAL behind a pooler. The server's limits are the net below the client's deadlines."""
    limit = int(pool.call_timeout.total_seconds() * 1000)
    return {
        "statement_timeout": str(limit + 5000),
        "idle_in_transaction_session_timeout": str(limit + 5000),
        "jit": "off",
        "timezone": "UTC",
    }


def unreachable(url: DatabaseUrl, error: BaseException) -> DatabaseUnreachable:
    """The sentence for a failed connection: which address, what it said, what to check."""
    place = urlsplit(url.reveal())
    where = f"{place.hostname or 'the local socket'}:{place.port or 5432}"
    match error:
        case asyncpg.InvalidPasswordError():
            said = f"PostgreSQL at {where} refused the password of {place.username}: correct the one"
        case asyncpg.InvalidAuthorizationSpecificationError():
            said = f"PostgreSQL at {where} does not let {place.username} in ({error}): check pg_hba.conf and the user"
        case asyncpg.InvalidCatalogNameError():
            said = f"PostgreSQL at {where} has no database {place.path.lstrip('/')!r}: create it, or correct the name"
        case asyncpg.TooManyConnectionsError():
            said = f"PostgreSQL at {where} has no connection left: raise max_connections, lower pool.size, or change the host"
        case TimeoutError():
            said = f"PostgreSQL at {where} did not answer: check that it runs and that no firewall is between, and the address"
        case _:
            said = f"PostgreSQL at {where} cannot be reached ({error}): check that it runs and listens there, and the address"
    return DatabaseUnreachable(f"{said} in database_url.")
