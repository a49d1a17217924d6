"""`penstock documents`: list, show, text, history, receipt, retry, cancel, dismiss. `penstock delete` and `penstock restore`.

A document is given by its id, its name, or collection/name.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.add.progress import size
from penstock.cli.session import (
    DocumentRef,
    Json,
    Most,
    Yes,
    ask,
    ask_product,
    group,
    print_facts,
    print_json,
    print_table,
    shortened,
)
from penstock.documents import (
    Document,
    Matching,
    Receipt,
    TimelineEntry,
    cancel_document,
    delete_document,
    dismiss_document,
    explain_document,
    find_deleted_document,
    find_document,
    find_matching,
    list_documents,
    list_partly_readable,
    list_receipts,
    read_text,
    remove_deleted,
    restore_document,
    retry_document,
    show_receipt,
    show_timeline,
)
from penstock.documents.deletion import delete_page, restorable_until
from penstock.engine import Penstock, is_served
from penstock.errors import BadSetting, CannotStart, NotFound
from penstock.settings import format_duration
from penstock.text import counted, span, utc

if TYPE_CHECKING:
    from penstock.product import Product

app = group("List, show, retry, cancel and dismiss documents.")

BATCH = 1000  # documents that a filter deletes at once
LISTED = 20  # documents whose ids a sentence has
CHECK_EVERY = 0.2  # seconds, while waiting for receipts
REMOVAL = "remove_documents"  # the kind of the jobs that remove

References = Annotated[list[str], typer.Argument(metavar="DOCUMENT...", help="Ids, names, or collection/name.")]
OptionalReferences = Annotated[
    list[str] | None, typer.Argument(metavar="[DOCUMENT]...", help="Ids, names, or collection/name.")
]


@app.command("list")
def list_all(
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", help="List documents of this collection.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help="List documents in this status: queued, processing, ready, failed, deleted.")
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="List documents that are only partly readable.")] = False,
    parent: Annotated[
        str | None, typer.Option(metavar="DOCUMENT", help="List attachments or archive members of this document.")
    ] = None,
    after: Annotated[int, typer.Option(help="List documents with a larger id.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the documents by id."""

    async def read(penstock: Penstock) -> list[Document]:
        tenant = penstock.settings.tenant
        place: dict[str, Any] = {"collection": collection, "after": after, "most": limit + 1, "tenant": tenant}
        if partial:
            return await list_partly_readable(penstock, **place)
        container = None if parent is None else (await find_document(penstock, parent, tenant=tenant)).id
        return await list_documents(penstock, status=status, parent=container, **place)

    if partial and (status or parent):
        raise BadSetting("--partial cannot be combined with --status or --parent.")
    found = ask(read)
    more, shown = len(found) > limit, found[:limit]
    if as_json:
        print_json({"documents": [document.answer() for document in shown], "more": more})
        return
    if not shown:
        typer.echo("No document matches.")
        return
    print_table(("id", "status", "collection", "name", "size", "pages", "chunks", "remark"), map(_cells, shown))
    if more:
        typer.echo(f"More follow: add --after {shown[-1].id}.", err=True)


def _cells(document: Document) -> tuple[object, ...]:
    where = (document.id, document.status, document.collection, document.name, size(document.size))
    return (*where, document.pages, document.chunks, shortened(_remark(document)))


def _remark(document: Document) -> str:
    if document.error:
        return str(document.error.get("message", ""))
    if document.step:
        return document.step
    return f"partly readable: {_skipped(document)}" if document.gaps else ""


def _skipped(document: Document) -> str:
    pages = {gap["page"] for gap in document.gaps if gap.get("page")}
    return f"{counted(len(pages), 'page')} skipped" if pages else str(document.gaps[0].get("reason", ""))


@app.command()
def show(reference: DocumentRef, as_json: Json = False) -> None:
    """Show a document: its status, the reason, and its details."""

    async def read(penstock: Penstock) -> tuple[Document, str]:
        document = await find_document(penstock, reference, tenant=penstock.settings.tenant)
        return document, (await explain_document(penstock, document.id, tenant=penstock.settings.tenant)).sentence

    document, sentence = ask(read)
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
        print_table(("page", "skipped because"), ((gap.get("page"), gap.get("reason")) for gap in document.gaps))


@app.command()
def text(reference: DocumentRef) -> None:
    """Print the extracted text of a document."""

    terminal = sys.stdout.isatty()

    async def read(penstock: Penstock) -> None:
        document = await find_document(penstock, reference, tenant=penstock.settings.tenant)
        async for piece in read_text(penstock, document.id, tenant=penstock.settings.tenant):
            sys.stdout.write(_harmless(piece) if terminal else piece)
        sys.stdout.write("\n")

    ask(read)


def _harmless(text: str) -> str:
    """Without control characters: the text of a document must not command the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)


@app.command("history")
def show_history(reference: DocumentRef, as_json: Json = False) -> None:
    """Show the history of a document: its events and attempts."""

    async def read(penstock: Penstock) -> list[TimelineEntry]:
        document = await find_document(penstock, reference, tenant=penstock.settings.tenant)
        return await show_timeline(penstock, document.id, tenant=penstock.settings.tenant)

    moments = ask(read)
    if as_json:
        print_json({"events": [each.as_json() for each in moments]})
        return
    print_table(("at", "after", "event", "details"), map(_history_cells, moments))


def _history_cells(moment: TimelineEntry) -> tuple[object, ...]:
    after = "" if moment.after is None else span(moment.after)
    details = _describe_attempt(moment.details) if moment.event == "attempt" else _describe(moment.details)
    return f"{moment.at:%Y-%m-%d %H:%M:%S}", after, moment.event, shortened(details)


def _describe(details: Mapping[str, Any]) -> str:
    return str(details["message"]) if "message" in details else ", ".join(f"{key}: {details[key]}" for key in details)


def _describe_attempt(details: Mapping[str, Any]) -> str:
    took = span(timedelta(seconds=details["seconds"])) if "seconds" in details else "an unknown time"
    error = f": {details['error']}" if details.get("error") else ""
    where = f"{details['number']} of job {details['job']} on {details.get('worker', 'an unknown worker')}"
    return f"{where}: {details['outcome']} after {took}{error}"


@app.command()
def retry(references: References, as_json: Json = False) -> None:
    """Retry failed documents."""
    _change(references, retry_document, "retried", as_json=as_json)


@app.command()
def cancel(references: References, as_json: Json = False) -> None:
    """Stop preparing documents. They end as failed."""
    _change(references, cancel_document, "cancelled", as_json=as_json)


@app.command()
def dismiss(references: References, as_json: Json = False) -> None:
    """Dismiss documents that could not be read. They stay failed."""
    _change(references, dismiss_document, "dismissed", as_json=as_json)


async def _find_all(penstock: Penstock, references: list[str]) -> list[Document]:
    """Find all of them before any is changed: a wrong name changes nothing."""
    found = [await find_document(penstock, reference, tenant=penstock.settings.tenant) for reference in references]
    return list({document.id: document for document in found}.values())


def _change(references: list[str], change: Callable[..., Awaitable[Any]], done: str, *, as_json: bool) -> None:

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


# -- deletion -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeletionResult:
    documents: list[int]
    restorable_until: datetime | None = None
    receipts: Sequence[Receipt] = ()


def delete_documents(
    references: OptionalReferences = None,
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", help="Delete matching documents of this collection.")
    ] = None,
    where: Annotated[str | None, typer.Option(metavar="JSON", help="Whose metadata contains this object.")] = None,
    media_types: Annotated[list[str] | None, typer.Option("--type", help="Of this media type; repeatable.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Uploaded at this time or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Uploaded before this time.")] = None,
    name: Annotated[str | None, typer.Option(metavar="GLOB", help="Whose name matches, such as '2019/*'.")] = None,
    status: Annotated[str | None, typer.Option(help="In this status: queued, processing, ready, failed.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Delete all documents of the collection.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Remove them at once, without a chance to restore them.")] = False,
    yes: Yes = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait until removal is verified; needs --now while documents.restore_within is set."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete documents, by name or by filter.

    Search does not find them from now on. They can be restored for documents.restore_within (7 days unless set), and are
    removed after that.
    """

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
        _confirm(references, wanted, now=now)
    outcome = ask_product(lambda product: _delete(product, references, wanted, now=now, wait=wait))
    _print_outcome(outcome, as_json=as_json)


def _confirm(references: list[str] | None, wanted: Matching, *, now: bool) -> None:
    """Only for a filter, which may match more than was thought."""
    if references:
        return
    found = ask(lambda penstock: find_matching(penstock, wanted, most=BATCH + 1, tenant=penstock.settings.tenant))
    count = f"more than {BATCH:,} documents" if len(found) > BATCH else counted(len(found), "document")
    final = " This cannot be undone." if now else ""
    if found:
        typer.confirm(f"Delete {count} of {wanted.collection}, with attachments?{final}", abort=True, err=True)


async def _delete(
    product: "Product", references: list[str] | None, wanted: Matching, *, now: bool, wait: bool
) -> DeletionResult:
    app, tenant = product.app, product.app.settings.tenant
    window = app.settings.documents.restore_within
    if wait and window and not now:
        raise BadSetting(
            f"--wait waits for the removal, which comes {_length(window)} after the deletion, when the documents cannot be "
            "restored any more: add --now to remove them at once, or leave out --wait."
        )
    documents: list[int] = []
    restorable: datetime | None = None
    if references:
        documents = [found.id for found in await _find_all(app, references)]
        for document in documents:
            restorable = restorable or (await delete_document(app, document, now=now, tenant=tenant)).restorable_until
    else:
        restorable = None if now else await restorable_until(app)
        while found := await find_matching(app, wanted, most=BATCH, tenant=tenant):
            await delete_page(app.database, found, "deleted by a filter", now=now)
            documents += found
    receipts = await _wait(product, documents) if wait else ()
    return DeletionResult(documents, restorable if documents else None, receipts)


def _length(window: timedelta) -> str:
    return counted(window.days, "day") if window == timedelta(days=window.days) else format_duration(window)


async def _wait(product: "Product", documents: list[int]) -> list[Receipt]:
    """Until all receipts are verified; without a worker the work is done here."""
    app = product.app
    receipts: list[Receipt] = []
    for document in documents:
        while True:
            receipt = await _find_receipt(app, document)
            if receipt is not None and receipt.verified_at is not None:
                receipts.append(receipt)
                break
            if await app.database.pool.repeat(is_served, REMOVAL):
                await asyncio.sleep(CHECK_EVERY)
            elif not await remove_deleted(app.database, product.store, rest=0):
                await _refuse_waiting(app, document)
    return receipts


async def _refuse_waiting(app: Penstock, document: int) -> None:
    """No worker is running, and this process can do nothing."""
    receipt = await _find_receipt(app, document)
    if receipt is None or receipt.verified_at is None:
        raise CannotStart(
            f"Document {document} is deleted, and its removal waits for a job that a worker has left: start one with "
            "`penstock worker`."
        )


async def _find_receipt(app: Penstock, document: int) -> Receipt | None:
    try:
        return await show_receipt(app, document, tenant=app.settings.tenant)
    except NotFound:
        return None


def _print_outcome(outcome: DeletionResult, *, as_json: bool) -> None:
    if as_json:
        facts: dict[str, Any] = {"deleted": outcome.documents, "restorable_until": outcome.restorable_until}
        print_json(facts | {"receipts": [receipt.answer() for receipt in outcome.receipts]})
        return
    typer.echo(f"{counted(len(outcome.documents), 'document')} deleted, with attachments.")
    if outcome.restorable_until is not None:
        ids = " ".join(map(str, outcome.documents)) if len(outcome.documents) <= LISTED else "DOCUMENT..."
        typer.echo(f"Until {utc(outcome.restorable_until)} this can be undone: penstock restore {ids}")
    elif outcome.documents:
        typer.echo("This cannot be undone.")
    if outcome.receipts:
        typer.echo("The removal is complete and verified: penstock documents receipt --list")


def restore(
    references: References,
    as_json: Json = False,
) -> None:
    """Restore deleted documents.

    Possible for documents.restore_within (7 days unless set) after the deletion. `penstock documents list --status deleted`
    shows deleted documents.
    """

    async def do(app: Penstock) -> list[Document]:
        tenant = app.settings.tenant
        found = [await find_deleted_document(app, reference, tenant=tenant) for reference in references]
        return [await restore_document(app, document.id, tenant=tenant) for document in found]

    restored = ask_product(lambda product: do(product.app))
    if as_json:
        print_json({"restored": [document.answer() for document in restored]})
        return
    for document in restored:
        typer.echo(f"Document {document.id} ({document.name}) is {document.status} again.")


@app.command()
def receipt(
    reference: Annotated[
        str | None, typer.Argument(metavar="[DOCUMENT]", help="Id, name, or collection/name of a deleted document.")
    ] = None,
    every: Annotated[bool, typer.Option("--list", help="List all receipts.")] = False,
    after: Annotated[int, typer.Option(help="With --list: of documents with a larger id.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="With --list: at most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """Show the receipt of a deletion. It lists what was removed, and the verification."""
    if (reference is None) != every:
        raise BadSetting("Give either a document or --list.")
    if reference is not None:
        _show(ask(lambda penstock: _receipt_of(penstock, reference)), as_json=as_json)
        return
    found = ask(lambda penstock: list_receipts(penstock, after=after, most=limit + 1, tenant=penstock.settings.tenant))
    more, shown = len(found) > limit, found[:limit]
    if as_json:
        print_json({"receipts": [each.answer() for each in shown], "more": more})
        return
    if not shown:
        typer.echo("No document has been removed yet.")
        return
    rows = ((each.document, each.collection, each.name, _at(each.deleted_at), _at(each.verified_at)) for each in shown)
    print_table(("id", "collection", "name", "deleted", "verified"), rows)
    if more:
        typer.echo(f"More follow: add --after {shown[-1].document}.", err=True)


async def _receipt_of(penstock: Penstock, reference: str) -> Receipt:
    document = await find_deleted_document(penstock, reference, tenant=penstock.settings.tenant)
    return await show_receipt(penstock, document.id, tenant=penstock.settings.tenant)


def _show(found: Receipt, *, as_json: bool) -> None:
    facts = found.answer()
    if as_json:
        print_json(facts)
        return
    verified = f"verified at {_at(found.verified_at)} UTC" if found.verified_at else "not yet verified"
    removed = f"was removed at {_at(found.removed_at)} UTC, {verified}"
    typer.echo(f"Document {found.document} ({found.collection}/{found.name}) {removed}.")
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
        raise BadSetting('--where is not a JSON object: use one such as {"client": "Acme"}.')
    return value


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadSetting(
            f"{option} {text} is not a time: use one such as 2026-11-16 or 2026-11-16T08:00:00Z."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
