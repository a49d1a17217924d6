"""`penstock delete`, `penstock restore`, `penstock receipt`: take documents out, bring them back, and see what was removed."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.asking import Json, ask, print_facts, print_json, print_table
from penstock.documents import (
    Document,
    Matching,
    Receipt,
    delete_document,
    find_document,
    find_matching,
    list_receipts,
    remove_deleted,
    restore_document,
    show_document,
    show_receipt,
)
from penstock.documents.deletion import delete_page
from penstock.engine import Penstock
from penstock.engine.wording import counted
from penstock.errors import BadSetting, CannotStart, NotFound
from penstock.settings.values import format_duration

if TYPE_CHECKING:
    from penstock.pipelines import Product

BITE = 1000
LOOK_EVERY = 0.2  # seconds
KIND = "remove_documents"

References = Annotated[
    list[str] | None, typer.Argument(metavar="[DOCUMENT]...", help="Numbers, names, or collection/name.")
]


@dataclass(frozen=True)
class Outcome:
    """What `delete` has done."""

    documents: list[int]
    restorable: str = ""  # for how long
    receipts: Sequence[Receipt] = ()


def delete(
    references: References = None,
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Those of this one that match.")] = None,
    where: Annotated[str | None, typer.Option(metavar="JSON", help="Whose metadata contain this.")] = None,
    media_types: Annotated[
        list[str] | None, typer.Option("--type", help="Of this media type; several are possible.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="That came at this time or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="That came before this time.")] = None,
    name: Annotated[str | None, typer.Option(metavar="GLOB", help="With a name like this, such as '2019/*'.")] = None,
    status: Annotated[str | None, typer.Option(help="In this status: queued, processing, ready, failed.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of the collection.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until everything is removed and looked for.")] = False,
    as_json: Json = False,
) -> None:
    """Delete documents, by name or by what is known of them; search does not see them from now on."""
    from penstock.cli.opening import ask_product

    conditions: dict[str, Any] = {
        "metadata": _metadata(where),
        "media_types": media_types or [],
        "since": _moment("--since", since),
        "until": _moment("--until", until),
        "name_glob": name,
        "status": status,
    }
    if bool(references) == (collection is not None):
        raise BadSetting("Name documents, or a --collection with conditions: one of the two.")
    if references and (every or any(conditions.values())):
        raise BadSetting("Conditions need a --collection: without one, name the documents.")
    wanted = Matching(collection or "", every=every, **conditions)
    if not yes:
        _confirm(references, wanted)
    outcome = ask_product(lambda product: _delete(product, references, wanted, wait=wait))
    _tell(outcome, as_json=as_json)


def _confirm(references: list[str] | None, wanted: Matching) -> None:
    """By a name nothing is asked: who types it means it. A filter may match more than was thought."""
    if references:
        return
    found = ask(lambda penstock: find_matching(penstock, wanted, most=BITE + 1, tenant=penstock.settings.tenant))
    number = f"more than {BITE:,} documents" if len(found) > BITE else counted(len(found), "document")
    if found:
        typer.confirm(f"Delete {number} of {wanted.collection}, with what is inside of them?", abort=True, err=True)


async def _delete(product: "Product", references: list[str] | None, wanted: Matching, *, wait: bool) -> Outcome:
    app = product.app
    documents: list[int] = []
    if references:
        # All of them are found before any is deleted: a wrong name changes nothing.
        found = [await find_document(app, each, tenant=app.settings.tenant) for each in references]
        documents = list(dict.fromkeys(each.id for each in found))
        for document in documents:
            await delete_document(app, document, tenant=app.settings.tenant)
    else:
        while numbers := await find_matching(app, wanted, most=BITE, tenant=app.settings.tenant):
            await delete_page(app.database, numbers, "deleted by a filter")
            documents += numbers
    grace = app.settings.documents.restore_within
    if grace is not None:
        return Outcome(documents, format_duration(grace))
    return Outcome(documents, receipts=await _wait(product, documents) if wait else ())


async def _wait(product: "Product", documents: list[int]) -> list[Receipt]:
    """Until all receipts are verified; without a worker the work is done here."""
    from penstock.cli.watching import sql

    app = product.app
    receipts: list[Receipt] = []
    for document in documents:
        while True:
            receipt = await _find_receipt(app, document)
            if receipt is not None and receipt.verified_at is not None:
                receipts.append(receipt)
                break
            if await app.database.pool.repeat(lambda session: sql.is_served.value(session, kind=KIND)):
                await asyncio.sleep(LOOK_EVERY)
            elif not await remove_deleted(app.database, product.store, rest=0):
                await _refuse_waiting(app, document)
    return receipts


async def _refuse_waiting(app: Penstock, document: int) -> None:
    """Nobody works, and there is nothing that could be done here."""
    receipt = await _find_receipt(app, document)
    if receipt is None or receipt.verified_at is None:
        raise CannotStart(
            f"Document {document} is deleted, and waits for a job that a worker has left: start one with `penstock worker`, "
            "and it is removed."
        )


async def _find_receipt(app: Penstock, document: int) -> Receipt | None:
    try:
        return await show_receipt(app, document, tenant=app.settings.tenant)
    except NotFound:
        return None


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        facts: dict[str, Any] = {"deleted": outcome.documents, "restore_within": outcome.restorable or None}
        print_json(facts | {"receipts": [receipt.answer() for receipt in outcome.receipts]})
        return
    number = counted(len(outcome.documents), "document")
    typer.echo(f"{number} deleted, with what was inside: search finds nothing of it any more.")
    if outcome.restorable:
        typer.echo(f"`penstock restore` brings back what was deleted, for {outcome.restorable}.")
    elif outcome.receipts:
        typer.echo("Everything is removed, and nothing was found when looking again: penstock receipt --list")


def restore(
    references: Annotated[list[int], typer.Argument(metavar="DOCUMENT...", help="Their numbers.")],
    as_json: Json = False,
) -> None:
    """Bring back deleted documents and what was deleted with them, while documents.restore_within lasts."""
    from penstock.cli.opening import ask_product

    async def do(app: Penstock) -> list[Document]:
        for document in references:
            await show_document(app, document, tenant=app.settings.tenant)
        return [await restore_document(app, document, tenant=app.settings.tenant) for document in references]

    restored = ask_product(lambda product: do(product.app))
    if as_json:
        print_json({"restored": [document.answer() for document in restored]})
        return
    for document in restored:
        typer.echo(f"Document {document.id} ({document.name}) is {document.status} again.")


def receipt(
    document: Annotated[int | None, typer.Argument(metavar="DOCUMENT", help="The number of what was deleted.")] = None,
    every: Annotated[bool, typer.Option("--list", help="All receipts.")] = False,
    after: Annotated[int, typer.Option(help="With --list: of documents with a larger number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="With --list: at most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """Show what was removed of a deleted document, and that somebody looked again."""
    if (document is None) != every:
        raise BadSetting("Name the number of a document, or say --list: one of the two.")
    if document is not None:
        number = document
        _show(ask(lambda penstock: show_receipt(penstock, number, tenant=penstock.settings.tenant)), as_json=as_json)
        return
    found = ask(lambda penstock: list_receipts(penstock, after=after, most=limit + 1, tenant=penstock.settings.tenant))
    more, shown = len(found) > limit, found[:limit]
    if as_json:
        print_json({"receipts": [each.answer() for each in shown], "more": more})
        return
    if not shown:
        typer.echo("Nothing was removed yet.")
        return
    rows = ((each.document, each.collection, each.name, _at(each.deleted_at), _at(each.verified_at)) for each in shown)
    print_table(("id", "collection", "name", "deleted", "verified"), rows)
    if more:
        typer.echo(f"There are more: penstock receipt --list --after {shown[-1].document}", err=True)


def _show(found: Receipt, *, as_json: bool) -> None:
    facts = found.answer()
    if as_json:
        print_json(facts)
        return
    said = f"was removed at {_at(found.removed_at)} UTC"
    looked = (
        f"and nothing was found at {_at(found.verified_at)} UTC" if found.verified_at else "and was not looked for yet"
    )
    typer.echo(f"Document {found.document} ({found.collection}/{found.name}) {said}, {looked}.")
    texts = ("contents", "removed", "verified")
    print_facts(facts | {name: json.dumps(facts[name], ensure_ascii=False) for name in texts if facts[name]})


def _at(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSetting(f'--where is not JSON ({error}): use an object such as {{"client": "Acme"}}.') from None
    if not isinstance(value, dict):
        raise BadSetting('--where is no JSON object: use one such as {"client": "Acme"}.')
    return value


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadSetting(f"{option} {text} is no time: use one such as 2026-11-16 or 2026-11-16T08:00:00Z.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
