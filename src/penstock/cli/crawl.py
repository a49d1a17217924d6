"""`penstock crawl URL`: take a web site into a collection; `penstock crawl list|show|stop` look after crawls.

It needs no API. When a worker is alive, the work is the worker's; when none is, it is done here, until the crawl and its
documents are over.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from typing_extensions import override

from penstock.cli.session import (
    Into,
    Json,
    Most,
    ask,
    ask_product,
    console,
    print_facts,
    print_json,
    print_table,
    shortened,
    worker_for,
)
from penstock.documents import ensure_collection, watch_changes
from penstock.engine import Penstock
from penstock.errors import DatabaseTrouble
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

LOOK_EVERY = 0.5  # seconds, without a notification
SHOWN = 20  # pages that were not taken
BEGIN = "begin"


class UrlFirst(typer.core.TyperGroup):
    """`penstock crawl https://…` is `penstock crawl begin https://…`."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in {"--help", "-h"}:
            args = [BEGIN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=UrlFirst,
    help="Take a web site into a collection: penstock crawl URL [--depth N] [--max-pages M].",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Number = Annotated[int, typer.Argument(metavar="CRAWL", min=1, max=2**63 - 1, help="Its number.")]


@app.command(BEGIN)
def begin(
    url: Annotated[str, typer.Argument(metavar="URL", help="The first page.")],
    collection: Into = "default",
    depth: Annotated[int | None, typer.Option(help="How many links it goes from the first page; 0: none.")] = None,
    max_pages: Annotated[int | None, typer.Option(help="How many pages it asks for, at most.")] = None,
    hosts: Annotated[
        list[str] | None, typer.Option("--hosts", help="Another host that belongs to it; again for more.")
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="End as soon as it has begun.")] = False,
    as_json: Json = False,
) -> None:
    """Begin a crawl, and wait for its end."""

    async def run(product: "Product") -> tuple[bool, Crawl, list[CrawlPage]]:
        tenant = product.settings.tenant
        into = await ensure_collection(product.app, collection, tenant=tenant)
        begun = await begin_crawl(product.app, url, into, depth=depth, max_pages=max_pages, hosts=hosts or ())
        if not no_wait:
            await _follow(product, begun.id, quiet=as_json)
        found = await show_crawl(product.app, begun.id, tenant=tenant)
        return begun.created, found, await _not_taken(product.app, found)

    created, found, pages = ask_product(run)
    if as_json:
        print_json(found.answer() | {"created": created, "not_taken": [_facts(page) for page in pages]})
    elif no_wait:
        verb = "has begun" if created else "is under way already"
        typer.echo(f"Crawl {found.id} of {found.url} {verb}: penstock crawl show {found.id}")
    else:
        _report(found, pages)
    if not no_wait and found.state != "done":
        raise typer.Exit(1)


async def _follow(product: "Product", crawl: int, *, quiet: bool) -> None:
    """Until it is over and its documents are prepared. Who is interrupted leaves it to others, or to the same command again."""
    with _display(quiet=quiet) as show:
        async with worker_for(product, CRAWL), watch_changes(product.app.database) as changed:
            while True:
                with suppress(DatabaseTrouble):  # it passes: look again
                    found = await show_crawl(product.app, crawl, tenant=product.settings.tenant)
                    show(found)
                    if found.is_over and not found.unprepared:
                        return
                await changed.wait(LOOK_EVERY)


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
    said = ""

    def show(found: Crawl) -> None:
        nonlocal said
        line = f"{found.known - found.waiting:,} of {counted(found.known, 'known page')}: {tell_counts(found)}"
        if line != said:
            said = line
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
    after: Annotated[int, typer.Option(help="Only crawls with a larger number.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the crawls by number."""

    async def look(penstock: Penstock) -> list[Crawl]:
        return await list_crawls(penstock, after=after, most=limit, tenant=penstock.settings.tenant)

    found = ask(look)
    if as_json:
        print_json({"crawls": [each.answer() for each in found]})
    elif not found:
        typer.echo("There is no crawl: penstock crawl URL --collection NAME")
    else:
        columns = ("id", "state", "collection", "url", "kept", "skipped", "failed", "waiting")
        print_table(columns, (_cells(each) for each in found))


def _cells(crawl: Crawl) -> tuple[object, ...]:
    counts = (crawl.kept, crawl.skipped, crawl.failed, crawl.waiting)
    return (crawl.id, crawl.state, crawl.collection, shortened(crawl.url), *counts)


@app.command("show")
def show(crawl: Number, as_json: Json = False) -> None:
    """Show a crawl: why it is where it is, and the pages that it did not take."""

    async def look(penstock: Penstock) -> tuple[Crawl, list[CrawlPage], str]:
        tenant = penstock.settings.tenant
        found = await show_crawl(penstock, crawl, tenant=tenant)
        told = await explain_crawl(penstock, crawl, tenant=tenant)
        return found, await _not_taken(penstock, found), told.sentence

    found, pages, sentence = ask(look)
    if as_json:
        print_json(found.answer() | {"sentence": sentence, "not_taken": [_facts(page) for page in pages]})
        return
    _report(found, pages)
    typer.echo(sentence)


@app.command("stop")
def stop(crawl: Number, as_json: Json = False) -> None:
    """Stop a crawl; what it has taken stays."""
    found = ask(lambda penstock: stop_crawl(penstock, crawl, tenant=penstock.settings.tenant))
    if as_json:
        print_json(found.answer())
    else:
        typer.echo(f"Crawl {found.id} is stopped: {tell_counts(found)}.")


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
        typer.echo(f"Not taken: {total:,}" + (f", of which {SHOWN} are" if total > SHOWN else ""))
        for page in pages:
            console().print(f"  {page.state}  {shortened(page.url, 120)}: {page.reason}", soft_wrap=True)


def _facts(page: CrawlPage) -> dict[str, Any]:
    return {"url": page.url, "depth": page.depth, "state": page.state, "reason": page.reason}
