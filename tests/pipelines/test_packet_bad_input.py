"""What comes in packets that should not: each is a gap or a dead letter with a sentence, and the rest goes on."""

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import pikepdf
import pytest

from penstock.documents import SourceMessage, create_collection, list_documents, show_document
from penstock.documents.manifest import DIGEST
from penstock.documents.packets import ShownPacket, show_packets
from penstock.errors import BadValue
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.fetch.site import open_site, reply
from tests.hostile.pdf_pieces import document, packed
from tests.pipelines.packets import PART_A, accept, search, until_over
from tests.product_with_source import SOURCE, product_with_source, until_settled
from tests.product_with_worker import product_with_worker, rows
from tests.sample_documents import pdf

TREE = b"<</Type/Pages/Count %d/Kids[%s]>>"
MANY = 10_000


def encrypted() -> bytes:
    with pikepdf.open(io.BytesIO(pdf("secret"))) as made:
        out = io.BytesIO()
        made.save(out, encryption=pikepdf.Encryption(owner="a", user="b"))
        return out.getvalue()


def many_pages() -> bytes:
    kids = b" ".join(b"%d 0 R" % number for number in range(4, MANY + 4))
    pages = dict.fromkeys(range(4, MANY + 4), b"<</Type/Page>>")
    return packed({1: b"<</Type/Catalog/Pages 2 0 R>>", 2: TREE % (MANY, kids)}, pages)


# A document of a packet, and what is said of it; nothing for one that is in it.
DOCUMENTS: dict[str, tuple[bytes, str]] = {
    "good.txt": (PART_A.encode(), ""),
    "of two loops.pdf": (document(o2=TREE % (3, b"6 0 R"), o6=TREE % (2, b"2 0 R")), "damaged|no pages"),
    "locked.pdf": (encrypted(), "password"),
    "no pages.pdf": (document(o2=TREE % (0, b"")), "no pages|damaged"),
    "long.pdf": (many_pages(), "pages"),
    "invoice.pdf": (b"MZ\x90\0" + bytes(200), "Windows program"),
    "empty.txt": (b"", "empty"),
    "many.zip": (b"PK\x03\x04" + bytes(100), "archive|damaged|zip"),
    "noise.bin": (bytes(range(256)) * 8, "."),
    "../../etc/passwd": (b"The weir is of oak.", ""),
    "a\0b\n.txt": (b"The weir is of ash.", ""),
    "\N{GRINNING FACE}\u202e.txt": (b"The weir is of elm.", ""),
    "x" * 3000 + ".txt": (b"The weir is of yew.", ""),
    "": (b"The weir is of fir.", ""),
    "\ud800.txt": (b"The weir is of box.", ""),
    "\ud800 torn.pdf": (b"%PDF-1.7 and no more", "damaged"),
    "the same again.txt": (PART_A.encode(), ""),
}


async def shown(product: Product, number: int) -> ShownPacket:
    async with product.app.database.pool.session() as session:
        return (await show_packets(session, [number]))[number]


async def test_what_cannot_be_read_is_a_gap_with_a_sentence(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        number = (await accept(product, "mixed", {name: content for name, (content, _) in DOCUMENTS.items()})).id
        over = await until_over(product, number)
        assert over.status == "ready", over.error
        packet = await shown(product, number)
        assert len(packet.documents) == len(DOCUMENTS)
        page = 1
        for each, (name, (_, said)) in zip(packet.documents, DOCUMENTS.items(), strict=True):
            assert each.name == name.encode("utf-8", "replace").decode().replace("\0", " ")
            if not said:
                assert (each.status, each.first_page, each.reason) == ("ready", page, ""), each
                page += each.pages
                continue
            assert (each.status, each.first_page, each.pages) == ("failed", None, 0), each
            assert any(word.lower() in each.reason.lower() for word in said.split("|")), each
        assert over.pages == page - 1
        gone = [gap for gap in over.gaps if "is not in it: " in gap["reason"]]
        assert len(gone) == sum(bool(said) for _, said in DOCUMENTS.values())
        members = [each.name for each in await list_documents(product.app, collection="papers") if each.parent]
        assert len(set(members)) == len(DOCUMENTS)
        assert all(name.startswith("mixed!/") and ".." not in name.split("/") for name in members), members
        assert {hit.packet_page for hit in await search(product, "weir")} == {2, 3, 4, 5, 6, 7}


async def test_one_name_many_times_is_many_documents(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_source(database_url, tmp_path, makes="packet") as product:
        documents = [{"name": "scan.txt", "content": text(f"The weir of {wood}.")} for wood in ("oak", "ash", "oak")]
        await product.inbox.receive("orders", [SourceMessage("a", {"documents": documents})])
        [row] = await until_settled(product)
        packet = await shown(product, row["document_id"])
        assert [(each.name, each.first_page, each.status) for each in packet.documents] == [
            ("scan.txt", 1, "ready"),
            ("scan.txt", 2, "ready"),
            ("scan.txt", 3, "ready"),
        ]
        assert len({each.document for each in packet.documents}) == 3
        hits = await search(product, "oak")
        assert sorted(hit.packet_page for hit in hits) == [1, 3]


def text(content: str) -> str:
    return base64.b64encode(content.encode()).decode()


GOOD = {"name": "good.txt", "content": text("The weir is of oak.")}
# A message, and why it is a dead letter.
LETTERS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "no list of documents at 'documents'"),
    "object": ({"documents": {"name": "x"}}, "no list of documents"),
    "empty": ({"documents": []}, "no list of documents"),
    "text": ({"documents": "[{"}, "is not JSON"),
    "number": ({"documents": [7]}, "document 1 of the packet is not an object"),
    "no way": ({"documents": [GOOD, {"name": "x"}]}, "no way to the bytes of document 2"),
    "two ways": ({"documents": [{**GOOD, "url": "http://a/b"}]}, "several ways to the bytes of document 1"),
    "no text": ({"documents": [{"content": 5}]}, "no way to the bytes|as text"),
    "too many": ({"documents": [GOOD] * 201}, "201 documents, more than 200 (packet.documents)"),
    "name": ({"name": "../x", "documents": [GOOD]}, "has the part .."),
    "metadata": ({"metadata": [1], "documents": [GOOD]}, "not an object"),
    "poison": ({"penstock:poison": "It has 100 MB."}, "It has 100 MB."),
    "nested": ({"documents": "[" * 100_000}, "is not JSON"),
}


async def test_a_malformed_message_is_a_dead_letter(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """After one attempt, with its sentence; those beside it become packets."""
    async with product_with_source(database_url, tmp_path, makes="packet") as product:
        bad = [SourceMessage(number, payload) for number, (payload, _) in LETTERS.items()]
        await product.inbox.receive("orders", [*bad, SourceMessage("fine", {"documents": [GOOD]})])
        found = {row["message_id"]: row for row in await until_settled(product)}
        assert found.pop("fine")["state"] == "taken"
        for number, (_, said) in LETTERS.items():
            assert found[number]["state"] == "failed"
            assert any(part in found[number]["error"] for part in said.split("|")), (number, found[number]["error"])
        dead = await rows(product, "select attempt from penstock.jobs where state = 'dead'")
        assert [row["attempt"] for row in dead] == [1] * len(LETTERS)
        assert {each.name for each in await list_documents(product.app)} == {"fine", "fine!/good.txt"}


async def test_a_document_that_cannot_be_had_is_a_gap(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_source(database_url, tmp_path, makes="packet") as product:
        lost = [
            {"name": "not\0base64 \ud800", "content": "?!"},
            {"name": "forbidden", "url": "http://127.0.0.1/x"},
            {"name": "no bucket", "blob": "k"},
            {"name": "gone", DIGEST: "00" * 32},
        ]
        await product.inbox.receive("orders", [SourceMessage("a", {"documents": [*lost, GOOD]})])
        [row] = await until_settled(product)
        packet = await shown(product, row["document_id"])
        assert [each.status for each in packet.documents] == ["missing"] * 4 + ["ready"]
        for each, said in zip(packet.documents, ("base64", "loopback", "blobs_url", "are gone"), strict=False):
            assert said in each.reason, each
        assert len((await show_document(product.app, packet.id)).gaps) == 4


async def test_bytes_that_vanish_are_a_gap(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_with_worker(database_url, tmp_path) as product:
        await product.app.pause(queue="documents")
        number = (await accept(product, "torn", {"a.txt": b"The weir is of oak.", "b.txt": b"The weir is of ash."})).id
        [row] = await rows(
            product,
            "select key from penstock.blobs join penstock.versions on blob_id = blobs.id "
            "join penstock.documents on documents.id = document_id where name = 'torn!/a.txt'",
        )
        await product.store.remove(row["key"])
        await product.app.resume(queue="documents")
        over = await until_over(product, number)
        assert (over.status, over.pages) == ("ready", 1)
        [gap] = over.gaps
        assert "a.txt is not in it" in gap["reason"]


async def test_more_pages_than_a_document_may_have_fail_with_a_sentence(
    database_url: DatabaseUrl, tmp_path: Path
) -> None:
    """A packet is a document: all of its pages count."""
    async with product_with_worker(database_url, tmp_path, limits={"pages": 5}) as product:
        number = (await accept(product, "long", {f"{name}.pdf": pdf("a", "b", "c") for name in "ab"})).id
        over = await until_over(product, number)
        assert over.status == "failed"
        assert "limits.pages" in (over.error or {})["message"]


async def test_too_many_or_none_are_refused(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with Product(database_url=database_url, home=tmp_path, pool={"size": 4}) as product:
        await create_collection(product.app, "papers")
        with pytest.raises(BadValue, match="at least one document"):
            await accept(product, "none", {})
        with pytest.raises(BadValue, match=r"201 documents, more than 200 \(packet\.documents\)"):
            await accept(product, "many", {f"{number}.txt": b"x" for number in range(201)})
        assert await list_documents(product.app) == []


async def test_what_one_of_several_fetches_raises_keeps_its_class(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """A server that is busy is named in the message's failure, and what it did give is not fetched again."""
    async with open_site() as site:
        site.pages = {"/a.txt": reply(b"The weir is of oak."), "/b.txt": reply(status="503 Busy")}
        settings = {"fetch": {"ports": str(site.port), "private": "127.0.0.1"}, "packet": {"fetch_at_once": 1}}
        source = {"sources": {"orders": SOURCE | {"makes": "packet"}}}
        async with product_with_worker(database_url, tmp_path, **settings, **source) as product:
            documents = [{"url": site.url(f"/{name}.txt")} for name in "ab"]
            await product.inbox.receive("orders", [SourceMessage("a", {"documents": documents})])
            later = "select error ->> 'type' as type, error ->> 'step' as step from penstock.jobs where state = 'later'"
            async with asyncio.timeout(20):
                while not (failed := await rows(product, later)):  # noqa: ASYNC110  no event for SQL
                    await asyncio.sleep(0.05)
            assert dict(failed[0]) == {"type": "FetchFailed", "step": "fetch 2"}
            site.pages["/b.txt"] = reply(b"The weir is of ash.")
            await rows(product, "update penstock.test_clock set shift = shift + interval '1 minute'")
            [row] = await until_settled(product)
            assert row["state"] == "taken"
            assert sum("GET /a.txt" in request for request in site.requests) == 1
