"""Who sends packets to a worker of another process, and waits for them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.stage import SideFailed
from penstock.documents import Document, Upload, ensure_collection, show_document
from penstock.documents.ingest.upload import check_upload
from penstock.documents.packets import PacketFile
from penstock.product import Product
from penstock.settings import DatabaseUrl

TIMEOUT = 1800.0


@asynccontextmanager
async def client(url: str, home: Path) -> AsyncIterator[Product]:
    async with Product(role="bench", database_url=DatabaseUrl(url), home=home, pool={"size": 4}) as product:
        yield product


async def send_packet(product: Product, name: str, files: Mapping[str, bytes]) -> int:
    """Accept a packet: its number."""
    collection = await ensure_collection(product.app, "packets")
    wish = check_upload(Upload("packets", name, _pieces(b"")), "default", collection.id, served=True)
    sourced = [
        PacketFile(each, await product.store.write(_pieces(content), most=2**40)) for each, content in files.items()
    ]
    return (await product.packets.accept(wish, sourced)).id


async def until_ready(product: Product, number: int) -> Document:
    async with asyncio.timeout(TIMEOUT):
        while True:
            shown = await show_document(product.app, number)
            if shown.is_over:
                break
            await asyncio.sleep(0.1)
    if shown.status != "ready":
        raise SideFailed(f"the packet is {shown.status}: {shown.error}")
    return shown


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content
