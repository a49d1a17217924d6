"""`penstock extract` and `penstock facts`: have a collection read by a language model, and see what a document says."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from penstock.cli.asking import Json, ask, console, print_json
from penstock.cli.search import one_line
from penstock.engine.wording import counted

if TYPE_CHECKING:
    from penstock.knowledge.extraction import Status
    from penstock.knowledge.facts import ShownFact
    from penstock.pipelines import Product


def extract(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION")],
    again: Annotated[bool, typer.Option("--again", help="Ask about everything again.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until all is read.")] = True,
    keep: Annotated[
        bool | None, typer.Option("--keep/--no-keep", help="Read new versions by themselves from now on, or no more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read facts, entities and relations out of the documents of a collection, as far as that was not done yet."""
    from penstock.cli.extracting import count_dead, follow, look, tell
    from penstock.cli.opening import ask_product
    from penstock.documents import find_collection

    async def do(product: "Product") -> "tuple[Status, int, int]":
        chosen = await find_collection(product.app, collection, tenant=product.settings.tenant)
        jobs = await product.extracting.ask(chosen, again=again, keep=keep)
        if wait and jobs:
            await follow(product, chosen, jobs, as_json=as_json)
        return await look(product, chosen), len(jobs), await count_dead(product, jobs)

    status, asked, failed = ask_product(do)
    if as_json:
        print_json(status.answer() | {"asked": asked, "failed": failed})
    else:
        typer.echo(tell(status))
        if not wait and asked:
            typer.echo(f"{counted(asked, 'document')} will be read.")
        if failed:
            typer.echo(
                f"{counted(failed, 'document')} could not be read: `penstock dead list` has the reasons.", err=True
            )
    if failed or (wait and status.partial):
        raise typer.Exit(1)


def facts(
    document: Annotated[int, typer.Argument(metavar="DOCUMENT", min=1, help="Its number.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 100,
    as_json: Json = False,
) -> None:
    """Show what was read in a document, each with the document's own words."""
    from penstock.documents import show_document
    from penstock.engine import Penstock
    from penstock.knowledge.facts import list_facts

    async def look(penstock: Penstock) -> "list[ShownFact]":
        await show_document(penstock, document, tenant=penstock.settings.tenant)
        return await penstock.database.pool.repeat(lambda session: list_facts(session, document, most=limit))

    found = ask(look)
    if as_json:
        print_json({"document": document, "facts": [each.answer() for each in found]})
        return
    if not found:
        typer.echo("There are no facts of it: `penstock extract COLLECTION` reads them.")
    for each in found:
        print_fact(each)


def print_fact(fact: "ShownFact", number: str = "", passage: str = "") -> None:
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
