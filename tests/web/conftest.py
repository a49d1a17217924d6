"""The whole API on a real port, over a product of its own; documents wait unless a test lets a worker run."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.web import make_app
from tests.web.api_server import serving

MOST = 5_000_000  # bytes of a document, in these tests


@dataclass(frozen=True)
class Answer:
    """A response, all of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    json: Any = None


class Api:
    """Requests to the API, with addresses sent as they are written."""

    def __init__(self, client: aiohttp.ClientSession, port: int, product: Product) -> None:
        self._client = client
        self.port = port
        self.product = product

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with self._client.request(method, url, **options) as answer:
            body = await answer.read()
            decoded = await answer.json(content_type=None) if "json" in answer.content_type else None
            return Answer(answer.status, answer.headers, body, decoded)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def put(self, name: str, content: Any = b"hello", *, collection: str = "mill", **options: Any) -> Answer:
        return await self.ask("PUT", f"/api/collections/{collection}/documents/{name}", data=content, **options)

    async def make(self, collection: str = "mill") -> None:
        assert (await self.ask("POST", "/api/collections", json={"name": collection})).status == 201

    async def names(self) -> list[str]:
        """Of all documents that can be seen."""
        return [each["name"] for each in (await self.get("/api/documents?limit=1000")).json["items"]]

    def blobs(self) -> list[Path]:
        """All files of the store, whole or not."""
        return [path for path in (self.product.settings.home / "blobs").rglob("*") if path.is_file()]

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

    async def over(self, document: int, within: float = 20) -> Any:
        """The document, when it is not queued and not processed any more."""
        async with asyncio.timeout(within):
            while True:
                shown = (await self.get(f"/api/documents/{document}")).json
                if shown["status"] not in {"queued", "processing"}:
                    return shown
                await asyncio.sleep(0.05)


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    """Settings that a test wants to be different."""
    return {}


@pytest.fixture
async def product(
    database_url: DatabaseUrl, tmp_path: Path, setting_overrides: dict[str, Any]
) -> AsyncIterator[Product]:
    usual = {"home": str(tmp_path), "database_url": database_url.reveal(), "pool__size": 4, "limits__bytes": MOST}
    usual |= {"pool__hold_limit": "2s", "extraction__children": 1}
    async with Product(role="test", **(usual | setting_overrides)) as opened:
        yield opened


@pytest.fixture
async def api(product: Product) -> AsyncIterator[Api]:
    async with serving(make_app(product)) as port, aiohttp.ClientSession() as client:
        yield Api(client, port, product)
