"""`penstock crawls`: crawl a web site into a collection; list, show and stop crawls.

`start` needs no API. A running worker does the work; without one, the command itself does, until the crawl has ended and its
documents are prepared.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from penstock.cli.session import (
    DEFAULT,
    Create,
    Into,
    Json,
    Most,
    ask,
    ask_product,
    console,
    group,
    print_facts,
    print_json,
    print_table,
    report,
    shortened,
    target_collection,
    worker_for,
)
from penstock.documents import LARGEST, watch_changes
from penstock.engine import Penstock
from penstock.errors import DatabaseTrouble, NotFound
from penstock.knowledge.crawl import (
    CRAWL,
    Crawl,
    CrawlPage,
    begin_crawl,
    explain_crawl,
    list_crawl_pages,
    list_crawls,
    show_crawl,
    stop_crawl,
    tell_counts,
)
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.product import Product

POLL_EVERY = 0.5  # seconds, without a notification
SHOWN = 20  # pages that were skipped or failed
PAGE = 1000  # crawls of one query

app = group("Crawl web sites; list, show and stop crawls.")

CrawlRef = Annotated[str, typer.Argument(metavar="CRAWL", help="Id, or URL of its first page.")]


@app.command()
def start(
    url: Annotated[str, typer.Argument(metavar="URL", help="URL of the first page.")],
    collection: Into = DEFAULT,
    create: Create = False,
    depth: Annotated[int | None, typer.Option(help="Links to follow from the first page; 0: none.")] = None,
    max_pages: Annotated[int | None, typer.Option(help="Maximum number of pages to request.")] = None,
    hosts: Annotated[list[str] | None, typer.Option("--hosts", help="Further host to crawl; repeatable.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the crawl has ended and its documents are prepared.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Start a crawl of a web site into a collection."""
    if not as_json:
        report(f"Crawling {url} …")

    async def crawl(product: "Product") -> tuple[bool, Crawl, list[CrawlPage]]:
        tenant = product.settings.tenant
        into = await target_collection(product.app, collection, create=create)
        begun = await begin_crawl(product.app, url, into, depth=depth, max_pages=max_pages, hosts=hosts or ())
        if wait:
            await _follow(product, begun.id, quiet=as_json)
        found = await show_crawl(product.app, begun.id, tenant=tenant)
        return begun.created, found, await _not_taken(product.app, found)

    created, found, pages = ask_product(crawl)
    if as_json:
        print_json(found.answer() | {"created": created, "not_taken": [_facts(page) for page in pages]})
    elif not wait:
        verb = "has started" if created else "is already running"
        typer.echo(f"Crawl {found.id} of {found.url} {verb}: penstock crawls show {found.id}")
    else:
        _report(found, pages)
    if wait and found.state != "done":
        raise typer.Exit(1)


async def _follow(product: "Product", crawl: int, *, quiet: bool) -> None:
    """Wait until it has ended and its documents are prepared. After an interruption, a worker or the same command goes on."""
    with _display(quiet=quiet) as show:
        async with worker_for(product, CRAWL), watch_changes(product.app.database) as changed:
            while True:
                with suppress(DatabaseTrouble):  # it passes: poll again
                    found = await show_crawl(product.app, crawl, tenant=product.settings.tenant)
                    show(found)
                    if found.is_over and not found.unprepared:
                        return
                await changed.wait(POLL_EVERY)


@contextmanager
def _display(*, quiet: bool) -> Iterator[Callable[[Crawl], None]]:
    """A bar on a terminal, lines elsewhere."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,} pages known"),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task("crawling", total=1)

        def show(found: Crawl) -> None:
            what = f"preparing {counted(found.unprepared, 'document')}" if found.is_over else tell_counts(found)
            progress.update(task, description=what, completed=found.known - found.waiting, total=max(found.known, 1))

        yield show


def _lines() -> Callable[[Crawl], None]:
    shown = ""

    def show(found: Crawl) -> None:
        nonlocal shown
        line = f"{found.known - found.waiting:,} of {counted(found.known, 'known page')}: {tell_counts(found)}"
        if line != shown:
            shown = line
            typer.echo(f"  {line}", err=True)

    return show


async def _not_taken(penstock: Penstock, found: Crawl) -> list[CrawlPage]:
    """Failed ones first."""
    pages: list[CrawlPage] = []
    for state in ("failed", "skipped"):
        if len(pages) < SHOWN:
            most = SHOWN - len(pages)
            pages += await list_crawl_pages(penstock, found.id, state=state, most=most, tenant=found.tenant)
    return pages


@app.command("list")
def list_all(
    after: Annotated[int, typer.Option(help="List crawls with a larger id.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the crawls by id."""

    async def read(penstock: Penstock) -> list[Crawl]:
        return await list_crawls(penstock, after=after, most=limit, tenant=penstock.settings.tenant)

    found = ask(read)
    if as_json:
        print_json({"crawls": [each.answer() for each in found]})
    elif not found:
        typer.echo("No crawl exists: `penstock crawls start URL` starts one.")
    else:
        columns = ("id", "state", "collection", "url", "kept", "skipped", "failed", "waiting")
        print_table(columns, (_cells(each) for each in found))


def _cells(crawl: Crawl) -> tuple[object, ...]:
    counts = (crawl.kept, crawl.skipped, crawl.failed, crawl.waiting)
    return (crawl.id, crawl.state, crawl.collection, shortened(crawl.url), *counts)


@app.command("show")
def show(reference: CrawlRef, as_json: Json = False) -> None:
    """Show a crawl: its state, its counts and the pages that it skipped."""

    async def read(penstock: Penstock) -> tuple[Crawl, list[CrawlPage], str]:
        found = await find_crawl(penstock, reference)
        explained = await explain_crawl(penstock, found.id, tenant=penstock.settings.tenant)
        return found, await _not_taken(penstock, found), explained.sentence

    found, pages, sentence = ask(read)
    if as_json:
        print_json(found.answer() | {"sentence": sentence, "not_taken": [_facts(page) for page in pages]})
        return
    _report(found, pages)
    typer.echo(sentence)


@app.command("stop")
def stop(reference: CrawlRef, as_json: Json = False) -> None:
    """Stop a crawl. Pages that it has kept stay."""

    async def end(penstock: Penstock) -> Crawl:
        found = await find_crawl(penstock, reference)
        return await stop_crawl(penstock, found.id, tenant=penstock.settings.tenant)

    found = ask(end)
    if as_json:
        print_json(found.answer())
    else:
        typer.echo(f"Crawl {found.id} is stopped: {tell_counts(found)}.")


async def find_crawl(penstock: Penstock, reference: str) -> Crawl:
    """By id, or the newest of a URL."""
    tenant = penstock.settings.tenant
    if reference.isascii() and reference.isdecimal():
        return await show_crawl(penstock, min(int(reference), LARGEST), tenant=tenant)
    newest, after = None, 0
    while page := await list_crawls(penstock, after=after, most=PAGE, tenant=tenant):
        newest = next((each for each in reversed(page) if each.url.rstrip("/") == reference.rstrip("/")), newest)
        after = page[-1].id
    if newest is None:
        raise NotFound(f"Crawl {reference} does not exist. `penstock crawls list` shows all.")
    return newest


def _report(found: Crawl, pages: list[CrawlPage]) -> None:
    print_facts(
        {
            "crawl": f"{found.id} ({found.url})",
            "collection": found.collection,
            "state": found.state,
            "because": found.reason,
            "pages": tell_counts(found),
            "left out": f"{counted(found.left_out, 'link')} beyond {found.max_pages:,} pages" if found.left_out else "",
        }
    )
    if pages:
        total = found.failed + found.skipped
        typer.echo(f"Skipped or failed: {total:,}" + (f", the first {SHOWN}:" if total > SHOWN else ""))
        for page in pages:
            console().print(f"  {page.state}  {shortened(page.url, 120)}: {page.reason}", soft_wrap=True)


def _facts(page: CrawlPage) -> dict[str, Any]:
    return {"url": page.url, "depth": page.depth, "state": page.state, "reason": page.reason}
