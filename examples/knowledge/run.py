"""From pages to facts with their sources, in a temporary home: `.venv/bin/python examples/knowledge/run.py`.

Three pages are added. A stand-in for a language model (examples/models) reads them; what it says is checked against the text
(it invents one fact of each page, which is rejected), and found again by a question. One of the pages tries to give orders to
the model. Exit code 1 when anything comes out otherwise than it says here.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from penstock.documents import Upload, create_collection, delete_document, find_collection, list_documents
from penstock.knowledge.facts.entities import list_entities
from penstock.knowledge.facts.facts import FactHit, Question, find_facts
from penstock.knowledge.facts.runs import ExtractionStatus, show_status
from penstock.product import Product
from penstock.search import CollectionRef

HERE = Path(__file__).parent
SERVER = HERE.parent / "models/server.py"
QUESTION = "when was the runner replaced?"
WITHIN = 55.0  # seconds


class Unexpected(Exception):
    """A result differs from what the example promises."""


async def main(home: Path) -> None:
    async with model_server() as url:
        llm = {"url": url, "model": "stand-in", "price_in": 0.15, "price_out": 0.6}
        settings: dict[str, Any] = {"home": home, "llms": {"main": llm}, "log": {"level": "error"}}
        async with Product(role="worker", **settings) as product:
            stop = asyncio.Event()
            work = asyncio.create_task(product.app.work(stop=stop, concurrency=product.slots))
            try:
                async with asyncio.timeout(WITHIN):
                    await add_pages(product)
                    tell_status(await extract(product))
                    await tell_entities(product)
                    hit = await ask(product)
                    tell_hit(hit)
                    await forget(product, hit)
            finally:
                stop.set()
                await work


async def add_pages(product: Product) -> None:
    await create_collection(product.app, "plants")
    for name, content in pages().items():

        async def pieces(content: bytes = content) -> AsyncIterator[bytes]:
            yield content

        await product.intake.accept(Upload("plants", name, pieces()))
    while any(not each.is_over for each in await list_documents(product.app, collection="plants")):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    print(f"{len(await list_documents(product.app, collection='plants'))} pages are ready.")


def pages() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((HERE / "pages").iterdir())}


async def extract(product: Product) -> ExtractionStatus:
    collection = await find_collection(product.app, "plants")
    for job in await product.facts.ask(collection):
        await product.app.result(job, timeout=WITHIN)
    digest = product.facts.config.digest
    return await product.app.database.pool.repeat(show_status, collection, digest)


async def ask(product: Product) -> FactHit:
    collection = await find_collection(product.app, "plants")
    ref = CollectionRef(collection.id, collection.model, collection.search_language)
    found = await find_facts(product.app.database, product.models, Question(QUESTION, [ref]))
    check(bool(found.hits), "the search found nothing")
    return found.hits[0]


async def forget(product: Product, hit: FactHit) -> None:
    """What is deleted cannot be found from that moment on."""
    await delete_document(product.app, hit.document)
    again = await ask(product)
    check(again.document != hit.document, "a deleted document still answers")
    print(f"\n{hit.name} is deleted. The next best answer is of {again.name}.")


# -- results --------------------------------------------------------------------------------------------------------


def tell_status(status: ExtractionStatus) -> None:
    print(
        f"{status.extracted} of {status.documents} pages are read: {status.facts} facts from {status.windows} windows, "
        f"{status.rejected} rejected, cost {status.cost:.6f}."
    )
    check((status.extracted, status.partial) == (3, 0), "not all pages were read")
    check(status.facts >= 15, f"there are only {status.facts} facts")
    check(status.rejected == status.windows, "what the stand-in has invented was taken")


async def tell_entities(product: Product) -> None:
    collection = await find_collection(product.app, "plants")
    found = await product.app.database.pool.repeat(list_entities, collection.id)
    print("\nWhat they are about:")
    for each in found:
        print(f"  {each.type:<13} {each.name} ({each.facts})")
    works = [each for each in found if each.name.endswith("Orchard Turbine Works")]
    check(len(works) == 1, "the works are there more than once, or not at all")


def tell_hit(hit: FactHit) -> None:
    print(f"\n{QUESTION}\n  {hit.statement}")
    print(f"  “{hit.quote}”")
    print(f"  {hit.name}, page {hit.page}, characters {hit.start} to {hit.stop}; confidence {hit.confidence:.2f}")
    check("2019" in hit.statement, "the answer is not the year")
    check(hit.quote in hit.passage, "the passage does not have the quote")


def check(as_promised: bool, otherwise: str) -> None:
    if not as_promised:
        raise Unexpected(otherwise)


# -- around it --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def model_server() -> AsyncIterator[str]:
    """The address that the stand-in prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        if process.stdout is None:
            raise Unexpected("the stand-in says nothing")
        line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()
        check(line.startswith("http"), "the stand-in did not start")
        yield line
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@contextmanager
def temporary_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="penstock-knowledge-"))
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
