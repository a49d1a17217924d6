"""A stage on the test's own database."""

from collections.abc import AsyncIterator

import pytest

from penstock.database import Database
from tests.engine.conftest import Shop
from tests.proofs.explore import Stage


@pytest.fixture
async def stage(database: Database) -> AsyncIterator[Stage]:
    shop = Shop(database)
    stage = Stage(shop)
    await stage.open()
    try:
        yield stage
    finally:
        await stage.close()
        shop.close()
