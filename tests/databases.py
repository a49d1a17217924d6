"""Databases for tests: cloned from the migrated template, and used again after they have been put in order.

A clone takes 0.1 to 1 s, most of what a small test takes; putting one in order takes 6 ms. What a test has made is
dropped, tables are emptied, numbers start at 1 again, statistics are forgotten. Then the catalogue must look as it did when the
database was new; if it does not, the test has changed something else, and the database is dropped instead.

A new session would take 20 ms more to read the catalogue, so each database keeps one between tests. Its connection outlives
the loop of a test, so it belongs to a loop in a thread of its own.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from penstock.settings import DatabaseUrl

T = TypeVar("T")
NOT_EMPTIED = ("migrations", "test_clock")
LARGE = 256 * 1024  # bytes: then it is truncated; below, deleting is ten times as fast

RELATIONS = """
select pg_class.oid::regclass::text as name, relname, relkind::text as kind, pg_relation_size(pg_class.oid) as size
from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where relkind in ('r', 'p', 'v', 'm', 'S') and nspname !~ '^pg_' and nspname <> 'information_schema'
order by pg_class.oid
"""
FORGET_STATISTICS = """
delete from pg_statistic where starelid >= 16384;
update pg_class set reltuples = -1, relpages = 0, relallvisible = 0
where oid >= 16384 and relkind in ('r', 'p', 'i') and reltuples <> -1;
"""
END_OTHERS = """
select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
"""
RESTART_SEQUENCES = """
select setval(seqrelid, seqstart, false) from pg_sequence where pg_sequence_last_value(seqrelid) is not null
"""
# `xmin` is the transaction that last wrote the row of the catalogue: a clone has those of the template. What was granted and
# taken back leaves the default list of rights in place of none.
CATALOGUE = """
select md5(string_agg(thing, E'\\n' order by thing)) from (
  select concat_ws(' ', 'relation', oid, relname, relkind, relnatts, reloptions, relpersistence,
      coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner))) from pg_class
    where oid >= 16384 and relkind not in ('t')
    and relnamespace in (select oid from pg_namespace where nspname !~ '^pg_')
  union all
  select concat_ws(' ', 'column', attrelid, attname, atttypid, attnotnull, atthasdef, attisdropped, attstorage, attacl)
    from pg_attribute where attrelid >= 16384 and attnum > 0
    and attrelid in (select oid from pg_class where relkind not in ('t', 'i'))
  union all
  select concat_ws(' ', 'index', indexrelid, indisvalid, xmin) from pg_index where indexrelid >= 16384
    and indrelid in (select oid from pg_class where relnamespace in (select oid from pg_namespace where nspname !~ '^pg_'))
  union all
  select concat_ws(' ', 'constraint', oid, xmin) from pg_constraint where oid >= 16384
  union all
  select concat_ws(' ', 'function', oid, prosrc, prolang, proconfig, provolatile, coalesce(proacl, acldefault('f', proowner)))
    from pg_proc where oid >= 16384
  union all select concat_ws(' ', 'trigger', tgrelid, tgname, tgenabled) from pg_trigger where not tgisinternal
  union all
  select concat_ws(' ', 'schema', nspname, coalesce(nspacl, acldefault('n', nspowner))) from pg_namespace
    where nspname !~ '^pg_'
  union all
  select concat_ws(' ', 'type', oid, typname, coalesce(typacl, acldefault('T', typowner))) from pg_type
    where oid >= 16384 and typtype in ('e', 'd', 'r')
  union all select concat_ws(' ', 'extension', extname) from pg_extension
  union all select concat_ws(' ', 'migration', number, checksum) from penstock.migrations
  union all
  select concat_ws(' ', 'database', datconnlimit, datallowconn, coalesce(datacl, acldefault('d', datdba)))
    from pg_database where datname = current_database()
  union all
  select concat_ws(' ', 'setting', setrole, setconfig) from pg_db_role_setting
    where setdatabase in (0, (select oid from pg_database where datname = current_database()))
) as catalogue(thing)
"""


class Databases:
    """The databases of one test process."""

    def __init__(self, template: DatabaseUrl) -> None:
        self._template = template
        self._free: list[str] = []
        self._sessions: dict[str, Any] = {}  # by database
        self._numbers = itertools.count(1)
        self._catalogue = ""  # of a new one
        self._relations: set[str] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="databases", daemon=True).start()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[DatabaseUrl]:
        """A database as good as new, until the test is over."""
        name = self._free.pop() if self._free else await self._in_thread(self._make())
        try:
            yield self._template.with_database(name)
        finally:
            if await self._in_thread(self._put_in_order(name)):
                self._free.append(name)
            else:
                await self._in_thread(self._execute(f"drop database {name} with (force)"))

    async def close(self) -> None:
        for name in list(self._sessions):
            await self._in_thread(self._end_session(name))
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _in_thread(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _make(self) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        await self._execute(f"create database {name} template penstock strategy file_copy")
        if not self._catalogue:
            session = await self._session(name)
            self._catalogue = await session.fetchval(CATALOGUE)
            self._relations = {row["name"] for row in await session.fetch(RELATIONS)}
        return name

    async def _put_in_order(self, name: str) -> bool:
        try:
            session = await self._session(name)
            await _end_sessions(session)
            await self._empty(session)
            catalogue: str = await session.fetchval(CATALOGUE)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):  # whatever it is, a new one has not got it
            await self._end_session(name)
            return False
        if catalogue != self._catalogue:
            await self._end_session(name)
            return False
        return True

    async def _empty(self, connection: Any) -> None:
        relations = await connection.fetch(RELATIONS)
        mine = [row for row in relations if row["name"] not in self._relations]
        for row in mine:
            kind = {"v": "view", "m": "materialized view", "S": "sequence"}.get(row["kind"], "table")
            await connection.execute(f"drop {kind} if exists {row['name']} cascade")
        for schema in await connection.fetch(
            "select nspname from pg_namespace where nspname not in ('public', 'penstock', 'information_schema') "
            "and nspname !~ '^pg_'"
        ):
            await connection.execute(f'drop schema if exists "{schema["nspname"]}" cascade')
        kept = [row for row in relations if row["name"] in self._relations]
        tables = [row for row in kept if row["kind"] == "r" and row["relname"] not in NOT_EMPTIED]
        large = [row["name"] for row in tables if row["size"] > LARGE]
        statements = ["set session_replication_role = replica"]  # everything goes: no reference needs to be checked
        statements += [f"delete from {row['name']}" for row in tables if row["size"] <= LARGE]
        statements += [f"truncate {', '.join(large)} cascade"] * bool(large)
        statements += [RESTART_SEQUENCES]
        statements += ["update penstock.test_clock set shift = '0'", FORGET_STATISTICS]
        await connection.execute(";\n".join(statements))

    async def _execute(self, statement: str) -> None:
        session = await self._session("postgres")
        await session.execute(statement)

    async def _session(self, database: str) -> Any:
        if database not in self._sessions or self._sessions[database].is_closed():  # tests end sessions, too
            url = self._template.with_database(database).reveal()
            self._sessions[database] = await asyncpg.connect(url, server_settings={"application_name": "tests"})
        return self._sessions[database]

    async def _end_session(self, database: str) -> None:
        session = self._sessions.pop(database, None)
        if session is not None:
            await session.close(timeout=5)


async def _end_sessions(connection: Any) -> None:
    """End what a test has left connected; a killed worker's sessions may take a moment to vanish by themselves."""
    async with asyncio.timeout(20):
        while await connection.fetch(END_OTHERS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
