from collections.abc import AsyncIterator

import pytest

from penstock.fetch import Fetcher
from tests.fetch.site import Site, open_site, settings_for


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest.fixture
def fetcher(site: Site) -> Fetcher:
    """Allowed to reach the site, and nothing else that is private."""
    return Fetcher(settings_for(site))
