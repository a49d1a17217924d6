"""Packets of three documents, accepted and searched without the API."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from penstock.documents import Accepted, Document, Upload, show_document
from penstock.documents.ingest.upload import check_upload
from penstock.documents.packets import PacketFile
from penstock.product import Product
from penstock.search import CollectionRef, Query, find
from tests.product_with_worker import rows

COVER = "COVER SHEET\n\nPacket of the mill\nTo: the board\nFrom: the miller\nPages: 4\n"


PART_A = "PART A\n\nThe applicant repairs the sluice gate of the upper mill.\n"


PART_B = "PART B\n\nThe turbine was inspected, and the bearing is worn.\n"


async def accept(product: Product, name: str, files: dict[str, bytes], **options: Any) -> Accepted:
    async def pieces(content: bytes) -> AsyncIterator[bytes]:
        yield content

    [collection] = [
        row["id"] for row in await rows(product, "select id from penstock.collections where name = 'papers'")
    ]
    upload = Upload("papers", name, pieces(b""), replace=options.pop("replace", False), metadata={"case": 7})
    wish = check_upload(upload, "default", collection, served=True)
    sourced = [
        PacketFile(each, await product.store.write(pieces(content), most=2**30)) for each, content in files.items()
    ]
    return await product.packets.accept(wish, sourced, **options)


async def until_over(product: Product, document: int) -> Document:
    async with asyncio.timeout(90):
        while True:
            shown = await show_document(product.app, document)
            if shown.is_over:
                return shown
            await asyncio.sleep(0.05)


async def search(product: Product, text: str) -> list[Any]:
    [row] = await rows(product, "select id, model, search_language from penstock.collections where name = 'papers'")
    ref = CollectionRef(row["id"], row["model"], row["search_language"])
    return list((await find(product.app.database, product.models, Query(text, [ref], mode="words"))).hits)
