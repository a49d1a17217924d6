"""Worker processes, or processes of the whole product, on the test's own database."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from penstock import Penstock
from penstock.documents import create_collection
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.scenarios.product_processes import ProductProcesses
from tests.scenarios.sample_jobs import TABLES
from tests.scenarios.worker_processes import WorkerProcesses


@pytest.fixture
async def worker_processes(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[WorkerProcesses]:
    connection = await asyncpg.connect(database_url.reveal())
    await connection.execute(TABLES)
    async with Penstock(database_url=database_url, home=tmp_path, pool={"size": 2}) as client:
        made = WorkerProcesses(client, connection, tmp_path, {"PENSTOCK_DATABASE_URL": database_url.reveal()})
        try:
            yield made
        finally:
            await made.stop()
    await connection.close()


@pytest.fixture
async def product_processes(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[ProductProcesses]:
    connection = await asyncpg.connect(database_url.reveal())
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}) as product:
        await create_collection(product.app, "papers")
        made = ProductProcesses(product, connection, database_url)
        try:
            yield made
        finally:
            await made.close()
    await connection.close()
