"""The prepare pipeline: read → OCR → unpack → chunk → embed → index → ready. The files that a document passes through:

    documents/publication.py            load_work: the version and the settings of its collection
    extraction/sandbox/                 a child process reads the file, and its scanned pages by OCR
    documents/ingest/attachments.py     attachments and archive members become documents
    extraction/chunk.py                 the text is split into chunks
    pipelines/embedding.py              vectors of the chunks, by a model of models/
    search/index.py                     chunks, postings and vectors are staged, invisible to search
    documents/publication.py            publish: the version is live, in the transaction that ends the job
    pipelines/qdrant.py                 or, for a collection in Qdrant: points are written and counted first

No connection is held during reading, OCR and embedding. Large results are written ahead in fenced batches. OCR is the only
costly part, so it alone is kept: a few pages as a step, a long scan as children with results of their own. A document that
cannot be read raises: the job dies with the reason, and a trigger lets the document follow it
(database/schema/0004_documents.sql).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

from penstock.blobs import BlobStore, StoredBlob
from penstock.database import Session
from penstock.documents import (
    Notifier,
    PendingVersion,
    Publication,
    Work,
    add_members,
    count_attachments,
    forget_later,
    hand_over,
    keep_pages,
    load_work,
    publish,
)
from penstock.engine import Context, Kind, Penstock
from penstock.engine import Gap as ChildGap
from penstock.errors import ChildFailed, ResourceLimit, Unreadable
from penstock.extraction import Chunk, ExtractedDocument, Gap, Page, SandboxPool, decode_gap, decode_page, split_pages
from penstock.models import Models
from penstock.pipelines.embedding import Embedding
from penstock.pipelines.metrics import ends
from penstock.search import Index, IndexBatch, Passage, searched_text

T = TypeVar("T")

LARGE = 2**20  # bytes of a file whose reading is worth keeping for another attempt
AT_ONCE = 4  # scanned pages that are read here; more of them are spread over the fleet
RANGE = 8  # pages of one child of a long scan
HARMLESS = 2**26  # bytes: below this size the expansion ratio is not enforced
UNPACKED_IN_A_SECOND = 2e7  # bytes of an archive; it gets so much more time than another document
BATCH = 400  # chunks that are embedded and written together
SMALL = 20_000  # characters: some 5 ms of work
PAGES_BATCH = 2_000_000  # characters of pages that are written together
# The error class of a range of pages that died without its own fault: a later try may read it.
NOT_ITS_FAULT = "Transient"


@dataclass
class GatheredPages:
    """The pages, gaps and members that were read so far."""

    pages: list[Page]
    gaps: list[Gap]
    members: list[tuple[str, StoredBlob]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StagedVersion:
    """Rows that were written ahead of a version's publication, and those that are left for it."""

    models: list[str]  # whose vectors are there for all chunks
    chunks: int
    words: int
    last: IndexBatch | None  # the last batch
    pages: list[Page]  # the last ones


class PrepareDocument:
    ocr_call: Kind

    def __init__(
        self, app: Penstock, store: BlobStore, sandboxes: SandboxPool, models: Models, notifier: Notifier
    ) -> None:
        self._app = app
        self._store = store
        self._sandboxes = sandboxes
        self._embedding = Embedding(app, models)
        self._notifier = notifier
        self._index = Index()
        self._ranges = asyncio.Semaphore(app.settings.extraction.children)

    async def prepare_document(self, ctx: Context, document: int, version: int) -> None:
        """Make one version of a document searchable."""
        work = await self._load(document, version)
        if work is None:  # deleted, or a newer version has come: that one has a job of its own
            return
        async with self._store.open(work.blob_key) as file:
            reading = await self.read(ctx, work, file)
            gathered = GatheredPages(list(reading.pages), list(reading.gaps))
            if reading.scanned:
                await self.read_scans(ctx, work, reading, file, gathered)
            if reading.facts.get("members", "0") != "0":
                await self._unpack(ctx, work, reading, file, gathered)
        ctx.enter("chunk")
        chunks = await aside(
            sum(len(page.text) for page in gathered.pages),
            split_pages,
            gathered.pages,
            size=work.chunk_size,
            overlap=work.chunk_overlap,
            structured=reading.media_type == "text/markdown" or any(page.headings for page in gathered.pages),
        )
        if not chunks and not gathered.gaps:
            gathered.gaps.append(Gap(None, "It has no text."))
        await self._write(ctx, work, reading, gathered, chunks)
        self._notifier.notify()

    async def ocr_pages(self, ctx: Context, document: int, version: int, media_type: str, pages: list[int]) -> Any:
        """Read some pages of a long scan.

        As many ranges at once as there are children: if all that are claimed went on together, a worker that dies would take
        a part of each with it.
        """
        async with self._ranges:
            work = await self._load(document, version)
            if work is None:
                return {"pages": [], "gaps": []}
            async with self._store.open(work.blob_key) as file:
                return await self._ocr(ctx, work, media_type, pages, file)

    async def _load(self, document: int, version: int) -> Work | None:
        return await self._app.database.pool.repeat(load_work, document, version)

    # -- reading ----------------------------------------------------------------------------------------------------

    async def read(
        self, ctx: Context, work: Work, file: BinaryIO, *, timeout: float | None = None
    ) -> ExtractedDocument:
        """The text of a file, and which of its pages only OCR can read."""

        async def read() -> Any:
            arguments = self._arguments(name=work.name, ocr=self._app.settings.extraction.ocr != "off")
            return await self._sandboxes.call("read", file, arguments, name=work.name, timeout=timeout)

        if work.size < LARGE:
            ctx.enter("read")
            return ExtractedDocument.decode(await read())
        return ExtractedDocument.decode(await ctx.step("read", read, pure=True))

    def _arguments(self, **more: Any) -> dict[str, Any]:
        return {"limits": self._app.settings.limits.model_dump(), **more}

    async def read_scans(
        self, ctx: Context, work: Work, reading: ExtractedDocument, file: BinaryIO, gathered: GatheredPages
    ) -> None:
        """Pages that only OCR can read; each that cannot be read is a gap, and the others go on."""
        results: list[Any]
        if len(reading.scanned) <= AT_ONCE:

            async def ocr(pages: list[int]) -> Any:
                return await self._ocr(ctx, work, reading.media_type, pages, file)

            results = [await ctx.step("ocr", ocr, list(reading.scanned))]
        else:
            ranges = [list(reading.scanned[first : first + RANGE]) for first in range(0, len(reading.scanned), RANGE)]
            calls = [
                self.ocr_call(document=work.document, version=work.version, media_type=reading.media_type, pages=pages)
                for pages in ranges
            ]
            results = await ctx.map("ocr", calls, gaps="allow")
            _insist_on(results)
            for pages, result in zip(ranges, results, strict=True):
                if isinstance(result, ChildGap):
                    gathered.gaps += [Gap(page, f"The page was not read: {result.reason}") for page in pages]
        for result in results:
            if not isinstance(result, ChildGap):
                gathered.pages += [decode_page(page) for page in result["pages"]]
                gathered.gaps += [decode_gap(gap) for gap in result["gaps"]]
        gathered.pages.sort(key=lambda page: page.number)

    async def _ocr(self, ctx: Context, work: Work, media_type: str, pages: list[int], file: BinaryIO) -> Any:
        """Page by page: one that kills its sandbox does not affect the others."""
        found: dict[str, list[Any]] = {"pages": [], "gaps": []}
        for done, number in enumerate(pages):
            await ctx.progress(done, len(pages), f"page {number}")
            arguments = self._arguments(
                media_type=media_type,
                pages=[number],
                language=work.ocr_language,
                engine=self._app.settings.extraction.ocr,
            )
            try:
                result = await self._ocr_once_more(file, arguments, work.name)
            except (ResourceLimit, Unreadable) as error:
                found["gaps"].append({"page": number, "reason": str(error)})
                continue
            found["pages"] += result["pages"]
            found["gaps"] += result["gaps"]
        return found

    async def _ocr_once_more(self, file: BinaryIO, arguments: dict[str, Any], name: str) -> Any:
        """A page that exceeds a limit once may have met a busy machine; twice, the page is the cause."""
        try:
            return await self._sandboxes.call("ocr", file, arguments, name=name)
        except ResourceLimit:
            return await self._sandboxes.call("ocr", file, arguments, name=name)

    async def _unpack(
        self, ctx: Context, work: Work, reading: ExtractedDocument, file: BinaryIO, gathered: GatheredPages
    ) -> None:
        """Store attachments and archive members; they become documents in the transaction that ends this job."""
        limits = self._app.settings.limits
        if reason := await self._why_not_unpacked(work):
            gathered.gaps.append(Gap(None, f"Attachments or archive members were not unpacked: {reason}."))
            return
        ctx.enter("unpack")

        async def sink(header: dict[str, Any], pieces: AsyncIterator[bytes]) -> None:
            stored = await self._store.write(pieces, most=limits.bytes)
            gathered.members.append((str(header["name"]), stored))

        arguments = self._arguments(media_type=reading.media_type, name=work.name)
        seconds = self._app.settings.extraction.timeout.total_seconds() + work.size / UNPACKED_IN_A_SECOND
        try:
            result = await self._sandboxes.call("members", file, arguments, name=work.name, sink=sink, timeout=seconds)
        except BaseException:
            await self._remove([stored.key for _, stored in gathered.members])
            raise
        gathered.gaps += [decode_gap(gap) for gap in result["gaps"]]

    async def _remove(self, keys: Sequence[str]) -> None:
        """Remove bytes that no row names. If the process dies before, the garbage collector removes them."""
        for key in keys:
            await self._store.remove(key)

    async def _why_not_unpacked(self, work: Work) -> str:
        limits = self._app.settings.limits
        if work.depth >= limits.depth:
            return f"it is {work.depth} levels deep, more than limits.depth ({limits.depth}) allows"
        upload = await self._app.database.pool.repeat(lambda session: count_attachments(session, work.document))
        if upload.documents >= limits.documents:
            there = f"there are {upload.documents:,} documents of this upload already"
            return f"{there}, the most that limits.documents ({limits.documents:,}) allows"
        if upload.size > max(limits.expansion * upload.uploaded, HARMLESS):
            there = f"this upload has become {upload.size // upload.uploaded:,} times as large as it was"
            return f"{there}, more than limits.expansion ({limits.expansion:,}) allows"
        return ""

    # -- writing ----------------------------------------------------------------------------------------------------

    async def _write(
        self, ctx: Context, work: Work, reading: ExtractedDocument, gathered: GatheredPages, chunks: Sequence[Chunk]
    ) -> None:
        """All but the last batch go out ahead, fenced and invisible; the rest is the end of the job."""
        staged = await self.stage(ctx, work, gathered.pages, chunks)
        unneeded: Sequence[str] = ()
        ctx.enter("index")
        async with ctx.finish() as tx:
            published = await self.publish(tx, work, reading, gathered, staged)
            if isinstance(published, PendingVersion):
                await hand_over(
                    tx, self._app, document=work.document, head=work.version, fairness_key=work.fairness_key
                )
            if published and (gathered.members or work.number > 1):  # an older version may have had some
                unneeded = (await add_members(tx, self._app, work, gathered.members)).unneeded
        if isinstance(published, Publication):
            ends.count(published, gaps=bool(gathered.gaps))
        await self._remove(unneeded)

    async def stage(self, ctx: Context, work: Work, pages: list[Page], chunks: Sequence[Chunk]) -> StagedVersion:
        """Write large texts in fenced batches that search does not see; the rest is for `publish`."""
        await self._embedding.prepare(work.model)
        if work.begun:
            await self._clear(ctx, work)
        models = [work.model]
        if work.next_model is not None and await self._embedding.is_usable(ctx, work.next_model):
            models.append(work.next_model)
        batches = [chunks[first : first + BATCH] for first in range(0, len(chunks), BATCH)]
        words = 0
        for number, batch in enumerate(batches[:-1]):
            await ctx.progress(number * BATCH, len(chunks), "chunks")
            entries = await self._embed(ctx, work, batch, number * BATCH, models)
            ctx.enter("index")
            async with ctx.write() as tx:
                words += await self._index.stage(tx, entries)
        while sum(len(page.text) for page in pages) > PAGES_BATCH and len(pages) > 1:
            part, pages = _cut(pages)
            async with ctx.write() as tx:
                await keep_pages(tx, work.version, part)
        last = await self._embed(ctx, work, batches[-1], BATCH * (len(batches) - 1), models) if batches else None
        return StagedVersion(models, len(chunks), words, last, pages)

    async def publish(
        self,
        tx: Session,
        work: Work,
        reading: ExtractedDocument,
        gathered: GatheredPages,
        staged: StagedVersion,
        *,
        head: int | None = None,
    ) -> Publication | PendingVersion | None:
        """The last batch and the flip to this version, in the transaction that ends the job.

        Or what the flip needs is kept for the job that counts its points first, or those of all that wait with `head`.
        """
        words = staged.words
        if staged.last is not None:
            words += await self._index.stage(tx, staged.last)
        published = await publish(
            tx,
            work,
            media_type=reading.media_type,
            title=reading.title,
            facts=dict(reading.facts),
            pages=len(gathered.pages),
            chunks=staged.chunks,
            words=words,
            gaps=[{"page": gap.page, "reason": gap.reason} for gap in gathered.gaps],
            last=staged.pages,
            staged=staged.models,
            head=head,
        )
        for model in published.unwanted if isinstance(published, Publication) else ():
            await forget_later(tx, self._app, work.collection, model)
        return published

    async def _embed(
        self, ctx: Context, work: Work, batch: Sequence[Chunk], first: int, staged: list[str]
    ) -> IndexBatch:
        """Vectors by all models that are staged; a next one that fails is left out from here on, and made up for later."""
        ctx.enter("embed")
        passages = [Passage(chunk.page, chunk.start, chunk.stop, chunk.heading, chunk.text) for chunk in batch]
        texts = [searched_text(chunk.heading, chunk.text) for chunk in batch]
        vectors = await self._embedding.vectors(ctx, work.model, texts)
        others = {}
        for name in staged[1:]:
            found = await self._embedding.vectors_if_possible(ctx, name, texts)
            if found is None:
                staged.remove(name)
            else:
                others[name] = found
        return await aside(
            sum(len(chunk.text) for chunk in batch),
            IndexBatch.of,
            version=work.version,
            collection=work.collection,
            model=work.model,
            language=work.search_language,
            first=first,
            passages=passages,
            vectors=vectors,
            others=others,
        )

    async def _clear(self, ctx: Context, work: Work) -> None:
        """An earlier attempt may have written some batches of this version."""
        while True:
            async with ctx.write() as tx:
                if not await self._index.clear(tx, version=work.version):
                    return


async def aside(characters: int, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Process text, in a thread if it is long; a short one takes less time than the handover to a thread."""
    if characters < SMALL:
        return work(*arguments, **options)
    return await asyncio.to_thread(work, *arguments, **options)


def _insist_on(results: Sequence[Any]) -> None:
    """Pages that failed for transient reasons are not gaps: fail the document so that a redrive reads them."""
    unread = [each for each in results if isinstance(each, ChildGap) and each.cls == NOT_ITS_FAULT]
    if unread:
        told = "; ".join(f"job {each.job} {each.reason}" for each in unread[:3])
        raise ChildFailed(
            f"{len(unread):,} of its {len(results):,} ranges of pages could not be read ({told}): fix the cause and redrive "
            "it, and only these are read again.",
            children=[each.job for each in unread],
        )


def _cut(pages: list[Page]) -> tuple[list[Page], list[Page]]:
    size = 0
    for number, page in enumerate(pages):
        size += len(page.text)
        if size > PAGES_BATCH:
            return pages[: max(number, 1)], pages[max(number, 1) :]
    return pages, []
