"""What PostgreSQL allows to one client: claim a hundred, move them to a history, and so on. No leases, gates or retries."""

import asyncio
import json
from typing import Any

import asyncpg

from benchmarks.cost import clock
from benchmarks.systems import System

BATCH = 100
SCHEMA = """
create table jobs (
  id bigint generated always as identity primary key, state smallint not null default 0, attempt int not null default 0,
  args json not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index jobs_ready on jobs (id) where state = 0;
create table history (id bigint not null, attempt int not null, args json not null, finished_at timestamptz not null);
create index history_id on history (id);
"""
CLAIM = """
with due as materialized (
  select id from jobs where state = 0 order by id limit $1 for update skip locked
)
update jobs set state = 1, attempt = attempt + 1
where id = any (array(select id from due)) returning id, attempt, args
"""
FINISH = """
with mine as (
  delete from jobs using unnest($1::bigint[], $2::int[]) as proof(id, attempt)
  where jobs.id = proof.id and jobs.attempt = proof.attempt
  returning jobs.id, jobs.attempt, jobs.args
)
insert into history (id, attempt, args, finished_at) select id, attempt, args, now() from mine
"""
INSERT = "insert into jobs (args) select * from unnest($1::json[])"


class Side(System):
    settled = "select count(*) from history"
    empty = "truncate jobs, history"
    fill = "insert into jobs (args) select json_build_object('n', n) from generate_series(1, $1::int) as n"
    vacuum = "jobs"

    async def install(self) -> None:
        await self.open()
        await self.connection.execute(SCHEMA)

    async def open(self) -> None:
        self.connection: Any = await asyncpg.connect(self.url)

    async def enqueue_bulk(self, count: int, kind: str = "noop") -> None:
        await self.connection.execute(INSERT, [json.dumps({"n": n}) for n in range(count)])

    async def enqueue_one(self, number: int) -> None:
        await self.connection.execute(INSERT, [json.dumps({"n": number})])

    async def enqueue_stamped(self, number: int) -> float:
        """An insert and a notification in one transaction: less cannot be an enqueue."""
        async with self.connection.transaction():
            await self.enqueue_one(number)
            await self.connection.execute("select pg_notify('floor', $1)", str(number))
            return clock()

    async def work(self, concurrency: int) -> None:
        """The last batch is moved while the next is claimed: otherwise the loop would only measure the disk's latency."""
        finisher: Any = await asyncpg.connect(self.url)
        moved: asyncio.Future[Any] | None = None
        while rows := await self.connection.fetch(CLAIM, BATCH):
            for row in rows:
                self.entered(json.loads(row["args"])["n"], row["attempt"])
            if moved is not None:
                await moved
            proof = [row["id"] for row in rows], [row["attempt"] for row in rows]
            moved = asyncio.ensure_future(finisher.execute(FINISH, *proof))
        if moved is not None:
            await moved
