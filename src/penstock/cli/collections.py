"""`penstock collections …`: what there is, how each prepares its documents, and how far one is with another model."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.asking import Json, ask, print_facts, print_json, print_table
from penstock.documents import (
    Collection,
    change_collection,
    create_collection,
    delete_collection,
    find_collection,
    list_collections,
)
from penstock.engine.wording import counted

if TYPE_CHECKING:
    from penstock.pipelines import Product

app = typer.Typer(help="List, make, change and delete collections.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME")]
Model = Annotated[
    str | None, typer.Option(help="The model of its embeddings; with documents in it, a job builds that first.")
]
ChunkSize = Annotated[int | None, typer.Option(help="Characters of a chunk, at most.")]
ChunkOverlap = Annotated[int | None, typer.Option(help="Characters that a chunk shares with the one before.")]
OcrLanguage = Annotated[str | None, typer.Option(help="The language of its scans, such as en.")]
Index = Annotated[
    Literal["postgres", "qdrant"] | None, typer.Option(help="Where its vectors are searched; `reindex` changes it.")
]
SearchLanguage = Annotated[str | None, typer.Option(help="Whose word endings search ignores; only while it is empty.")]


@app.command("list")
def list_all(
    after: Annotated[str, typer.Option(help="Only those behind this name.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 100,
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
        typer.echo("There is no collection: `penstock collections create NAME` or `penstock add PATH` makes one.")
        return
    columns = ("name", "documents", "chunks", "model", "chunk_size", "chunk_overlap", "ocr_language", "search_language")
    rows = ([_tell_model(each) if column == "model" else getattr(each, column) for column in columns] for each in shown)
    print_table(columns, rows)
    if more:
        typer.echo(f"There are more: penstock collections list --after {shown[-1].name!r}", err=True)


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
    """Make a collection; what is not said is taken from the settings."""
    chosen = _given(model, chunk_size, chunk_overlap, ocr_language, search_language)
    chosen |= {"index": index} if index else {}
    made = ask(lambda penstock: create_collection(penstock, name, tenant=penstock.settings.tenant, **chosen))
    _tell(made, f"The collection {made.name} is there.", as_json=as_json)


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show how a collection prepares its documents, and how far it is with another model."""
    _tell(ask(lambda penstock: find_collection(penstock, name, tenant=penstock.settings.tenant)), "", as_json=as_json)


@app.command("set")
def change(
    name: Name,
    *,
    model: Model = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    ocr_language: OcrLanguage = None,
    search_language: SearchLanguage = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until the collection has the model.")] = False,
    as_json: Json = False,
) -> None:
    """Change how documents are prepared from now on; without options, show how it is."""
    from penstock.cli.opening import ask_product
    from penstock.cli.reembedding import follow

    chosen = _given(model, chunk_size, chunk_overlap, ocr_language, search_language)

    async def do(product: "Product") -> Collection:
        if not chosen:
            return await find_collection(product.app, name, tenant=product.settings.tenant)
        changed = await change_collection(product.app, name, tenant=product.settings.tenant, **chosen)
        return await follow(product, changed, as_json=as_json) if wait else changed

    found = ask_product(do)
    _tell(found, "", as_json=as_json)
    if wait and found.next_model is not None:
        raise typer.Exit(1)


@app.command()
def rename(name: Name, new_name: Annotated[str, typer.Argument(metavar="NEW")], as_json: Json = False) -> None:
    """Give a collection another name; its documents stay as they are."""
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete a collection with all its documents."""
    if not yes:
        found = ask(lambda penstock: find_collection(penstock, name, tenant=penstock.settings.tenant))
        typer.confirm(
            f"Delete the collection {name} with its {counted(found.documents, 'document')}?", abort=True, err=True
        )
    deleted = ask(lambda penstock: delete_collection(penstock, name, tenant=penstock.settings.tenant))
    if as_json:
        print_json({"collection": name, "deleted": deleted})
    else:
        typer.echo(f"The collection {name} is deleted, with {counted(deleted, 'document')}.")


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


def _tell(collection: Collection, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(collection.answer())
        return
    if sentence:
        typer.echo(sentence)
    apart = {"next_model", "next_job", "reembedded", "to_reembed", "is_stuck", "has_points"}
    apart |= {"next_index", "index_job", "reindexed", "to_reindex"}
    facts = {key: value for key, value in collection.answer().items() if key not in apart}
    print_facts(facts | {"model": _tell_model(collection), "index": tell_index(collection)})


def _tell_model(collection: Collection) -> str:
    if collection.next_model is None:
        return collection.model
    done, total = collection.reembedded or 0, collection.to_reembed or 0
    stands = f", job {collection.next_job} stands still" if collection.is_stuck else ""
    return f"{collection.model}, becoming {collection.next_model}: {done:,} of {counted(total, 'chunk')}{stands}"


def tell_index(collection: Collection) -> str:
    """Where its vectors are searched, and how far it is with another index."""
    if collection.next_index is None:
        return collection.index
    done, total = collection.reindexed or 0, collection.to_reindex or 0
    stands = f", job {collection.index_job} stands still" if collection.is_stuck else ""
    return f"{collection.index}, becoming {collection.next_index}: {done:,} of {counted(total, 'chunk')}{stands}"
