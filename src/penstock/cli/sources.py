"""`penstock sources`: the sources of documents. `penstock inbox`: their messages, and retrying those that have failed."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from penstock.cli.session import Json, Most, ask, ask_product, print_json, print_table, shortened
from penstock.documents import count_messages, list_messages, list_sources, load_message
from penstock.engine import Penstock
from penstock.engine.inspect import make_ready
from penstock.errors import NotFound
from penstock.text import counted

inbox_app = typer.Typer(help="Messages of sources.", rich_markup_mode=None)
sources_app = typer.Typer(help="Where documents come from by themselves.", rich_markup_mode=None)


@sources_app.callback(invoke_without_command=True)
def sources(context: typer.Context, as_json: Json = False) -> None:
    """List the sources: how far they were read, what waits, and what keeps them from it."""
    if context.invoked_subcommand is not None:
        return

    async def look(penstock: Penstock) -> list[dict[str, Any]]:
        rows = await penstock.database.pool.repeat(list_sources, tenant=penstock.settings.tenant)
        known = {row["name"]: dict(row) for row in rows}
        chosen = penstock.settings.sources
        names = sorted({*known, *chosen})
        counted = await penstock.database.pool.repeat(count_messages, sources=names, tenant=penstock.settings.tenant)
        found = []
        for name in names:
            settings = chosen.get(name)
            facts = {**known.get(name, {"name": name}), **{what: counted[name][what] for what in ("waiting", "failed")}}
            facts["received"] = max(facts.get("received", 0), counted[name]["received"])
            facts["position"] = json.loads(facts["position"]) if facts.get("position") else None
            kind = (
                {"type": settings.type, "makes": settings.makes, "collection": settings.collection} if settings else {}
            )
            found.append({**facts, "configured": settings is not None, **kind})
        return found

    found = ask(look)
    if as_json:
        print_json({"sources": found})
        return
    if not found:
        typer.echo("There is no source: add [sources.NAME] to penstock.toml.")
        return
    print_table(
        ("source", "type", "received", "waiting", "failed", "last answer", "trouble"), map(_source_cells, found)
    )


@sources_app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="The source, as in [sources.NAME].")], as_json: Json = False
) -> None:
    """Check whether a source answers, and show what would be taken from it; changes nothing.

    Exit code 1 if it does not answer.
    """
    from penstock.product import Product
    from penstock.sources import SourceCheck, Sources

    async def check(product: Product) -> SourceCheck:
        return await Sources(product, [name]).check(name)

    found = ask_product(check)
    if as_json:
        print_json({"source": name, "answers": True} | asdict(found))
        return
    count = f"at least {counted(found.new, 'new message')}" if found.more else counted(found.new, "new message")
    examples = f" ({', '.join(shortened(each, 40) for each in found.examples)})" if found.examples else ""
    typer.echo(f"Source {name} answers: {count}{examples}.")
    for finding in found.findings:
        typer.echo(finding)


def _source_cells(facts: dict[str, Any]) -> tuple[object, ...]:
    polled = facts.get("polled_at")
    return (
        facts["name"],
        facts.get("type", "not configured here"),
        facts.get("received", 0),
        facts.get("waiting", 0),
        facts.get("failed", 0),
        f"{polled:%Y-%m-%d %H:%M:%S}" if polled else "never",
        shortened(facts.get("error")),
    )


@inbox_app.callback(invoke_without_command=True)
def inbox(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="Only of this one.")] = None,
    state: Annotated[str | None, typer.Option(help="Only these: waiting, taken, failed.")] = None,
    after: Annotated[int, typer.Option(help="Only messages with a larger number.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the messages by number."""
    if context.invoked_subcommand is not None:
        return

    async def look(penstock: Penstock) -> list[dict[str, Any]]:
        tenant = penstock.settings.tenant
        return await penstock.database.pool.repeat(
            list_messages, tenant=tenant, source=source, state=state, after=after, most=limit
        )

    found = ask(look)
    if as_json:
        print_json({"messages": found})
        return
    if not found:
        typer.echo("No message matches.")
        return
    columns = ("id", "source", "message", "state", "document", "came again", "because")
    print_table(columns, map(_message_cells, found))


def _message_cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["id"],
        row["source"],
        shortened(row["message_id"], 40),
        row["state"],
        row["document_id"],
        row["repeats"] or "",
        shortened((row["error"] or {}).get("message")),
    )


@inbox_app.command("retry")
def retry(
    messages: Annotated[list[int], typer.Argument(metavar="MESSAGE...", help="Their numbers.")], as_json: Json = False
) -> None:
    """Give failed messages another chance."""

    async def again(penstock: Penstock) -> list[int]:
        done = []
        for number in messages:
            row = await penstock.database.pool.repeat(load_message, message=number)
            if row is None or row["tenant"] != penstock.settings.tenant:
                raise NotFound(f"There is no message {number}: penstock inbox --state failed")
            async with penstock.transaction() as tx:
                done += [number] if await make_ready(tx, [row["job_id"]]) else []
        return done

    done = ask(again)
    if as_json:
        print_json({"retried": done})
    else:
        typer.echo(f"{len(done)} of {len(messages)} are tried again.")
