"""`penstock extract`: extract facts from a collection with a language model. `penstock facts list`: the facts of a document.

`extract` follows its jobs until all have ended, works on them if no worker does, and reports what they wait for.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from penstock.cli.search import one_line
from penstock.cli.session import (
    CollectionName,
    DocumentRef,
    Json,
    Most,
    ask,
    ask_product,
    console,
    group,
    print_json,
    report,
    worker_for,
)
from penstock.database import statements
from penstock.documents import Collection, find_collection, find_document, watch_changes
from penstock.engine import Penstock
from penstock.engine.inspect import Explanation
from penstock.knowledge.facts import ExtractionStatus, ShownFact, list_facts, show_status
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.product import Product

sql = statements(__file__)

facts_app = group("List the facts that were extracted from documents.")

POLL_EVERY = 0.5  # seconds
EXPLAIN_AFTER = 5.0  # seconds without progress: then it reports what the jobs wait for


def extract(
    collection: CollectionName,
    again: Annotated[bool, typer.Option("--again", help="Extract again from documents that are done.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all documents are done.")] = True,
    watch: Annotated[
        bool | None, typer.Option("--watch/--no-watch", help="Extract from new versions automatically, or no longer.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Extract facts, entities and relations from a collection."""
    if not as_json:
        report(f"Extracting facts from {collection} …")

    async def do(product: "Product") -> tuple[ExtractionStatus, int, int]:
        chosen = await find_collection(product.app, collection, tenant=product.settings.tenant)
        jobs = await product.facts.ask(chosen, again=again, keep=watch)
        if wait and jobs:
            await _follow(product, chosen, jobs, as_json=as_json)
        return await _status(product, chosen), len(jobs), await _count_dead(product, jobs)

    status, asked, failed = ask_product(do)
    if as_json:
        print_json(status.answer() | {"asked": asked, "failed": failed})
    else:
        typer.echo(_sentence(status))
        if not wait and asked:
            typer.echo(f"{counted(asked, 'document')} queued for extraction.")
        if failed:
            typer.echo(f"{counted(failed, 'document')} failed: `penstock dead list` shows the reasons.", err=True)
    if failed or (wait and status.partial):
        raise typer.Exit(1)


async def _follow(product: "Product", collection: Collection, jobs: Sequence[int], *, as_json: bool) -> None:
    """Wait until none of the jobs is live."""
    reported = ("", "")
    left, moved = len(jobs), time.monotonic()
    with _line(as_json=as_json) as show:
        async with worker_for(product, "extract"), watch_changes(product.app.database) as changed:
            while left:
                if (now := await _count(product, jobs)) < left:
                    left, moved = now, time.monotonic()
                show(_sentence(await _status(product, collection)))
                if left and time.monotonic() - moved > EXPLAIN_AFTER:
                    reason, moved = await _why(product, jobs), time.monotonic()
                    if reason is not None and (reason.subject, reason.because) != reported:
                        report(reason.sentence)
                        reported = (reason.subject, reason.because)
                if left:
                    await changed.wait(POLL_EVERY)


async def _status(product: "Product", collection: Collection) -> ExtractionStatus:
    digest = product.facts.config.digest
    return await product.app.database.pool.repeat(lambda session: show_status(session, collection, digest))


def _sentence(status: ExtractionStatus) -> str:
    partial = f", {status.partial} only in part" if status.partial else ""
    cost = f", cost {status.cost:.4f}" if status.cost else ""
    return (
        f"{status.extracted} of {counted(status.documents, 'document')} done{partial}: {counted(status.facts, 'fact')} from "
        f"{counted(status.windows, 'window')}, {status.rejected} rejected{cost}."
    )


async def _count(product: "Product", jobs: Sequence[int]) -> int:
    return int(await product.app.database.pool.repeat(lambda session: sql.count_alive.value(session, jobs=list(jobs))))


async def _count_dead(product: "Product", jobs: Sequence[int]) -> int:
    return int(await product.app.database.pool.repeat(lambda session: sql.count_dead.value(session, jobs=list(jobs))))


async def _why(product: "Product", jobs: Sequence[int]) -> Explanation | None:
    """Explain the oldest live job: a window without an answer, or a version that was not begun."""
    job = await product.app.database.pool.repeat(lambda session: sql.oldest_alive.value(session, jobs=list(jobs)))
    return None if job is None else await product.app.why(job)


@contextmanager
def _line(*, as_json: bool) -> Iterator[Callable[[str], None]]:
    """On a terminal only."""
    if not sys.stderr.isatty() or as_json:
        yield lambda _: None
        return
    with Console(stderr=True, highlight=False).status("extracting …") as shown:
        yield shown.update


@facts_app.command("list")
def list_all(reference: DocumentRef, limit: Most = 100, as_json: Json = False) -> None:
    """List the facts of a document, each with its quote."""

    async def read(penstock: Penstock) -> tuple[int, list[ShownFact]]:
        document = (await find_document(penstock, reference, tenant=penstock.settings.tenant)).id
        return document, await penstock.database.pool.repeat(lambda session: list_facts(session, document, most=limit))

    document, found = ask(read)
    if as_json:
        print_json({"document": document, "facts": [each.answer() for each in found]})
        return
    if not found:
        typer.echo("No facts were extracted from it: `penstock extract COLLECTION` extracts them.")
    for each in found:
        print_fact(each)


def print_fact(fact: ShownFact, number: str = "", passage: str = "") -> None:
    """The statement, then the quote and its position."""
    head = Text(f"{number}").append(one_line(fact.statement), style="bold")
    things = ", ".join(f"{each.name} ({each.type})" for each in fact.entities)
    console().print(head.append(f"  {fact.confidence:.2f}", style="dim"))
    shown = Text("   “").append(one_line(fact.quote), style="yellow").append("”")
    if passage and (context := one_line(passage)) != one_line(fact.quote):
        shown.append(f"\n   … {context}", style="dim")
    console().print(shown)
    where = Text("   ").append(fact.name, style="cyan").append(f", page {fact.page}, {fact.start}–{fact.stop}")
    console().print(where.append(f"; {one_line(things)}" if things else ""))
