"""`penstock search`: find passages or facts, with the words of the question in bold."""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from penstock.cli.session import Json, ask_product, console, print_json

if TYPE_CHECKING:
    from penstock.product import Product
    from penstock.search import CollectionRef, Found, Hit

SNIPPET = 360  # characters of a passage that are shown
LEAD = 60  # of them before the first word of interest
MOST_COLLECTIONS = 1000
SPACES = re.compile(r" {2,}")


def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question, or words.")],
    hits: Annotated[int, typer.Option("-k", min=1, max=100, help="Maximum number of passages.")] = 10,
    collection: Annotated[
        list[str] | None, typer.Option("--collection", "-c", help="Search this collection; repeatable. Default: all.")
    ] = None,
    mode: Annotated[
        Literal["hybrid", "words", "vectors"], typer.Option(help="Match words, meaning (vectors), or both (hybrid).")
    ] = "hybrid",
    facts: Annotated[
        bool, typer.Option("--facts", help="Search facts that were extracted, instead of passages.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find the passages that answer a question."""

    if facts:
        _search_facts(question, hits, collection or [], as_json=as_json)
        return

    found, collections = ask_product(lambda product: _find(product, question, hits, collection or [], mode))
    if as_json:
        print_json(
            {"question": question, "took_ms": round(found.took * 1000, 1), "hits": [asdict(hit) for hit in found.hits]}
        )
        return
    if found.fallback:
        typer.echo(found.fallback, err=True)
    if not collections:
        typer.echo("No collection exists yet: `penstock add PATH` makes one.")
    elif not found.hits:
        typer.echo("Nothing was found.")
    for number, hit in enumerate(found.hits, 1):
        print_hit(number, hit, one_collection=collections == 1)


async def _find(
    product: "Product", question: str, hits: int, names: list[str], mode: Literal["hybrid", "words", "vectors"]
) -> "tuple[Found, int]":
    from penstock.search import Query, find

    refs = await _choose(product, names)
    query = Query(text=question, collections=refs, k=hits, mode=mode)
    return await find(product.app.database, product.models, query, product.qdrant), len(refs)


async def _choose(product: "Product", names: list[str]) -> "list[CollectionRef]":
    from penstock.documents import find_collection, list_collections
    from penstock.search import CollectionRef

    if names:
        chosen = [
            await find_collection(product.app, name, tenant=product.settings.tenant) for name in dict.fromkeys(names)
        ]
    else:
        chosen = await list_collections(product.app, most=MOST_COLLECTIONS, tenant=product.settings.tenant)
    return [CollectionRef(each.id, each.model, each.search_language, each.index) for each in chosen]


def _search_facts(question: str, hits: int, names: list[str], *, as_json: bool) -> None:
    from penstock.cli.knowledge import print_fact
    from penstock.knowledge.facts import FoundFacts, Question, find_facts

    async def find(product: "Product") -> FoundFacts:
        asked = Question(question, await _choose(product, names), hits)
        return await find_facts(product.app.database, product.models, asked)

    found = ask_product(find)
    if as_json:
        print_json(
            {"question": question, "took_ms": round(found.took * 1000, 1), "hits": [hit.answer() for hit in found.hits]}
        )
        return
    if not found.hits:
        typer.echo("No fact was found: `penstock extract COLLECTION` extracts them from documents.")
    for number, hit in enumerate(found.hits, 1):
        print_fact(hit, f"{number}. ", hit.passage)


def print_hit(number: int, hit: "Hit", *, one_collection: bool) -> None:
    """The position on one line, then the text."""
    page = f", page {hit.page}" if hit.page is not None else ""
    if hit.packet_page is not None:
        page += f" (page {hit.packet_page} of packet {hit.packet})"
    where = Text(f"{number}. ").append(hit.name, style="bold cyan").append(page)
    if not one_collection:
        where.append(f" in {hit.collection}")
    where.append(f"  {hit.score:.3f}", style="dim")
    console().print(where)
    body = Text("   ").append_text(snippet(hit.text, hit.highlights))
    console().print(body, soft_wrap=False)


def snippet(text: str, highlights: list[tuple[int, int]]) -> Text:
    """The part of a passage with most of the words, on one line."""
    start = _best_start(text, highlights)
    stop = _last_word(text, start)
    shown = Text("…" if start else "")
    place = start
    for first, last in sorted(highlights):
        if place <= first and last <= stop:
            shown.append(one_line(text[place:first])).append(one_line(text[first:last]), style="bold yellow")
            place = last
    return shown.append(one_line(text[place:stop])).append("…" if stop < len(text) else "")


def _best_start(text: str, highlights: list[tuple[int, int]]) -> int:
    """The start of the snippet with most different words of the question; at a word, or at the start of the passage if near."""
    if len(text) <= SNIPPET or not highlights:
        return 0

    def words(start: int) -> int:
        return len({text[first:last].casefold() for first, last in highlights if start <= first < start + SNIPPET})

    starts = [max(0, first - LEAD) for first, _ in highlights]
    best = min(max(starts, key=lambda start: (words(start), -start)), len(text) - SNIPPET)
    return 0 if best < LEAD else text.find(" ", best - 1) + 1 or best


def _last_word(text: str, start: int) -> int:
    """The end of a snippet: after a word, unless that is very long."""
    stop = start + SNIPPET
    return len(text) if stop >= len(text) else max(text.rfind(" ", start, stop), stop - LEAD)


def one_line(text: str) -> str:
    """Without line ends and control characters: the text of a document must not command the terminal."""
    return SPACES.sub(" ", "".join(char if char.isprintable() else " " for char in text))
