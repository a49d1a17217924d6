"""A crew, or a library, on the test's own database."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from penstock import Penstock
from penstock.documents import create_collection
from penstock.pipelines import Product
from penstock.settings import DatabaseUrl
from tests.scenarios.crew import Crew
from tests.scenarios.library import Library
from tests.scenarios.workshop import TABLES


@pytest.fixture
async def crew(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Crew]:
    connection = await asyncpg.connect(database_url.reveal())
    await connection.execute(TABLES)
    async with Penstock(database_url=database_url, home=tmp_path, pool={"size": 2}) as client:
        made = Crew(client, connection, tmp_path, {"PENSTOCK_DATABASE_URL": database_url.reveal()})
        try:
            yield made
        finally:
            await made.dismiss()
    await connection.close()


@pytest.fixture
async def library(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Library]:
    connection = await asyncpg.connect(database_url.reveal())
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}) as product:
        await create_collection(product.app, "papers")
        made = Library(product, connection, database_url)
        try:
            yield made
        finally:
            await made.close()
    await connection.close()
