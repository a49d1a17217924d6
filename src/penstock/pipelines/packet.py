"""The packet pipeline: convert → merge → read → OCR → parts → index → ready, all documents of a packet in one transaction.

Each document is converted to PDF in a sandbox of its own, all of them are merged in another one, and the result is stored: a
later attempt begins after that. OCR is spread over the fleet in ranges of pages, each kept. A document that cannot be read is
a gap of the packet, unless it must have all of them. Of the packet only its text is held in memory.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from penstock.blobs import BlobStore, StoredBlob
from penstock.documents import (
    MergedDocument,
    Notifier,
    Packet,
    PacketDocument,
    PendingVersion,
    Publication,
    Work,
    end_packet,
    hand_over,
    keep_merged,
    load_packet,
    load_work,
)
from penstock.engine import Context, Penstock
from penstock.errors import NotFound, Permanent, Unreadable
from penstock.extraction import Chunk, ExtractedDocument, Gap, SandboxPool, decode_gap, split_pages
from penstock.pipelines.metrics import ends
from penstock.pipelines.parts import PacketPage, Part, classify, load_hook, load_rules
from penstock.pipelines.prepare import GatheredPages, PrepareDocument, StagedVersion, aside

READ_IN_A_SECOND = 100  # pages, at least: a long packet gets so much more time
WRITTEN_IN_A_SECOND = 1e7  # bytes of a file that is converted or merged, at least
PDF = "application/pdf"


@dataclass(frozen=True, slots=True)
class Member:
    """A document of the packet with its part of the text, ready to be written."""

    work: Work
    reading: ExtractedDocument
    gathered: GatheredPages
    staged: StagedVersion


@dataclass(frozen=True, slots=True)
class Whole:
    """A packet that was read: its text by page, and which pages are which part."""

    packet: Packet
    work: Work
    reading: ExtractedDocument
    gathered: GatheredPages
    parts: Sequence[Part]


class PreparePacket:
    def __init__(
        self, app: Penstock, store: BlobStore, sandboxes: SandboxPool, preparing: PrepareDocument, notifier: Notifier
    ) -> None:
        self._app = app
        self._store = store
        self._sandboxes = sandboxes
        self._preparing = preparing
        self._notifier = notifier

    async def prepare_packet(self, ctx: Context, document: int, version: int) -> None:
        """Make one version of a packet, with all of its documents, searchable."""
        packet = await self._load(document, version)
        if packet is None:  # deleted, or a newer version has come: that one has a job of its own
            return
        if not packet.merged:
            await self._merge(ctx, packet)
            packet = await self._load(document, version)
        work = await self._work(document, version)
        if packet is None or work is None:
            return
        self._insist(packet)
        reading, gathered = await self._read(ctx, packet, work)
        parts = await self._tell_parts(ctx, packet, gathered)
        await self._write(ctx, Whole(packet, work, reading, gathered, parts))
        self._notifier.notify()

    async def _load(self, document: int, version: int) -> Packet | None:
        return await self._app.database.pool.repeat(load_packet, document=document, version=version)

    async def _work(self, document: int, version: int) -> Work | None:
        return await self._app.database.pool.repeat(load_work, document=document, version=version)

    def _insist(self, packet: Packet) -> None:
        missing = [each for each in packet.documents if each.first_page is None]
        if len(missing) == len(packet.documents):
            raise Unreadable(f"None of its documents can be read: {_tell(missing)}")
        if missing and packet.require_all:
            raise Unreadable(f"It must have all of its documents (require_all), but lacks {_tell(missing)}")

    # -- one PDF ------------------------------------------------------------------------------------------------------

    async def _merge(self, ctx: Context, packet: Packet) -> None:
        """All documents as one PDF in the store, and where each of them stands in it."""
        work = await self._work(packet.document, packet.version)
        if work is None:
            return
        with await asyncio.to_thread(self._scratch_file) as bundle:
            converted = []
            for number, each in enumerate(packet.documents):
                await ctx.progress(number, len(packet.documents), each.name)
                ctx.enter("convert")
                converted.append(await self._convert(each, bundle))
            taken = [each for each in converted if not each.merged.reason]
            if not taken:
                missing = [each.document for each in converted]
                reasons = "; ".join(f"{each.document.name}: {each.merged.reason}" for each in converted[:5])
                raise Unreadable(f"None of its {len(missing)} documents can be read: {reasons}")
            ctx.enter("merge")
            stored, merged = await self._join(work, taken, bundle)
        ctx.enter("store")
        outcomes = {each.place: each for each in merged}
        known = [outcomes.get(each.merged.place, each.merged) for each in converted]
        async with ctx.write() as tx:
            kept = await keep_merged(tx, packet, work.tenant, stored, known)
        if kept != stored.key:
            await self._store.remove(stored.key)

    def _scratch_file(self) -> BinaryIO:
        """A file without a name: it is gone with its last descriptor, however the process ends."""
        folder: Path = self._app.settings.home / "scratch"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)

    async def _convert(self, document: PacketDocument, bundle: BinaryIO) -> "_Converted":
        """One document as a PDF at the end of the bundle, or why it cannot be one."""
        start = bundle.seek(0, 2)
        if document.blob_key is None:
            return _Converted(
                document, MergedDocument(document.place, None, 0, document.reason or "Its bytes could not be had.")
            )

        async def sink(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
            async for piece in pieces:
                await asyncio.to_thread(bundle.write, piece)

        arguments = {"limits": self._app.settings.limits.model_dump(), "name": document.name}
        seconds = 2 * self._patience(0, document.size or 0)  # LibreOffice starts within it
        try:
            async with self._store.open(document.blob_key) as file:
                result = await self._sandboxes.call(
                    "convert", file, arguments, name=document.name, sink=sink, timeout=seconds
                )
        except (Permanent, NotFound) as error:
            bundle.seek(start)
            bundle.truncate()
            return _Converted(document, MergedDocument(document.place, None, 0, str(error)))
        gaps = [{"page": gap.page, "reason": gap.reason} for gap in map(decode_gap, result["gaps"])]
        merged = MergedDocument(document.place, None, int(result["pages"]), "", gaps, str(result["media_type"])[:200])
        return _Converted(document, merged, start, bundle.seek(0, 2) - start)

    async def _join(
        self, work: Work, taken: "Sequence[_Converted]", bundle: BinaryIO
    ) -> tuple[StoredBlob, list[MergedDocument]]:
        stored: list[StoredBlob] = []

        async def sink(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
            stored.append(await self._store.write(pieces, most=2**62))

        pages = sum(each.merged.pages for each in taken)
        arguments = {
            "limits": self._app.settings.limits.model_dump(),
            "title": work.name,
            "documents": [{"start": each.start, "size": each.size, "title": each.document.name} for each in taken],
        }
        await asyncio.to_thread(bundle.flush)
        size = bundle.seek(0, 2)
        result = await self._sandboxes.call(
            "merge", bundle, arguments, name=work.name, sink=sink, timeout=self._patience(pages, size)
        )
        outcomes = [
            replace(each.merged, first_page=told["first"], pages=int(told["pages"]), reason=str(told["reason"]))
            for each, told in zip(taken, result["documents"], strict=True)
        ]
        return stored[0], outcomes

    def _patience(self, pages: int, size: int = 0) -> float:
        usual = self._app.settings.extraction.timeout.total_seconds()
        return usual + pages / READ_IN_A_SECOND + size / WRITTEN_IN_A_SECOND

    # -- its text -----------------------------------------------------------------------------------------------------

    async def _read(self, ctx: Context, packet: Packet, work: Work) -> tuple[ExtractedDocument, GatheredPages]:
        async with self._store.open(work.blob_key) as file:
            pages = sum(each.pages for each in packet.documents)
            reading = await self._preparing.read(ctx, work, file, timeout=self._patience(pages))
            gathered = GatheredPages(list(reading.pages), list(reading.gaps))
            if reading.scanned:
                await self._preparing.read_scans(ctx, work, reading, file, gathered)
        return reading, gathered

    async def _tell_parts(self, ctx: Context, packet: Packet, gathered: GatheredPages) -> list[Part]:
        """The cover sheet, part A, part B and the rest; pages without text belong to the part around them."""
        ctx.enter("parts")
        chosen = self._app.settings.packet
        texts = {page.number: page.text for page in gathered.pages}
        pages = [
            PacketPage(each.first_page + number, texts.get(each.first_page + number, ""), each.place)
            for each in packet.documents
            if each.first_page is not None
            for number in range(each.pages)
        ]
        pages.sort(key=lambda page: page.number)
        rules = await asyncio.to_thread(load_rules, chosen.rules)
        hook = load_hook(chosen.hook) if chosen.hook else None
        return await asyncio.to_thread(classify, pages, rules, hook)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write(self, ctx: Context, whole: Whole) -> None:
        """Text and vectors belong to the documents; the packet has its pages. One transaction shows all of it."""
        packet, gathered = whole.packet, whole.gathered
        members = []
        for each in packet.documents:
            if each.first_page is not None and each.member_id is not None and each.member_version is not None:
                member = await self._work(each.member_id, each.member_version)
                if member is not None:  # else it was deleted meanwhile
                    members.append(await self._stage(ctx, each, member, gathered))
        own = await self._preparing.stage(ctx, whole.work, list(gathered.pages), [])
        missing = [each for each in packet.documents if each.first_page is None and each.member_id is not None]
        gathered = GatheredPages(gathered.pages, [*packet_gaps(packet), *gathered.gaps])
        ctx.enter("index")
        told = [(part.first, part.last, part.label, part.confidence) for part in whole.parts]
        head, publish = packet.version, self._preparing.publish
        async with ctx.finish() as tx:
            published = [
                (await publish(tx, made.work, made.reading, made.gathered, made.staged, head=head), made.gathered)
                for made in members
            ]
            end = await publish(tx, whole.work, whole.reading, gathered, own, head=head)
            published.append((end, gathered))
            if isinstance(end, Publication):
                await end_packet(tx, packet, told, missing)
            elif isinstance(end, PendingVersion):  # with all of its documents, when their vectors are in Qdrant
                fairness_key = whole.work.fairness_key
                await hand_over(
                    tx,
                    self._app,
                    document=packet.document,
                    head=head,
                    fairness_key=fairness_key,
                    ending={"parts": told},
                )
        for done, found in published:
            if isinstance(done, Publication):
                ends.count(done, gaps=bool(found.gaps))

    async def _stage(self, ctx: Context, each: PacketDocument, work: Work, gathered: GatheredPages) -> Member:
        """A document's pages, counted from its own first one."""
        before = (each.first_page or 1) - 1
        last = before + each.pages
        pages = [replace(page, number=page.number - before) for page in gathered.pages if before < page.number <= last]
        gaps = [decode_gap(gap) for gap in each.gaps]
        gaps += [Gap(gap.page - before, gap.reason) for gap in gathered.gaps if gap.page and before < gap.page <= last]
        chunks: list[Chunk] = await aside(
            sum(len(page.text) for page in pages),
            split_pages,
            pages,
            size=work.chunk_size,
            overlap=work.chunk_overlap,
            structured=any(page.headings for page in pages),
        )
        if not chunks and not gaps:
            gaps.append(Gap(None, "It has no text."))
        own = ExtractedDocument(each.media_type or PDF, pages, (), "", {}, gaps)
        return Member(work, own, GatheredPages(pages, gaps), await self._preparing.stage(ctx, work, pages, chunks))


@dataclass(frozen=True, slots=True)
class _Converted:
    """A document in the bundle, or why it is not."""

    document: PacketDocument
    merged: MergedDocument
    start: int = 0
    size: int = 0


def packet_gaps(packet: Packet) -> list[Gap]:
    """Documents that are missing, and parts that were lost by converting; pages are those of the consolidated PDF."""
    found = []
    for each in packet.documents:
        if each.first_page is None:
            found.append(Gap(None, f"{each.name} is not in it: {each.reason}"))
            continue
        for gap in map(decode_gap, each.gaps):
            page = None if gap.page is None else each.first_page + gap.page - 1
            found.append(Gap(page, f"{each.name}: {gap.reason}"))
    return found


def _tell(missing: Sequence[PacketDocument]) -> str:
    shown = "; ".join(f"{each.name} ({each.reason.rstrip('.')})" for each in missing[:5])
    return f"{shown}{f'; and {len(missing) - 5} more' if len(missing) > 5 else ''}."
