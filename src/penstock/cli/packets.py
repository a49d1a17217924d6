"""`penstock packet …`: put documents that belong together in, and look at what became of them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import documents
from penstock.cli.session import Json, Most, ask, ask_product, print_facts, print_json, print_table, shortened
from penstock.documents.ingest import check_upload
from penstock.engine import Penstock, is_served
from penstock.errors import BadSetting, NotFound
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.product import Product

app = typer.Typer(help="Documents that belong together.", no_args_is_help=True, rich_markup_mode=None)

PIECE = 2**20
LOOK_EVERY = 0.3  # seconds
SERVED_EVERY = 2.0

Reference = Annotated[str, typer.Argument(metavar="PACKET", help="Its number, its name, or collection/name.")]


@app.command("add")
def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Its documents, in their order.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where it belongs; made if need be.")] = "inbox",
    name: Annotated[str, typer.Option(help="What it is called; else after its first file.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is ready; without a worker the work is done here.")
    ] = False,
    require_all: Annotated[bool | None, typer.Option("--require-all/--allow-gaps", help="Fail, or have a gap.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Make a new version of a packet of this name.")] = False,
    as_json: Json = False,
) -> None:
    """Make one packet of files."""

    for path in files:
        if not path.is_file():
            raise BadSetting(f"{path} is not a file: name the files of the packet one by one.")
    packet = name or files[0].stem

    async def put(product: "Product") -> tuple[dict[str, Any], documents.Document, documents.ShownPacket]:
        number, answer = await _accept(product, files, collection, packet, require_all=require_all, replace=replace)
        if wait:
            await _wait(product, number, quiet=as_json)
        return answer, *await _look(product.app, number)

    answer, document, shown = ask_product(put)
    if as_json:
        print_json({"accepted": answer, **_facts(document, shown)})
    elif wait:
        _print(document, shown)
    else:
        typer.echo(f"Packet {document.id} ({document.name}) is {answer['message']}: penstock packet show {document.id}")
    if wait and document.status != "ready":
        raise typer.Exit(1)


async def _accept(
    product: "Product", files: list[Path], collection: str, name: str, *, require_all: bool | None, replace: bool
) -> tuple[int, dict[str, Any]]:
    tenant = product.settings.tenant
    into = await documents.ensure_collection(product.app, collection, tenant=tenant)
    upload = documents.Upload(into.name, name, _pieces(files[0]), replace=replace)
    checked = check_upload(upload, tenant, into.id, served=True)
    most = product.settings.limits.bytes
    sourced = [documents.PacketFile(path.name, await product.store.write(_pieces(path), most=most)) for path in files]
    made = await product.packets.accept(checked, sourced, require_all=require_all)
    return made.id, made.answer()


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece


async def _wait(product: "Product", number: int, *, quiet: bool) -> None:
    """Follow it until it is over; work on it here if no worker does."""
    working: asyncio.Task[None] | None = None
    served_at, said = 0.0, ""
    try:
        while not (
            document := await documents.show_document(product.app, number, tenant=product.settings.tenant)
        ).is_over:
            if working is None and time.monotonic() - served_at > SERVED_EVERY:
                served_at = time.monotonic()
                served = await product.app.database.pool.repeat(is_served, "prepare_packet")
                if not served:
                    working = asyncio.create_task(product.app.work(concurrency=product.slots))
            progress = document.progress or {}
            line = f"{document.step or document.status} {progress.get('note') or ''}".strip()
            if not quiet and line != said:
                typer.echo(f"  {line}", err=True)
                said = line
            await asyncio.sleep(LOOK_EVERY)
    finally:
        if working is not None:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working


@app.command("show")
def show(reference: Reference, as_json: Json = False) -> None:
    """Show a packet: its documents, where they stand in the consolidated PDF, and its parts."""

    async def find(penstock: Penstock) -> tuple[documents.Document, documents.ShownPacket]:
        found = await documents.find_document(penstock, reference, tenant=penstock.settings.tenant)
        return await _look(penstock, found.id)

    document, packet = ask(find)
    if as_json:
        print_json(_facts(document, packet))
    else:
        _print(document, packet)


@app.command("list")
def list_all(
    after: Annotated[int, typer.Option(help="Only packets with a larger number.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the packets by number."""

    async def look(penstock: Penstock) -> list[tuple[documents.Document, documents.ShownPacket]]:
        tenant, pool = penstock.settings.tenant, penstock.database.pool
        ids = await pool.repeat(documents.list_packets, after=after, most=limit, tenant=tenant)
        packets = await pool.repeat(documents.show_packets, ids, tenant=tenant)
        found = await documents.show_documents(penstock, ids, tenant=tenant)
        return [(each, packets[each.id]) for each in found if each.id in packets]

    found = ask(look)
    if as_json:
        print_json({"packets": [_facts(*each) for each in found]})
        return
    if not found:
        typer.echo("There is no packet: penstock packet add FILE...")
        return
    columns = ("id", "status", "collection", "name", "documents", "pages", "parts")
    print_table(columns, (_cells(*each) for each in found))


def _cells(document: documents.Document, packet: documents.ShownPacket) -> tuple[object, ...]:
    parts = " ".join(f"{part.label} {_range(part.first_page, part.last_page)}" for part in packet.parts)
    where = (document.id, document.status, document.collection, document.name)
    return (*where, len(packet.documents), document.pages, shortened(parts))


async def _look(penstock: Penstock, number: int) -> tuple[documents.Document, documents.ShownPacket]:
    tenant = penstock.settings.tenant
    document = await documents.show_document(penstock, number, tenant=tenant)
    packets = await penstock.database.pool.repeat(documents.show_packets, [number], tenant=tenant)
    if number not in packets:
        raise NotFound(f"Document {number} ({document.name}) is not a packet: penstock packet list")
    return document, packets[number]


def _facts(document: documents.Document, packet: documents.ShownPacket) -> dict[str, Any]:
    return {
        **document.answer(),
        "require_all": packet.require_all,
        "merged": packet.merged,
        "source": packet.source,
        "message_id": packet.message_id,
        "documents": [{name: getattr(each, name) for name in each.__slots__} for each in packet.documents],
        "parts": [{name: getattr(part, name) for name in part.__slots__} for part in packet.parts],
    }


def _print(document: documents.Document, packet: documents.ShownPacket) -> None:
    error = (document.error or {}).get("message")
    print_facts(
        {
            "packet": f"{document.id} ({document.collection}/{document.name})",
            "status": document.status,
            "because": error,
            "step": document.step,
            "pages": document.pages,
            "source": packet.source,
            "message": packet.message_id,
        }
    )
    rows = [
        (each.name, each.status, _range(each.first_page, (each.first_page or 1) + each.pages - 1), each.reason)
        for each in packet.documents
    ]
    print_table(("document", "status", "pages", "because"), rows)
    if packet.parts:
        print_table(
            ("part", "pages", "sure"),
            [(part.label, _range(part.first_page, part.last_page), f"{part.confidence:.2f}") for part in packet.parts],
        )
    if document.gaps:
        typer.echo(f"With {counted(len(document.gaps), 'gap')}:")
        for gap in document.gaps[:20]:
            where = f"page {gap['page']}: " if gap.get("page") else ""
            typer.echo(f"  {where}{gap['reason']}")


def _range(first: int | None, last: int) -> str:
    if first is None:
        return "-"
    return str(first) if first >= last else f"{first}-{last}"
