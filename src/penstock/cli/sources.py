"""`penstock sources`: list and check sources of documents. `penstock inbox`: list and retry their messages."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from asyncpg import Record

from penstock.cli.session import Json, Most, ask, ask_product, group, print_json, print_table, shortened
from penstock.documents import LARGEST, count_messages, find_message, list_messages, list_sources, load_message
from penstock.engine import Penstock
from penstock.engine.inspect import make_ready
from penstock.errors import NotFound
from penstock.text import counted

inbox_app = group("List the messages of sources and retry failed ones.")
sources_app = group("List and check the sources of documents.")


@sources_app.command("list")
def list_all(as_json: Json = False) -> None:
    """List the sources with their counts and their last error."""

    async def read(penstock: Penstock) -> list[dict[str, Any]]:
        rows = await penstock.database.pool.repeat(list_sources, tenant=penstock.settings.tenant)
        known = {row["name"]: dict(row) for row in rows}
        chosen = penstock.settings.sources
        names = sorted({*known, *chosen})
        counts = await penstock.database.pool.repeat(count_messages, sources=names, tenant=penstock.settings.tenant)
        found = []
        for name in names:
            settings = chosen.get(name)
            facts = {**known.get(name, {"name": name}), **{what: counts[name][what] for what in ("waiting", "failed")}}
            facts["received"] = max(facts.get("received", 0), counts[name]["received"])
            facts["position"] = json.loads(facts["position"]) if facts.get("position") else None
            kind = (
                {"type": settings.type, "makes": settings.makes, "collection": settings.collection} if settings else {}
            )
            found.append({**facts, "configured": settings is not None, **kind})
        return found

    found = ask(read)
    if as_json:
        print_json({"sources": found})
        return
    if not found:
        typer.echo("No source exists: add [sources.NAME] to penstock.toml.")
        return
    print_table(
        ("source", "type", "received", "waiting", "failed", "last answer", "last error"), map(_source_cells, found)
    )


@sources_app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="Name of the source, as in [sources.NAME].")], as_json: Json = False
) -> None:
    """Check whether a source answers, and show what would be taken from it. Changes nothing.

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


@inbox_app.command("list")
def list_inbox(
    source: Annotated[str | None, typer.Option(help="List messages of this source.")] = None,
    state: Annotated[str | None, typer.Option(help="List messages in this state: waiting, taken, failed.")] = None,
    after: Annotated[int, typer.Option(help="List messages with a larger id.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the messages by id."""

    async def read(penstock: Penstock) -> list[dict[str, Any]]:
        tenant = penstock.settings.tenant
        return await penstock.database.pool.repeat(
            list_messages, tenant=tenant, source=source, state=state, after=after, most=limit
        )

    found = ask(read)
    if as_json:
        print_json({"messages": found})
        return
    if not found:
        typer.echo("No message matches.")
        return
    columns = ("id", "source", "message", "state", "document", "repeats", "error")
    print_table(columns, map(_message_cells, found))


def _message_cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["id"],
        row["source"],
        shortened(row["message_id"]),
        row["state"],
        row["document_id"],
        row["repeats"] or "",
        shortened((row["error"] or {}).get("message")),
    )


@inbox_app.command("retry")
def retry(
    messages: Annotated[list[str], typer.Argument(metavar="MESSAGE...", help="Ids, or source/message.")],
    as_json: Json = False,
) -> None:
    """Retry failed messages."""

    async def again(penstock: Penstock) -> list[int]:
        done = []
        for row in [await _find(penstock, message) for message in messages]:
            async with penstock.transaction() as tx:
                done += [row["id"]] if await make_ready(tx, [row["job_id"]]) else []
        return done

    done = ask(again)
    if as_json:
        print_json({"retried": done})
    else:
        typer.echo(f"{len(done)} of {counted(len(messages), 'message')} queued again.")


async def _find(penstock: Penstock, reference: str) -> Record:
    tenant = penstock.settings.tenant
    if reference.isascii() and reference.isdecimal():
        message: int | None = min(int(reference), LARGEST)
    else:
        message = await find_message(penstock, reference, tenant=tenant)
    row = None if message is None else await penstock.database.pool.repeat(load_message, message=message)
    if row is None or row["tenant"] != tenant:
        raise NotFound(
            f"Message {reference} does not exist. `penstock inbox list --state failed` shows the failed ones."
        )
    return row
