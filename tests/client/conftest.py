"""The API on a real port, and a client of it, async or sync."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.web import make_app
from tests.client.both_clients import ClientCalls
from tests.web.api_server import serving


@pytest.fixture(autouse=True)
def without_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    monkeypatch.delenv("PENSTOCK_KEY", raising=False)


@pytest.fixture(params=["async", "sync"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def product(database_url: DatabaseUrl, tmp_path: Path) -> AsyncIterator[Product]:
    async with Product(
        role="test",
        home=str(tmp_path / "home"),
        database_url=database_url.reveal(),
        pool__size=4,
        pool__hold_limit="2s",
        limits__bytes=5_000_000,
        extraction__children=1,
    ) as opened:
        yield opened


@dataclass
class ServedProduct:
    """The served product, with a collection `mill`."""

    product: Product
    url: str

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A worker runs meanwhile, in this process."""
        stop = asyncio.Event()
        task = asyncio.create_task(self.product.app.work(concurrency=self.product.slots, stop=stop, drain="1s"))
        try:
            yield
        finally:
            stop.set()
            await task


@pytest.fixture
async def served(product: Product) -> AsyncIterator[ServedProduct]:
    async with serving(make_app(product)) as port:
        yield ServedProduct(product, f"http://127.0.0.1:{port}")


@pytest.fixture
async def call(served: ServedProduct, flavour: str) -> AsyncIterator[ClientCalls]:
    speaker = ClientCalls(flavour, served.url)
    await speaker(lambda client: client.collections.create("mill"))
    yield speaker
    await speaker.aclose()
