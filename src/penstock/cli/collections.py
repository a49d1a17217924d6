"""`penstock collections`: list, create, show, set, rename, delete, and reindex into another vector index.

A collection that gets another model or index keeps the present one until the new one is complete; `--wait` follows that.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from penstock.cli.session import (
    CollectionName,
    Json,
    Most,
    Yes,
    ask,
    ask_product,
    group,
    print_facts,
    print_json,
    print_table,
    report,
    worker_for,
)
from penstock.documents import (
    REEMBED,
    REINDEX,
    Collection,
    change_collection,
    create_collection,
    delete_collection,
    find_collection,
    list_collections,
    restore_collection,
    watch_changes,
)
from penstock.text import counted, utc

if TYPE_CHECKING:
    from penstock.product import Product


POLL_EVERY = 0.5  # seconds, without a notification

app = group("List, create, change and delete collections.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.")]
Model = Annotated[
    str | None, typer.Option(help="Embedding model. A job re-embeds existing documents before it takes effect.")
]
ChunkSize = Annotated[int | None, typer.Option(help="Maximum length of a chunk in characters.")]
ChunkOverlap = Annotated[int | None, typer.Option(help="Characters that a chunk shares with the previous one.")]
OcrLanguage = Annotated[str | None, typer.Option(help="Language of its scans, such as en.")]
Index = Annotated[
    Literal["postgres", "qdrant"] | None, typer.Option(help="Vector index; `collections reindex` changes it.")
]
SearchLanguage = Annotated[
    str | None, typer.Option(help="Language for stemming; can change only while the collection is empty.")
]


@app.command("list")
def list_all(
    after: Annotated[str, typer.Option(help="List names after this one.")] = "",
    limit: Most = 100,
    as_json: Json = False,
) -> None:
    """List the collections by name."""
    found = ask(
        lambda penstock: list_collections(penstock, after=after, most=limit + 1, tenant=penstock.settings.tenant)
    )
    more, shown = len(found) > limit, found[:limit]
    if as_json:
        print_json({"collections": [each.answer() for each in shown], "more": more})
        return
    if not shown:
        typer.echo("No collection exists: `penstock collections create NAME` or `penstock add PATH` makes one.")
        return
    columns = ("name", "documents", "chunks", "model", "chunk_size", "chunk_overlap", "ocr_language", "search_language")
    rows = (
        [_describe_model(each) if column == "model" else getattr(each, column) for column in columns] for each in shown
    )
    print_table(columns, rows)
    if more:
        typer.echo(f"More follow: add --after {shown[-1].name!r}.", err=True)


@app.command()
def create(
    name: Name,
    model: Model = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    ocr_language: OcrLanguage = None,
    search_language: SearchLanguage = None,
    index: Index = None,
    as_json: Json = False,
) -> None:
    """Create a collection. Options default to the settings."""
    chosen = _given(model, chunk_size, chunk_overlap, ocr_language, search_language)
    chosen |= {"index": index} if index else {}
    made = ask(lambda penstock: create_collection(penstock, name, tenant=penstock.settings.tenant, **chosen))
    _print(made, f"The collection {made.name} is created.", as_json=as_json)


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show a collection's settings, counts and progress of a change."""
    _print(ask(lambda penstock: find_collection(penstock, name, tenant=penstock.settings.tenant)), "", as_json=as_json)


@app.command("set")
def change(
    name: Name,
    *,
    model: Model = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    ocr_language: OcrLanguage = None,
    search_language: SearchLanguage = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the collection uses the model.")] = False,
    as_json: Json = False,
) -> None:
    """Change a collection's settings. They apply to documents prepared from now on."""

    chosen = _given(model, chunk_size, chunk_overlap, ocr_language, search_language)

    async def do(product: "Product") -> Collection:
        if not chosen:
            return await find_collection(product.app, name, tenant=product.settings.tenant)
        changed = await change_collection(product.app, name, tenant=product.settings.tenant, **chosen)
        return await _follow(product, changed, as_json=as_json) if wait else changed

    if model is not None and wait and not as_json:
        report(f"Embedding the collection {name} by {model} …")
    found = ask_product(do)
    _print(found, "", as_json=as_json)
    if wait and found.next_model is not None:
        raise typer.Exit(1)


@app.command()
def rename(
    name: Name, new_name: Annotated[str, typer.Argument(metavar="NEW", help="New name.")], as_json: Json = False
) -> None:
    """Rename a collection."""
    renamed = ask(
        lambda penstock: change_collection(penstock, name, new_name=new_name, tenant=penstock.settings.tenant)
    )
    if as_json:
        print_json(renamed.answer())
    else:
        typer.echo(f"The collection {name} is called {renamed.name} now.")


@app.command()
def delete(
    name: Name,
    now: Annotated[bool, typer.Option("--now", help="Remove it at once, without a chance to restore it.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete a collection with all its documents.

    It can be restored for documents.restore_within (7 days unless set), and is removed after that.
    """
    if not yes:
        found = ask(lambda penstock: find_collection(penstock, name, tenant=penstock.settings.tenant))
        final = " This cannot be undone." if now else ""
        question = f"Delete the collection {name} with its {counted(found.documents, 'document')}?{final}"
        typer.confirm(question, abort=True, err=True)
    gone = ask(lambda penstock: delete_collection(penstock, name, now=now, tenant=penstock.settings.tenant))
    if as_json:
        print_json({"collection": name} | asdict(gone))
        return
    typer.echo(f"Collection {name} is deleted, with {counted(gone.deleted, 'document')}.")
    if gone.restorable_until is None:
        typer.echo("This cannot be undone.")
    else:
        typer.echo(f"Until {utc(gone.restorable_until)} this can be undone: penstock collections restore {name}")


@app.command()
def restore(name: Name, as_json: Json = False) -> None:
    """Restore a deleted collection and its documents."""
    restored = ask_product(lambda product: restore_collection(product.app, name, tenant=product.app.settings.tenant))
    if as_json:
        print_json(restored.answer())
    else:
        typer.echo(f"Collection {name} is restored: {counted(restored.documents, 'document')} ready.")


def _given(
    model: str | None,
    chunk_size: int | None,
    chunk_overlap: int | None,
    ocr_language: str | None,
    search_language: str | None,
) -> dict[str, Any]:
    settings = {
        "model": model,
        "chunk_size": chunk_size,
        "chunk_overlap": chunk_overlap,
        "ocr_language": ocr_language,
        "search_language": search_language,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _print(collection: Collection, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(collection.answer())
        return
    if sentence:
        typer.echo(sentence)
    apart = {"next_model", "next_job", "reembedded", "to_reembed", "is_stuck", "has_points"}
    apart |= {"next_index", "index_job", "reindexed", "to_reindex"}
    facts = {key: value for key, value in collection.answer().items() if key not in apart}
    print_facts(facts | {"model": _describe_model(collection), "index": _describe_index(collection)})


def _describe_model(collection: Collection) -> str:
    if collection.next_model is None:
        return collection.model
    done, total = collection.reembedded or 0, collection.to_reembed or 0
    stands = f", job {collection.next_job} is stuck" if collection.is_stuck else ""
    return f"{collection.model}, becoming {collection.next_model}: {done:,} of {counted(total, 'chunk')}{stands}"


def _describe_index(collection: Collection) -> str:
    """The vector index, and the progress of a change to another."""
    if collection.next_index is None:
        return collection.index
    done, total = collection.reindexed or 0, collection.to_reindex or 0
    stands = f", job {collection.index_job} is stuck" if collection.is_stuck else ""
    return f"{collection.index}, becoming {collection.next_index}: {done:,} of {counted(total, 'chunk')}{stands}"


# -- another model or index -----------------------------------------------------------------------------------------


@app.command()
def reindex(
    collection: CollectionName,
    into: Annotated[Literal["postgres", "qdrant"], typer.Option(help="New vector index.")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until searches use the new index.")] = True,
    as_json: Json = False,
) -> None:
    """Move a collection's vectors into another index. The present one answers until the new one is complete."""

    async def do(product: "Product") -> Collection:
        changed = await change_collection(product.app, collection, tenant=product.settings.tenant, index=into)
        return await _follow(product, changed, as_json=as_json) if wait else changed

    if not as_json:
        report(f"Moving the vectors of the collection {collection} to {into} …")
    found = ask_product(do)
    if as_json:
        print_json(found.answer())
    elif found.next_index is None:
        typer.echo(f"The collection {found.name} is searched in {found.index}.")
    else:
        typer.echo(f"The collection {found.name}: {_describe_index(found)}.")
    if found.trouble:
        typer.echo(found.trouble, err=True)
    if wait and found.index != into:
        raise typer.Exit(1)


async def _follow(product: "Product", collection: Collection, *, as_json: bool) -> Collection:
    """Wait until the change is complete or stuck; the collection at the end."""
    with _bar(as_json=as_json) as show:
        async with (
            worker_for(product, REINDEX if collection.next_index else REEMBED),
            watch_changes(product.app.database) as changed,
        ):
            while True:
                found = await find_collection(product.app, collection.name, tenant=collection.tenant)
                show(found)
                if found.is_stuck or (found.next_model is None and found.next_index is None):
                    return found
                await changed.wait(POLL_EVERY)


@contextmanager
def _bar(*, as_json: bool) -> Iterator[Callable[[Collection], None]]:
    """On a terminal only."""
    if not sys.stderr.isatty() or as_json:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} of {task.total:,} chunks"))
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task("embedding", total=1)

        def show(found: Collection) -> None:
            if found.next_model is not None:
                progress.update(task, completed=found.reembedded or 0, total=max(found.to_reembed or 0, 1))
            elif found.next_index is not None:
                done, total = found.reindexed or 0, max(found.to_reindex or 0, 1)
                progress.update(task, description="indexing", completed=done, total=total)

        yield show
