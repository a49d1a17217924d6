"""Messages that become documents: once, by the settings of their source, or a dead letter with a reason."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.documents import (
    Overtaken,
    SourceMessage,
    collect_blobs,
    explain_anything,
    list_documents,
    show_document,
)
from penstock.documents.manifest import DIGEST
from penstock.operations import examine
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.product_with_source import SOURCE, order, product_with_source, until_settled
from tests.product_with_worker import rows, running_worker


async def test_a_message_becomes_one_document_with_its_number(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_source(database_url, tmp_path) as product:
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


async def test_a_worker_without_the_source_leaves_its_messages_alone(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """They wait for a worker that has it, uncharged; `why` and the doctor name the source."""
    settings: dict[str, Any] = {"database_url": database_url, "home": tmp_path, "pool": {"size": 4}}
    async with Product(**settings, sources={"orders": SOURCE}) as receiver:
        await receiver.inbox.receive("orders", [order("a"), order("b", "Other.")])
    async with Product(**settings, sources={"other": SOURCE}) as product, running_worker(product):
        await product.inbox.receive("other", [order("c")])
        async with asyncio.timeout(30):
            while not await rows(product, "select from penstock.inbox where state = 'taken'"):  # noqa: ASYNC110  no event for SQL
                await asyncio.sleep(0.02)
        waiting = await rows(
            product,
            "select job.state::text, job.attempt, job.failures from penstock.inbox as message "
            "join penstock.jobs as job on job.id = message.job_id where message.source = 'orders'",
        )
        assert [tuple(row) for row in waiting] == [("ready", 0, 0)] * 2
        told = await explain_anything(product.app, "orders/a")
        assert told.because == "unserved"
        assert "Start a worker that has [sources.orders] in its settings" in told.sentence
        findings = {each.name: each for each in await examine(product.settings)}
        assert findings["source-unserved"].sentence.startswith(
            "No running worker has the source orders in its settings: 2 messages wait. Add [sources.orders] to"
        )
        assert "unserved-kind" not in findings
    async with product_with_source(database_url, tmp_path) as product:
        assert [row["state"] for row in await until_settled(product)] == ["taken"] * 3
        assert "source-unserved" not in {each.name for each in await examine(product.settings)}


async def test_other_content_is_the_next_version_or_refused(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_source(database_url, tmp_path) as product:
        await product.inbox.receive("orders", [order("a")])
        await until_settled(product)
        changed = await product.inbox.receive("orders", [order("a", "The gate was repaired twice.")])
        assert (changed.new, changed.versions) == (0, 1)
        [row] = await until_settled(product)
        shown = await show_document(product.app, row["id"])
        assert (shown.version, shown.live_version, row["number"]) == (2, 2, 2)
    async with product_with_source(database_url, tmp_path, on_change="error") as product:
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
    async with product_with_source(database_url, tmp_path) as product:
        await product.inbox.receive("orders", [SourceMessage("bad", payload), order("good")])
        bad, good = await until_settled(product)
        assert (bad["state"], good["state"]) == ("failed", "taken")
        assert reason in bad["error"]
        [dead] = await rows(product, "select state::text, attempt, error from penstock.jobs where state = 'dead'")
        assert dead["attempt"] == 1, "permanent: one attempt"
        assert [each.name for each in await list_documents(product.app)] == ["good.txt"]


async def test_a_redriven_message_is_taken(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """A name that is taken is refused, until somebody makes room for it."""
    async with product_with_source(database_url, tmp_path) as product:
        await product.inbox.receive("orders", [order("a")])
        await until_settled(product)
        await product.inbox.receive("orders", [SourceMessage("b", order("a").payload)])
        _, second = await until_settled(product)
        assert second["state"] == "failed"
        assert "replace = true" in second["error"]
    async with product_with_source(database_url, tmp_path, replace=True) as product:
        await product.app.redrive(second["job_id"], force=True)
        with contextlib.suppress(TimeoutError):
            await product.app.result(second["job_id"], timeout="30s")
        _, second = await until_settled(product)
        assert (second["state"], second["error"]) == ("taken", None)
        assert len(await list_documents(product.app)) == 1


async def test_who_was_overtaken_keeps_nothing(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_source(database_url, tmp_path) as product:
        position = await product.inbox.position("orders")
        assert position.value is None
        await product.inbox.receive("orders", [order("a")], position=position, onward={"id": 1})
        with pytest.raises(Overtaken):
            await product.inbox.receive("orders", [order("b")], position=position, onward={"id": 2})
        assert (await product.inbox.position("orders")).value == {"id": 1}
        assert [row["message_id"] for row in await until_settled(product)] == ["a"]
        assert await product.inbox.unknown("orders", ["a", "b"]) == ["b"]


async def test_news_are_what_never_came_or_came_with_other_content(database_url: DatabaseUrl, tmp_path: Path) -> None:
    long = "x" * 2000  # is kept in a shorter form
    async with product_with_source(database_url, tmp_path) as product:
        await product.inbox.receive("orders", [order("a"), order(long)])
        asked = [order("a"), order(long), order("b"), order("b" + long)]
        assert await product.inbox.unknown("orders", [message.id for message in asked]) == ["b", "b" + long]
        assert await product.inbox.news("orders", asked) == asked[2:]
        assert await product.inbox.news("orders", [order("a", "Other.")]) == [order("a", "Other.")]
        await until_settled(product)
    async with product_with_source(database_url, tmp_path, on_change="error") as product:
        assert await product.inbox.news("orders", [order("a", "Other."), order("b")]) == [order("b")]


async def test_bytes_that_came_with_a_message_are_kept_until_it_is_taken(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"The gate was painted."

    async with product_with_source(database_url, tmp_path) as product:
        await product.app.pause(queue="inbox")
        stored = await product.store.write(pieces(), most=100)
        message = SourceMessage("f", {"name": "f.txt", DIGEST: stored.digest.hex()}, [stored])
        await product.inbox.receive("orders", [message])
        await collect_blobs(product.app.database, product.store, timedelta(microseconds=1))
        await collect_blobs(product.app.database, product.store, timedelta(microseconds=1))
        assert await product.store.size(stored.key) == stored.size
        await product.app.resume(queue="inbox")
        [row] = await until_settled(product)
        assert (await show_document(product.app, row["id"])).status == "ready"
        assert await rows(product, "select from penstock.inbox_blobs") == []


async def test_a_packet_takes_what_it_can_get_unless_it_must_have_all(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    """A document that is not to be had is a gap; where all are needed, the message fails, and can be tried again."""
    content = base64.b64encode(b"PART A\n\nThe gate.").decode()
    documents = [{"name": "a.txt", "content": content}, {"name": "gone.pdf", "url": "http://127.0.0.1/gone.pdf"}]
    async with product_with_source(database_url, tmp_path, makes="packet") as product:
        await product.inbox.receive("orders", [SourceMessage("p", {"documents": documents})])
        await product.inbox.receive("orders", [SourceMessage("q", {"documents": documents, "require_all": True})])
        p, q = await until_settled(product)
        shown = await show_document(product.app, p["id"])
        assert (shown.name, shown.status, shown.pages) == ("p", "ready", 1)
        assert [gap["reason"].partition(":")[0] for gap in shown.gaps] == ["gone.pdf is not in it"]
        assert (q["state"], q["document_id"]) == ("failed", None)
        assert "lacks gone.pdf" in q["error"]


async def test_a_server_in_trouble_is_waited_for(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """What passes by itself is tried again, and says so; it is no gap."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        fetch = {"private": "127.0.0.1", "ports": str(port)}
        async with product_with_source(database_url, tmp_path, fetch, makes="packet") as product:
            documents = [{"name": "a.pdf", "url": f"http://127.0.0.1:{port}/a.pdf"}]
            await product.inbox.receive("orders", [SourceMessage("p", {"documents": documents})])
            async with asyncio.timeout(30):
                while True:
                    found = await rows(product, "select failures, error from penstock.jobs where state = 'later'")
                    if found:
                        break
                    await asyncio.sleep(0.05)
            assert "answered 503" in found[0]["error"]
            assert await list_documents(product.app) == []
