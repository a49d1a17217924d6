"""One packet from a message to an answer, in a temporary home: `.venv/bin/python examples/packet/run.py`.

Another system sends a message with four documents. They become one PDF, whose pages are told apart and found; one of the four
cannot be read, on purpose, and is a gap. Exit code 1 when anything comes out otherwise than it says here.
"""

import asyncio
import base64
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from papers import papers

from penstock.documents import Document, SourceMessage, find_collection, show_documents
from penstock.documents.packets import ShownPacket, show_packets
from penstock.product import Product
from penstock.search import CollectionRef, Hit, Query, find

SOURCE = {"type": "webhook", "secret": "for the demo", "makes": "packet", "collection": "permits"}
QUESTION = "which bearing is worn?"
WITHIN = 55.0  # seconds


class Unexpected(Exception):
    """A result differs from what the example promises."""


async def main(home: Path) -> None:
    settings = {"home": home, "sources": {"board": SOURCE}, "log": {"level": "error"}}
    async with Product(role="worker", **settings) as product:
        stop = asyncio.Event()
        work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots))
        try:
            async with asyncio.timeout(WITHIN):
                number = await send(product)
                document, packet = await until_over(product, number)
                tell(document, packet)
                tell_hit(await ask(product), packet)
        finally:
            stop.set()
            await work


async def send(product: Product) -> int:
    """The message twice, as senders do: it is one packet, with the id of the message."""
    documents = [{"name": name, "content": base64.b64encode(content).decode()} for name, content in papers().items()]
    message = SourceMessage("permit-7", {"name": "permits/7", "documents": documents, "metadata": {"year": 2024}})
    first = await product.inbox.receive("board", [message])
    again = await product.inbox.receive("board", [message])
    print(f"Message permit-7 with {len(documents)} documents: {first.new} new, and {again.repeats} repeat of it.")
    async with product.app.database.pool.session() as session:
        number: int = await session.fetchval("select id from penstock.inbox where message_id = 'permit-7'")
    return number


async def until_over(product: Product, number: int) -> tuple[Document, ShownPacket]:
    while True:
        documents = await show_documents(product.app, [number])
        if documents and documents[0].is_over:
            break
        await asyncio.sleep(0.1)
    async with product.app.database.pool.session() as session:  # only now: what was read before may have changed
        return documents[0], (await show_packets(session, [number]))[number]


async def ask(product: Product) -> Hit:
    collection = await find_collection(product.app, "permits")
    ref = CollectionRef(collection.id, collection.model, collection.search_language)
    hits = (await find(product.app.database, product.models, Query(QUESTION, [ref]))).hits
    check(bool(hits), "the search found nothing")
    return hits[0]


# -- results --------------------------------------------------------------------------------------------------------


def tell(document: Document, packet: ShownPacket) -> None:
    print(f"\nPacket {document.id} ({document.name}) is {document.status}: one PDF of {document.pages} pages.")
    for each in packet.documents:
        where = "not in it" if each.first_page is None else f"from page {each.first_page}, {each.pages} in all"
        print(f"  {each.place + 1}. {each.name:<16} {each.status:<7} {where}")
    print("Its parts:")
    for part in packet.parts:
        print(f"  {part.label:<6} pages {part.first_page} to {part.last_page}, confidence {part.confidence:.2f}")
    print("Only partly readable:")
    for gap in document.gaps:
        print(f"  {gap['reason']}")
    check(document.status == "ready", f"the packet is {document.status}")
    check([each.status for each in packet.documents] == ["ready"] * 3 + ["failed"], "another document failed")
    told = [(part.label, part.first_page, part.last_page) for part in packet.parts]
    check(told == [("cover", 1, 1), ("A", 2, 3), ("B", 4, 4)], f"its parts are {told}")
    check(len(document.gaps) == 1, "it has other gaps than one")


def tell_hit(hit: Hit, packet: ShownPacket) -> None:
    print(f"\n{QUESTION}\n  {' '.join(hit.text.split())[:90]}")
    print(f"  {hit.name}, page {hit.page}; page {hit.packet_page} of the packet {hit.packet}")
    check((hit.packet, hit.packet_page) == (packet.id, 4), "the answer is not on page 4")


def check(as_promised: bool, otherwise: str) -> None:
    if not as_promised:
        raise Unexpected(otherwise)


@contextmanager
def temporary_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="penstock-packet-"))
    home.chmod(0o711)  # for root: the server runs as another user, and needs access
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    began = time.monotonic()
    try:
        with temporary_home() as place:
            asyncio.run(main(place))
    except (Unexpected, TimeoutError) as error:
        sys.exit(f"The example failed: {error or f'it took more than {WITHIN:.0f} s'}.")
    print(f"\nIt took {time.monotonic() - began:.0f} s. Its folder is removed.")
