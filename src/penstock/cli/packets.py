"""`penstock packets`: add, list and show packets, which are documents that belong together."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.session import (
    DEFAULT,
    Create,
    Into,
    Json,
    Most,
    ask,
    ask_product,
    group,
    print_facts,
    print_json,
    print_table,
    report,
    shortened,
    target_collection,
)
from penstock.documents import (
    Collection,
    Document,
    PacketFile,
    ShownPacket,
    Upload,
    find_document,
    list_packets,
    show_document,
    show_documents,
    show_packets,
)
from penstock.documents.ingest import check_upload
from penstock.engine import Penstock, is_served
from penstock.errors import BadSetting, NotFound
from penstock.text import counted

if TYPE_CHECKING:
    from penstock.product import Product

app = group("Add, list and show packets: documents that belong together.")

PIECE = 2**20
POLL_EVERY = 0.3  # seconds
SERVED_EVERY = 2.0

Reference = Annotated[str, typer.Argument(metavar="PACKET", help="Id, name, or collection/name.")]


@app.command("add")
def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of the packet, in order.")],
    collection: Into = DEFAULT,
    create: Create = False,
    name: Annotated[str, typer.Option(help="Name of the packet. Default: that of its first file.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is ready. Without a worker, this command does the work.")
    ] = False,
    require_all: Annotated[
        bool | None,
        typer.Option("--require-all/--allow-partial", help="Fail if a file cannot be read, or leave it out."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Add a new version if the name exists.")] = False,
    as_json: Json = False,
) -> None:
    """Add files as one packet."""
    for path in files:
        if not path.is_file():
            raise BadSetting(f"{path} is not a file: list the files of the packet one by one.")
    packet = name or files[0].stem

    if not as_json:
        report(f"Adding {counted(len(files), 'file')} as packet {packet} …")

    async def put(product: "Product") -> tuple[dict[str, Any], Document, ShownPacket]:
        into = await target_collection(product.app, collection, create=create)
        packet_id, answer = await _accept(product, files, into, packet, require_all=require_all, replace=replace)
        if wait:
            await _wait(product, packet_id, quiet=as_json)
        return answer, *await _load(product.app, packet_id)

    answer, document, shown = ask_product(put)
    if as_json:
        print_json({"accepted": answer, **_facts(document, shown)})
    elif wait:
        _print(document, shown)
    else:
        typer.echo(
            f"Packet {document.id} ({document.name}) is {answer['message']}: penstock packets show {document.id}"
        )
    if wait and document.status != "ready":
        raise typer.Exit(1)


async def _accept(
    product: "Product", files: list[Path], into: Collection, name: str, *, require_all: bool | None, replace: bool
) -> tuple[int, dict[str, Any]]:
    upload = Upload(into.name, name, _pieces(files[0]), replace=replace)
    checked = check_upload(upload, product.settings.tenant, into.id, served=True)
    most = product.settings.limits.bytes
    sourced = [PacketFile(path.name, await product.store.write(_pieces(path), most=most)) for path in files]
    made = await product.packets.accept(checked, sourced, require_all=require_all)
    return made.id, made.answer()


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece


async def _wait(product: "Product", packet: int, *, quiet: bool) -> None:
    """Wait until it has ended; work on it here if no worker does."""
    working: asyncio.Task[None] | None = None
    served_at, shown = 0.0, ""
    try:
        while not (document := await show_document(product.app, packet, tenant=product.settings.tenant)).is_over:
            if working is None and time.monotonic() - served_at > SERVED_EVERY:
                served_at = time.monotonic()
                served = await product.app.database.pool.repeat(lambda session: is_served(session, "prepare_packet"))
                if not served:
                    working = asyncio.create_task(product.app.work(concurrency=product.slots))
            progress = document.progress or {}
            line = f"{document.step or document.status} {progress.get('note') or ''}".strip()
            if not quiet and line != shown:
                report(f"  {line}")
                shown = line
            await asyncio.sleep(POLL_EVERY)
    finally:
        if working is not None:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working


@app.command("show")
def show(reference: Reference, as_json: Json = False) -> None:
    """Show a packet: its documents, pages and parts."""

    async def find(penstock: Penstock) -> tuple[Document, ShownPacket]:
        found = await find_document(penstock, reference, tenant=penstock.settings.tenant)
        return await _load(penstock, found.id)

    document, packet = ask(find)
    if as_json:
        print_json(_facts(document, packet))
    else:
        _print(document, packet)


@app.command("list")
def list_all(
    after: Annotated[int, typer.Option(help="List packets with a larger id.")] = 0,
    limit: Most = 50,
    as_json: Json = False,
) -> None:
    """List the packets by id."""

    async def read(penstock: Penstock) -> list[tuple[Document, ShownPacket]]:
        tenant, pool = penstock.settings.tenant, penstock.database.pool
        ids = await pool.repeat(lambda session: list_packets(session, after=after, most=limit, tenant=tenant))
        packets = await pool.repeat(lambda session: show_packets(session, ids, tenant=tenant))
        found = await show_documents(penstock, ids, tenant=tenant)
        return [(each, packets[each.id]) for each in found if each.id in packets]

    found = ask(read)
    if as_json:
        print_json({"packets": [_facts(*each) for each in found]})
        return
    if not found:
        typer.echo("No packet exists: `penstock packets add FILE...` makes one.")
        return
    columns = ("id", "status", "collection", "name", "documents", "pages", "parts")
    print_table(columns, (_cells(*each) for each in found))


def _cells(document: Document, packet: ShownPacket) -> tuple[object, ...]:
    parts = " ".join(f"{part.label} {_range(part.first_page, part.last_page)}" for part in packet.parts)
    where = (document.id, document.status, document.collection, document.name)
    return (*where, len(packet.documents), document.pages, shortened(parts))


async def _load(penstock: Penstock, packet: int) -> tuple[Document, ShownPacket]:
    tenant = penstock.settings.tenant
    document = await show_document(penstock, packet, tenant=tenant)
    packets = await penstock.database.pool.repeat(lambda session: show_packets(session, [packet], tenant=tenant))
    if packet not in packets:
        raise NotFound(f"Document {packet} ({document.name}) is not a packet. `penstock packets list` shows all.")
    return document, packets[packet]


def _facts(document: Document, packet: ShownPacket) -> dict[str, Any]:
    return {
        **document.answer(),
        "require_all": packet.require_all,
        "merged": packet.merged,
        "source": packet.source,
        "message_id": packet.message_id,
        "documents": [{name: getattr(each, name) for name in each.__slots__} for each in packet.documents],
        "parts": [{name: getattr(part, name) for name in part.__slots__} for part in packet.parts],
    }


def _print(document: Document, packet: ShownPacket) -> None:
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
            ("part", "pages", "confidence"),
            [(part.label, _range(part.first_page, part.last_page), f"{part.confidence:.2f}") for part in packet.parts],
        )
    if document.gaps:
        typer.echo("Only partly readable:")
        for gap in document.gaps[:20]:
            where = f"page {gap['page']}: " if gap.get("page") else ""
            typer.echo(f"  {where}{gap['reason']}")


def _range(first: int | None, last: int) -> str:
    if first is None:
        return "-"
    return str(first) if first >= last else f"{first}-{last}"
