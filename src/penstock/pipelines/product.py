"""Penstock as a product: the engine with the kinds of jobs that make documents searchable, and what those need.

    async with Product(role="worker") as product:
        await product.intake.accept(upload)
        await product.app.work(concurrency=product.slots)

Opening it starts no child processes and loads no models: those come with the first document.
"""

from types import TracebackType
from typing import Any, Self

from penstock.blobs import Store, open_store
from penstock.documents import Announcer, Inbox, Intake
from penstock.documents.leaving import POINTS_QUEUE
from penstock.documents.packet import Packets
from penstock.engine import Penstock
from penstock.extraction import Boxes
from penstock.fetch import Fetcher
from penstock.models import Models
from penstock.pipelines.checking import Checking
from penstock.pipelines.completing import QUEUE as LLM_QUEUE
from penstock.pipelines.completing import Completing
from penstock.pipelines.crawl import QUEUE as CRAWL_QUEUE
from penstock.pipelines.crawl import declare_crawls
from penstock.pipelines.document import Preparing
from penstock.pipelines.embedding import model_limit
from penstock.pipelines.knowledge import QUEUE as KNOWLEDGE_QUEUE
from penstock.pipelines.knowledge import SLOTS as KNOWLEDGE_SLOTS
from penstock.pipelines.knowledge import Extracting
from penstock.pipelines.memo import QUEUE as MEMOS_QUEUE
from penstock.pipelines.memo import Remembering
from penstock.pipelines.message import Taking
from penstock.pipelines.packet import Packing
from penstock.pipelines.points import LIMIT as QDRANT_LIMIT
from penstock.pipelines.points import Points
from penstock.pipelines.reconciling import Reconciling
from penstock.pipelines.redriving import QUEUE as REDRIVE_QUEUE
from penstock.pipelines.redriving import SLOTS as REDRIVE_SLOTS
from penstock.pipelines.redriving import Redriving
from penstock.pipelines.reembedding import Reembedding
from penstock.pipelines.reindexing import Reindexing
from penstock.pipelines.removal import Removal
from penstock.pipelines.trigger import Trigger
from penstock.pipelines.upkeep import Upkeep
from penstock.search.qdrant import open_qdrant
from penstock.settings import Settings

QUEUE = "documents"
INBOX_QUEUE = "inbox"
UPKEEP_QUEUE = "upkeep"
MODELS_QUEUE = "models"
MODEL_CALLS = 8  # of the whole fleet to one remote model at a time
QDRANT_REST = "10s"  # of its breaker, when it opens first


class Product:
    """What the API, the worker and the commands open."""

    def __init__(self, *, role: str = "app", **settings: Any) -> None:
        self.app = Penstock(role=role, **settings)
        self.models = Models(self.settings)
        self.fetcher = Fetcher(self.settings.fetch)
        self.boxes = Boxes(self.settings)
        self.store: Store = open_store(self.settings)
        self.announcer = Announcer(self.app)
        self.intake = Intake(self.app, self.store)
        self.inbox = Inbox(self.app, self.store)
        self.packets = Packets(self.app, self.store, self.intake)
        preparing = Preparing(self.app, self.store, self.boxes, self.models, self.announcer)
        for name in self.settings.models:
            self.app.limit(model_limit(name), MODEL_CALLS)
        self.completing = Completing(self.app)
        self.redriving = Redriving(self.app, self.announcer)
        limits = self.settings.limits
        self.app.job(queue=QUEUE, timeout="1h", retries=3, depth=limits.waiting)(preparing.prepare_document)
        self.app.job(queue=QUEUE, timeout="1h", retries=3)(preparing.ocr_pages)
        preparing.ocr_call = self.app.kinds["ocr_pages"]
        taking = Taking(self.inbox, self.fetcher, self.packets, self.announcer)
        self.app.job(queue=INBOX_QUEUE, timeout="1h", retries=5)(taking.take_message)
        packing = Packing(self.app, self.store, self.boxes, preparing, self.announcer)
        self.app.job(queue=QUEUE, timeout="6h", retries=3, depth=limits.waiting)(packing.prepare_packet)
        declare_crawls(self.app, self.fetcher, self.boxes, self.intake, self.announcer)
        removal = Removal(self.app, self.store)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=3)(removal.remove_documents)
        removal.remove_call = self.app.kinds["remove_documents"]
        upkeep = Upkeep(self.app, self.store, self.models, removal)
        self.app.job(queue=UPKEEP_QUEUE, timeout="10m", retries=1)(upkeep.tidy_documents)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=3)(upkeep.fold_vectors)
        upkeep.fold_call = self.app.kinds["fold_vectors"]
        reembedding = Reembedding(self.app, self.models)
        self.app.job(queue=MODELS_QUEUE, timeout="3d", retries=10)(reembedding.reembed_collection)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=10)(reembedding.forget_vectors)
        self.qdrant = open_qdrant(self.settings.qdrant)
        self._add_points(removal)
        self.app.schedule("tidy-documents", "every 1m", self.app.kinds["tidy_documents"](), overlap="skip")
        self.app.job(queue=UPKEEP_QUEUE, timeout="10m", retries=1)(Checking(self.app, self.store).check_documents)
        self.app.schedule("check-documents", "every 5m", self.app.kinds["check_documents"](), overlap="skip")
        self.extracting = Extracting(self.app, self.completing, self.models)
        self.remembering = Remembering(self.app, self.completing, self.models)
        self.trigger = self._make_trigger()

    def _make_trigger(self) -> Trigger | None:
        """What is accepted is told to a bus, if there is one."""
        if self.settings.bus.type == "off":
            return None
        trigger = Trigger(self.app, UPKEEP_QUEUE)
        self.intake.trigger = trigger.note
        self.announcer.also.append(trigger.committed)
        return trigger

    def _add_points(self, removal: Removal) -> None:
        """What another index needs. Without one, a job that needs it waits for somebody who has it."""
        chosen = self.settings.qdrant
        uses = {}
        if self.qdrant is not None:
            self.app.limit(QDRANT_LIMIT, chosen.permits, rest=QDRANT_REST)
            uses = {QDRANT_LIMIT: 1}
        points = Points(self.app, self.qdrant, self.announcer, removal)
        reindexing = Reindexing(self.app, self.qdrant)
        self.app.job(queue=POINTS_QUEUE, timeout="1h", retries=10, uses=uses)(points.publish_points)
        self.app.job(queue=POINTS_QUEUE, timeout="1h", retries=10, uses=uses)(points.remove_points)
        self.app.job(queue=POINTS_QUEUE, timeout="1h", retries=10, uses=uses)(reindexing.forget_points)
        self.app.job(queue=MODELS_QUEUE, timeout="3d", retries=10)(reindexing.reindex_collection)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=10)(reindexing.drop_vector_index)
        reconciling = Reconciling(self.app, self.qdrant)
        self.app.job(queue=UPKEEP_QUEUE, timeout="10m", retries=1, uses=uses)(reconciling.reconcile_points)
        if self.qdrant is not None:
            call = self.app.kinds["reconcile_points"]()
            self.app.schedule("reconcile-points", "every 10m", call, overlap="skip")

    @property
    def settings(self) -> Settings:
        return self.app.settings

    @property
    def slots(self) -> dict[str, int]:
        """Documents at once: enough that no child waits for one, few enough that their texts fit in memory."""
        documents = 4 * self.settings.extraction.children + 4
        return {
            QUEUE: documents,
            INBOX_QUEUE: 16,
            UPKEEP_QUEUE: 3,
            REDRIVE_QUEUE: REDRIVE_SLOTS,
            MODELS_QUEUE: 1,
            POINTS_QUEUE: self.settings.qdrant.permits if self.qdrant else 1,
            LLM_QUEUE: self.completing.slots,
            CRAWL_QUEUE: self.settings.crawl.at_once,
            KNOWLEDGE_QUEUE: KNOWLEDGE_SLOTS,
            MEMOS_QUEUE: self.settings.memos.at_once,
        }

    async def __aenter__(self) -> Self:
        await self.app.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.boxes.close()
        await self.models.aclose()
        await self.completing.aclose()
        if self.qdrant is not None:
            await self.qdrant.aclose()
        await self.announcer.close()
        if self.trigger is not None:
            await self.trigger.close()
        await self.app.__aexit__(kind, error, trace)
