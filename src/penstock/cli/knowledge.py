"""`penstock extract`: extract facts from a collection with a language model. `penstock facts`: the facts of a document.

`extract` follows its jobs until all are over, works on them if no worker does, and reports what they wait for.
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
from penstock.cli.session import CollectionName, Json, Most, ask, ask_product, console, print_json, worker_for
from penstock.database import statements
from penstock.documents import Collection, find_collection, show_document, watch_changes
from penstock.engine import Penstock
from penstock.engine.inspect import Explanation
from penstock.knowledge.facts import ExtractionStatus, ShownFact, list_facts, show_status
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.product import Product

sql = statements(__file__)

LOOK_EVERY = 0.5  # seconds
TELL_AFTER = 5.0  # seconds without progress: then it reports what the jobs wait for


def extract(
    collection: CollectionName,
    again: Annotated[bool, typer.Option("--again", help="Ask about everything again.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until all is read.")] = True,
    keep: Annotated[
        bool | None, typer.Option("--keep/--no-keep", help="Read new versions by themselves from now on, or no more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read facts, entities and relations out of the documents of a collection, as far as that was not done yet."""

    async def do(product: "Product") -> tuple[ExtractionStatus, int, int]:
        chosen = await find_collection(product.app, collection, tenant=product.settings.tenant)
        jobs = await product.facts.ask(chosen, again=again, keep=keep)
        if wait and jobs:
            await _follow(product, chosen, jobs, as_json=as_json)
        return await _look(product, chosen), len(jobs), await _count_dead(product, jobs)

    status, asked, failed = ask_product(do)
    if as_json:
        print_json(status.answer() | {"asked": asked, "failed": failed})
    else:
        typer.echo(_tell(status))
        if not wait and asked:
            typer.echo(f"{counted(asked, 'document')} will be read.")
        if failed:
            typer.echo(
                f"{counted(failed, 'document')} could not be read: `penstock dead list` has the reasons.", err=True
            )
    if failed or (wait and status.partial):
        raise typer.Exit(1)


async def _follow(product: "Product", collection: Collection, jobs: Sequence[int], *, as_json: bool) -> None:
    """Until none of the jobs is alive."""
    told = ("", "")
    left, moved = len(jobs), time.monotonic()
    with _line(as_json=as_json) as show:
        async with worker_for(product, "extract"), watch_changes(product.app.database) as changed:
            while left:
                if (now := await _count(product, jobs)) < left:
                    left, moved = now, time.monotonic()
                show(_tell(await _look(product, collection)))
                if left and time.monotonic() - moved > TELL_AFTER:
                    reason, moved = await _why(product, jobs), time.monotonic()
                    if reason is not None and (reason.subject, reason.because) != told:
                        typer.echo(reason.sentence, err=True)
                        told = (reason.subject, reason.because)
                if left:
                    await changed.wait(LOOK_EVERY)


async def _look(product: "Product", collection: Collection) -> ExtractionStatus:
    digest = product.facts.config.digest
    return await product.app.database.pool.repeat(show_status, collection, digest)


def _tell(status: ExtractionStatus) -> str:
    partial = f", {status.partial} with gaps" if status.partial else ""
    cost = f", cost {status.cost:.4f}" if status.cost else ""
    return (
        f"{status.extracted} of {counted(status.documents, 'document')} read{partial}: {counted(status.facts, 'fact')} from "
        f"{counted(status.windows, 'window')}, {status.rejected} rejected{cost}."
    )


async def _count(product: "Product", jobs: Sequence[int]) -> int:
    return int(await product.app.database.pool.repeat(sql.count_alive.value, jobs=list(jobs)))


async def _count_dead(product: "Product", jobs: Sequence[int]) -> int:
    return int(await product.app.database.pool.repeat(sql.count_dead.value, jobs=list(jobs)))


async def _why(product: "Product", jobs: Sequence[int]) -> Explanation | None:
    """Of the oldest job that is alive: a window without an answer, or a version that was not begun."""
    job = await product.app.database.pool.repeat(sql.oldest_alive.value, jobs=list(jobs))
    return None if job is None else await product.app.why(job)


@contextmanager
def _line(*, as_json: bool) -> Iterator[Callable[[str], None]]:
    """On a terminal only."""
    if not sys.stderr.isatty() or as_json:
        yield lambda _: None
        return
    with Console(stderr=True, highlight=False).status("reading …") as shown:
        yield shown.update


def facts(
    document: Annotated[int, typer.Argument(metavar="DOCUMENT", min=1, help="Its number.")],
    limit: Most = 100,
    as_json: Json = False,
) -> None:
    """Show what was read in a document, each with the document's own words."""

    async def look(penstock: Penstock) -> list[ShownFact]:
        await show_document(penstock, document, tenant=penstock.settings.tenant)
        return await penstock.database.pool.repeat(list_facts, document, most=limit)

    found = ask(look)
    if as_json:
        print_json({"document": document, "facts": [each.answer() for each in found]})
        return
    if not found:
        typer.echo("There are no facts of it: `penstock extract COLLECTION` reads them.")
    for each in found:
        print_fact(each)


def print_fact(fact: ShownFact, number: str = "", passage: str = "") -> None:
    """The statement, then the quote and where it stands."""
    head = Text(f"{number}").append(one_line(fact.statement), style="bold")
    things = ", ".join(f"{each.name} ({each.type})" for each in fact.entities)
    console().print(head.append(f"  {fact.confidence:.2f}", style="dim"))
    shown = Text("   “").append(one_line(fact.quote), style="yellow").append("”")
    if passage and (context := one_line(passage)) != one_line(fact.quote):
        shown.append(f"\n   … {context}", style="dim")
    console().print(shown)
    where = Text("   ").append(fact.name, style="cyan").append(f", page {fact.page}, {fact.start}–{fact.stop}")
    console().print(where.append(f"; {one_line(things)}" if things else ""))
