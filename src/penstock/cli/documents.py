"""`penstock documents …`: look at documents, and change what becomes of them. Each is named by its number, its name, or
collection/name."""

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from penstock.cli.asking import Json, ask, print_facts, print_json, print_table, shortened
from penstock.cli.display import size
from penstock.cli.history import tell_history
from penstock.documents import Document, explain_document, find_document, list_documents, read_text
from penstock.engine import Penstock
from penstock.engine.wording import counted

app = typer.Typer(help="List, show, retry, cancel and delete documents.", no_args_is_help=True, rich_markup_mode=None)

Reference = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Its number, its name, or collection/name.")]
References = Annotated[list[str], typer.Argument(metavar="DOCUMENT...", help="Numbers, names, or collection/name.")]


@app.command("list")
def list_all(
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Only in this one.")] = None,
    status: Annotated[str | None, typer.Option(help="Only these: queued, processing, ready, failed, deleted.")] = None,
    parent: Annotated[int | None, typer.Option(help="Only what was inside of the document of this number.")] = None,
    after: Annotated[int, typer.Option(help="Only documents with a larger number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """List the documents by number."""
    found = ask(
        lambda penstock: list_documents(
            penstock,
            collection=collection,
            status=status,
            parent=parent,
            after=after,
            most=limit + 1,
            tenant=penstock.settings.tenant,
        )
    )
    more, shown = len(found) > limit, found[:limit]
    if as_json:
        print_json({"documents": [document.answer() for document in shown], "more": more})
        return
    if not shown:
        typer.echo("No document matches.")
        return
    print_table(("id", "status", "collection", "name", "size", "pages", "chunks", "remark"), map(_cells, shown))
    if more:
        typer.echo(f"There are more: penstock documents list --after {shown[-1].id}", err=True)


def _cells(document: Document) -> tuple[object, ...]:
    where = (document.id, document.status, document.collection, document.name, size(document.size))
    return (*where, document.pages, document.chunks, shortened(_remark(document)))


def _remark(document: Document) -> str:
    if document.error:
        return str(document.error.get("message", ""))
    if document.step:
        return document.step
    return counted(len(document.gaps), "gap") if document.gaps else ""


@app.command()
def show(reference: Reference, as_json: Json = False) -> None:
    """Show one document: why it is as it is, and what is known of it."""

    async def look(penstock: Penstock) -> tuple[Document, str]:
        document = await find_document(penstock, reference, tenant=penstock.settings.tenant)
        return document, (await explain_document(penstock, document.id, tenant=penstock.settings.tenant)).sentence

    document, sentence = ask(look)
    facts = document.answer()
    if as_json:
        print_json(facts | {"why": sentence})
        return
    typer.echo(sentence)
    texts = ("metadata", "facts", "progress")
    plain = {key: value for key, value in facts.items() if key not in {"error", "gaps", *texts}}
    print_facts(plain | {key: json.dumps(facts[key], ensure_ascii=False) for key in texts if facts[key]})
    if document.gaps:
        typer.echo()
        print_table(("page", "missing because"), ((gap.get("page"), gap.get("reason")) for gap in document.gaps))


@app.command()
def text(reference: Reference) -> None:
    """Print the text of a document, as search has it."""

    terminal = sys.stdout.isatty()

    async def read(penstock: Penstock) -> None:
        document = await find_document(penstock, reference, tenant=penstock.settings.tenant)
        async for piece in read_text(penstock, document.id, tenant=penstock.settings.tenant):
            sys.stdout.write(_harmless(piece) if terminal else piece)
        sys.stdout.write("\n")

    ask(read)


def _harmless(text: str) -> str:
    """What a document says must not command the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)


app.command("history")(tell_history)


@app.command()
def retry(references: References, as_json: Json = False) -> None:
    """Give failed documents another chance."""
    from penstock.documents import retry_document

    _change(references, retry_document, "retried", as_json=as_json)


@app.command()
def cancel(references: References, as_json: Json = False) -> None:
    """Stop preparing documents; they end as failed, cancelled by hand."""
    from penstock.documents import cancel_document

    _change(references, cancel_document, "cancelled", as_json=as_json)


@app.command()
def delete(
    references: References,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete documents, and what was inside of them; search does not see them from now on."""
    from penstock.documents import delete_document

    if not yes:
        found = ask(lambda penstock: _find_all(penstock, references))
        names = "\n".join(f"  {document.id} {document.collection}/{document.name}" for document in found)
        typer.confirm(f"{names}\nDelete {counted(len(found), 'document')}?", abort=True, err=True)
    _change(references, delete_document, "deleted", as_json=as_json)


async def _find_all(penstock: Penstock, references: list[str]) -> list[Document]:
    """All of them are found before any is changed: a wrong name changes nothing."""
    found = [await find_document(penstock, reference, tenant=penstock.settings.tenant) for reference in references]
    return list({document.id: document for document in found}.values())


def _change(references: list[str], change: Callable[..., Awaitable[Any]], done: str, *, as_json: bool) -> None:
    from penstock.cli.opening import ask_product

    async def do(penstock: Penstock) -> list[Document]:
        documents = await _find_all(penstock, references)
        for document in documents:
            await change(penstock, document.id, tenant=penstock.settings.tenant)
        return documents

    documents = ask_product(lambda product: do(product.app))
    if as_json:
        print_json({done: [document.id for document in documents]})
    else:
        for document in documents:
            typer.echo(f"Document {document.id} ({document.name}) is {done}.")
