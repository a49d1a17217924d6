"""Messages that become documents: once, by the settings of their source, or a dead letter with a reason."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import Message, Overtaken, collect_blobs, list_documents, show_document
from penstock.documents.manifest import DIGEST
from penstock.pipelines import Product
from penstock.settings import DatabaseUrl

SOURCE = {"type": "webhook", "secret": "s", "collection": "papers"}


@asynccontextmanager
async def taking(database_url: DatabaseUrl, home: Path, **source: Any) -> AsyncIterator[Product]:
    """The product with a worker and a source `orders`."""
    product = Product(database_url=database_url, home=home, pool={"size": 4}, sources={"orders": SOURCE | source})
    stop = asyncio.Event()
    async with product:
        work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots, drain="1s"))
        try:
            yield product
        finally:
            stop.set()
            await work


def order(number: str, text: str = "The sluice gate was repaired.", **more: Any) -> Message:
    content = base64.b64encode(text.encode()).decode()
    return Message(number, {"name": f"{number}.txt", "content": content, **more})


async def rows(product: Product, query: str, *arguments: Any) -> list[Any]:
    async with product.app.database.pool.session() as session:
        found: list[Any] = await session.fetch(query, *arguments)
        return found


async def until_settled(product: Product) -> list[Any]:
    """All messages, when none of them waits and none of their documents is under way."""
    async with asyncio.timeout(60):
        while True:
            found = await rows(product, "select * from penstock.inbox order by message_id")
            documents = await list_documents(product.app)
            if all(row["state"] != "waiting" for row in found) and all(each.is_over for each in documents):
                return found
            await asyncio.sleep(0.05)


async def test_a_message_becomes_one_document_with_its_number(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with taking(database_url, tmp_path) as product:
        first = await product.inbox.receive("orders", [order("a", metadata={"client": "Acme"}), order("b", "Other.")])
        again = await product.inbox.receive("orders", [order("a", metadata={"client": "Acme"}), order("b", "Other.")])
        assert (first.new, again.new, again.repeats) == (2, 0, 2)
        a, b = await until_settled(product)
        shown = await show_document(product.app, a["id"])
        assert (shown.name, shown.status, shown.metadata) == ("a.txt", "ready", {"client": "Acme"})
        assert (a["state"], a["document_id"], a["payload"], a["repeats"]) == ("taken", a["id"], None, 1)
        assert len(await list_documents(product.app)) == 2
        assert shown.uploaded_by == "source orders"
        assert b["job_id"] is not None


async def test_other_content_is_the_next_version_or_refused(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with taking(database_url, tmp_path) as product:
        await product.inbox.receive("orders", [order("a")])
        await until_settled(product)
        changed = await product.inbox.receive("orders", [order("a", "The gate was repaired twice.")])
        assert (changed.new, changed.versions) == (0, 1)
        [row] = await until_settled(product)
        shown = await show_document(product.app, row["id"])
        assert (shown.version, shown.live_version, row["number"]) == (2, 2, 2)
    async with taking(database_url, tmp_path, on_change="error") as product:
        refused = await product.inbox.receive("orders", [order("a", "A third content.")])
        assert refused.conflicts == ["a"]
        [row] = await until_settled(product)
        assert (row["number"], row["conflicts"]) == (2, 1)
        assert (await show_document(product.app, row["id"])).version == 2


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"name": "x"}, "no way to the bytes"),
        ({"content": "no base64!"}, "not base64"),
        ({"content": "eA==", "url": "http://a/b"}, "several ways"),
        ({"content": 7}, "no way to the bytes"),
        ({"content": "eA==", "name": "../x"}, "has the part .."),
        ({"content": "eA==", "metadata": "{"}, "not JSON"),
        ({"content": "eA==", "metadata": [1]}, "not an object"),
        ({"blob": "k"}, "no blobs_url"),
        ({"url": "http://127.0.0.1/x"}, "loopback"),
        ({"penstock:poison": "The message has 100 MB."}, "100 MB"),
        ({DIGEST: "00" * 32}, "are gone"),
    ],
)
async def test_what_cannot_be_used_is_a_dead_letter(
    database_url: DatabaseUrl, tmp_path: Path, payload: dict[str, Any], reason: str
) -> None:
    """And the others go on."""
    async with taking(database_url, tmp_path) as product:
        await product.inbox.receive("orders", [Message("bad", payload), order("good")])
        bad, good = await until_settled(product)
        assert (bad["state"], good["state"]) == ("failed", "taken")
        assert reason in bad["error"]
        [dead] = await rows(product, "select state::text, attempt, error from penstock.jobs where state = 'dead'")
        assert dead["attempt"] == 1, "permanent: one attempt"
        assert [each.name for each in await list_documents(product.app)] == ["good.txt"]


async def test_a_redriven_message_is_taken(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """A name that is taken is refused, until somebody makes room for it."""
    async with taking(database_url, tmp_path) as product:
        await product.inbox.receive("orders", [order("a")])
        await until_settled(product)
        await product.inbox.receive("orders", [Message("b", order("a").payload)])
        _, second = await until_settled(product)
        assert second["state"] == "failed"
        assert "replace = true" in second["error"]
    async with taking(database_url, tmp_path, replace=True) as product:
        await product.app.redrive(second["job_id"], force=True)
        with contextlib.suppress(TimeoutError):
            await product.app.result(second["job_id"], timeout="30s")
        _, second = await until_settled(product)
        assert (second["state"], second["error"]) == ("taken", None)
        assert len(await list_documents(product.app)) == 1


async def test_who_was_overtaken_keeps_nothing(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with taking(database_url, tmp_path) as product:
        position = await product.inbox.position("orders")
        assert position.value is None
        await product.inbox.receive("orders", [order("a")], position=position, onward={"id": 1})
        with pytest.raises(Overtaken):
            await product.inbox.receive("orders", [order("b")], position=position, onward={"id": 2})
        assert (await product.inbox.position("orders")).value == {"id": 1}
        assert [row["message_id"] for row in await until_settled(product)] == ["a"]
        assert await product.inbox.unknown("orders", ["a", "b"]) == ["b"]


async def test_bytes_that_came_with_a_message_are_kept_until_it_is_taken(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"The gate was painted."

    async with taking(database_url, tmp_path) as product:
        await product.app.pause(queue="inbox")
        stored = await product.store.write(pieces(), most=100)
        message = Message("f", {"name": "f.txt", DIGEST: stored.digest.hex()}, [stored])
        await product.inbox.receive("orders", [message])
        await collect_blobs(product.app.database, product.store, timedelta(microseconds=1))
        await collect_blobs(product.app.database, product.store, timedelta(microseconds=1))
        assert await product.store.size(stored.key) == stored.size
        await product.app.resume(queue="inbox")
        [row] = await until_settled(product)
        assert (await show_document(product.app, row["id"])).status == "ready"
        assert await rows(product, "select from penstock.inbox_blobs") == []
