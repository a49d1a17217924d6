"""Messages from a table of another database into the inbox, each with its job, in the usual batches: how many per second?

The table is in another database of the same server, so that one machine does the work of both. Nobody takes the messages
meanwhile; the overlap is compared as always.
"""

import shutil
import time

import asyncpg

from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.sources import SourceContext
from penstock.sources.table import open_source

TABLE = """
create table orders (id bigint primary key, name text, url text, metadata jsonb, created_at timestamptz default now())
"""
FILL = """
insert into orders select number, 'order-' || number || '.pdf', 'https://files.example.com/orders/' || number || '.pdf',
  jsonb_build_object('customer', 'C' || number % 997, 'due', date '2026-01-01' + (number % 365)::int)
from generate_series(1, $1) as number
"""


async def measure(stage: Stage) -> list[Row]:
    rows = stage.scale.jobs
    rates = [await _round(stage, rows) for _ in range(stage.scale.rounds)]
    row = Row("intake", f"{rows:,} rows of a table into the inbox, with jobs", "1/s", rates)
    return [row.judged("≥ 2,000", lambda value: value >= 2_000)]


async def _round(stage: Stage, rows: int) -> float:
    outside = await stage.empty_database("erp")
    erp = await asyncpg.connect(outside)
    await erp.execute(TABLE)
    await erp.execute(FILL, rows)
    await erp.execute("vacuum analyze orders")
    await erp.close()
    url = await stage.empty_database("intake")
    home = stage.home / "intake"
    source = {"type": "table", "url": outside, "table": "orders", "id": "id", "sweep_every": "1d"}
    async with Product(
        database_url=DatabaseUrl(url), home=home, pool={"size": 4}, sources={"orders": source}
    ) as product:
        desk = SourceContext(
            "orders", product.settings.sources["orders"], product.settings, product.inbox, product.store
        )
        reader = open_source(desk)
        await stage.admin.execute("checkpoint")
        began = time.perf_counter()
        while await reader.poll():
            pass
        took = time.perf_counter() - began
        await reader.close()
        async with product.app.database.pool.session() as session:
            query = "select count(*) from penstock.inbox join penstock.jobs on jobs.id = inbox.job_id"
            assert await session.fetchval(query) == rows, "each has its job"
    shutil.rmtree(home, ignore_errors=True)
    for each in (url, outside):
        await stage.drop(each)
    return rows / took
