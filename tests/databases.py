"""Databases for tests: cloned from the migrated template, and used again after they have been put in order.

A clone takes 0.1 to 1 s, most of what a small test takes; putting one in order takes some 20 ms. What a test has made is
dropped, tables are emptied, numbers start at 1 again, statistics are forgotten. Then the catalogue must look as it did when the
database was new; if it does not, the test has changed something else, and the database is dropped instead.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from penstock.settings import DatabaseUrl

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
CATALOGUE = """
select md5(string_agg(thing, E'\\n' order by thing)) from (
  select concat_ws(' ', 'relation', oid, relname, relkind, relnatts, reloptions, relacl, relpersistence) from pg_class
    where oid >= 16384 and relkind not in ('t')
    and relnamespace in (select oid from pg_namespace where nspname !~ '^pg_')
  union all
  select concat_ws(' ', 'column', attrelid, attname, atttypid, attnotnull, atthasdef, attisdropped, attstorage, attacl)
    from pg_attribute where attrelid >= 16384 and attnum > 0
    and attrelid in (select oid from pg_class where relkind not in ('t', 'i'))
  union all
  select concat_ws(' ', 'index', indexrelid, indisvalid, pg_get_indexdef(indexrelid)) from pg_index where indexrelid >= 16384
    and indrelid in (select oid from pg_class where relnamespace in (select oid from pg_namespace where nspname !~ '^pg_'))
  union all
  select concat_ws(' ', 'constraint', conrelid, conname, pg_get_constraintdef(oid)) from pg_constraint where oid >= 16384
  union all select concat_ws(' ', 'function', oid, proname, prosrc, proacl) from pg_proc where oid >= 16384
  union all select concat_ws(' ', 'trigger', tgrelid, tgname, tgenabled) from pg_trigger where not tgisinternal
  union all select concat_ws(' ', 'schema', nspname, nspacl) from pg_namespace where nspname !~ '^pg_'
  union all select concat_ws(' ', 'type', oid, typname, typacl) from pg_type where oid >= 16384 and typtype in ('e', 'd', 'r')
  union all select concat_ws(' ', 'extension', extname) from pg_extension
  union all select concat_ws(' ', 'migration', number, checksum) from penstock.migrations
  union all
  select concat_ws(' ', 'database', datconnlimit, datallowconn, datacl) from pg_database where datname = current_database()
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
        self._numbers = itertools.count(1)
        self._catalogue = ""  # of a new one
        self._relations: set[str] = set()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[DatabaseUrl]:
        """A database as good as new, until the test is over."""
        name = self._free.pop() if self._free else await self._make()
        try:
            yield self._template.with_database(name)
        finally:
            if await self._put_in_order(name):
                self._free.append(name)
            else:
                await self._execute("postgres", f"drop database {name} with (force)")

    async def _make(self) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        await self._execute("postgres", f"create database {name} template penstock strategy file_copy")
        if not self._catalogue:
            async with self._connect(name) as connection:
                self._catalogue = await connection.fetchval(CATALOGUE)
                self._relations = {row["name"] for row in await connection.fetch(RELATIONS)}
        return name

    async def _put_in_order(self, name: str) -> bool:
        async with self._connect("postgres") as admin:
            if not await admin.fetchval(
                "select datallowconn and datconnlimit = -1 from pg_database where datname = $1", name
            ):
                return False
            await _end_sessions(admin, name)
        try:
            async with self._connect(name) as connection:
                await self._empty(connection)
                catalogue: str = await connection.fetchval(CATALOGUE)
                return catalogue == self._catalogue
        except asyncpg.PostgresError:  # whatever it is, a new one has not got it
            return False

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
        statements += [f"alter sequence {row['name']} restart" for row in kept if row["kind"] == "S"]
        statements += ["update penstock.test_clock set shift = '0'", FORGET_STATISTICS]
        await connection.execute(";\n".join(statements))

    async def _execute(self, database: str, statement: str) -> None:
        async with self._connect(database) as connection:
            await connection.execute(statement)

    @asynccontextmanager
    async def _connect(self, database: str) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self._template.with_database(database).reveal())
        try:
            yield connection
        finally:
            await connection.close()


async def _end_sessions(admin: Any, name: str) -> None:
    """What a test has left connected; a killed worker's sessions may take a moment to vanish by themselves."""
    async with asyncio.timeout(20):
        while await admin.fetch("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
