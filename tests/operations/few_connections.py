"""An application whose role may open few connections."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock import Penstock
from tests.application import Application
from tests.engine.limited_role import LimitedRole


@pytest.fixture
async def limited_application(limited_role: LimitedRole, tmp_path: Path) -> AsyncIterator[Application]:
    """Its role has room for little more than two workers; the client is another program and takes nothing of it."""
    environ = {
        "PENSTOCK_DATABASE_URL": limited_role.url.reveal(),
        "PENSTOCK_HOME": str(tmp_path),
        "PENSTOCK_POOL__SIZE": "4",
        "PENSTOCK_LOG__FORMAT": "json",
    }
    async with Penstock(database_url=limited_role.url, home=tmp_path, pool={"size": 1}) as client:
        made = Application(tmp_path, environ, client)
        try:
            yield made
        finally:
            await made.close()
