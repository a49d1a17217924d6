"""The product: the engine with all kinds of jobs, their schedules and limits, and the parts that they use.

    async with Product(role="worker") as product:
        await product.intake.accept(upload)
        await product.app.work(concurrency=product.slots)

Opening it starts no child processes and loads no models: those come with the first document.
"""

from types import TracebackType
from typing import Any, Self

from penstock import pipelines
from penstock.blobs import BlobStore, open_store
from penstock.documents import FROM_API, Inbox, Intake, Notifier, Packets, message_kind
from penstock.documents.deletion import POINTS_QUEUE
from penstock.engine import Penstock
from penstock.extraction import SandboxPool
from penstock.fetch import Fetcher
from penstock.models import Models
from penstock.pipelines import LIMIT as QDRANT_LIMIT
from penstock.search.qdrant import open_qdrant
from penstock.settings import Settings

QUEUE = "documents"
INBOX_QUEUE = "inbox"
UPKEEP_QUEUE = "upkeep"
MODELS_QUEUE = "models"
MODEL_CALLS = 8  # of the whole fleet to one remote model at a time
QDRANT_REST = "10s"  # of its breaker, when it opens first


class Product:
    """The composition root, which the API, the worker and the commands open."""

    def __init__(self, *, role: str = "app", **settings: Any) -> None:
        self.app = Penstock(role=role, **settings)
        self.models = Models(self.settings)
        self.fetcher = Fetcher(self.settings.fetch)
        self.sandboxes = SandboxPool(self.settings)
        self.store: BlobStore = open_store(self.settings)
        self.notifier = Notifier(self.app)
        self.intake = Intake(self.app, self.store)
        self.inbox = Inbox(self.app, self.store)
        self.packets = Packets(self.app, self.store, self.intake)
        preparing = pipelines.PrepareDocument(self.app, self.store, self.sandboxes, self.models, self.notifier)
        for name in self.settings.models:
            self.app.limit(pipelines.model_limit(name), MODEL_CALLS)
        self.llm = pipelines.LlmRequests(self.app)
        self.redrive = pipelines.RedriveDeadLetters(self.app, self.notifier)
        limits = self.settings.limits
        self.app.job(queue=QUEUE, timeout="1h", retries=3, max_queue_size=limits.waiting)(preparing.prepare_document)
        self.app.job(queue=QUEUE, timeout="1h", retries=3)(preparing.ocr_pages)
        preparing.ocr_call = self.app.kinds["ocr_pages"]
        taking = pipelines.HandleMessage(self.inbox, self.fetcher, self.packets, self.notifier)
        for source in (FROM_API, *self.settings.sources):
            self.app.job(name=message_kind(source), queue=INBOX_QUEUE, timeout="1h", retries=5)(taking.take_message)
        packing = pipelines.PreparePacket(self.app, self.store, self.sandboxes, preparing, self.notifier)
        self.app.job(queue=QUEUE, timeout="6h", retries=3, max_queue_size=limits.waiting)(packing.prepare_packet)
        pipelines.declare_crawls(self.app, self.fetcher, self.sandboxes, self.intake, self.notifier)
        removal = pipelines.RemoveDocuments(self.app, self.store)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=3)(removal.remove_documents)
        removal.remove_call = self.app.kinds["remove_documents"]
        upkeep = pipelines.TidyDocuments(self.app, self.store, self.models, removal)
        self.app.job(queue=UPKEEP_QUEUE, timeout="10m", retries=1)(upkeep.tidy_documents)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=3)(upkeep.fold_vectors)
        upkeep.fold_call = self.app.kinds["fold_vectors"]
        reembedding = pipelines.ReembedCollection(self.app, self.models)
        self.app.job(queue=MODELS_QUEUE, timeout="3d", retries=10)(reembedding.reembed_collection)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=10)(reembedding.forget_vectors)
        self.qdrant = open_qdrant(self.settings.qdrant)
        self._add_points(removal)
        self.app.schedule("tidy-documents", "every 1m", self.app.kinds["tidy_documents"](), overlap="skip")
        self.app.job(queue=UPKEEP_QUEUE, timeout="10m", retries=1)(
            pipelines.CheckDocuments(self.app, self.store).check_documents
        )
        self.app.schedule("check-documents", "every 5m", self.app.kinds["check_documents"](), overlap="skip")
        self.facts = pipelines.ExtractFacts(self.app, self.llm, self.models)
        self.memos = pipelines.MakeMemos(self.app, self.llm, self.models)
        self.trigger = self._make_trigger()

    def _make_trigger(self) -> pipelines.Trigger | None:
        """Publish accepted documents on the bus, if there is one."""
        if self.settings.bus.type == "off":
            return None
        trigger = pipelines.Trigger(self.app, UPKEEP_QUEUE)
        self.intake.trigger = trigger.note
        self.notifier.listeners.append(trigger.committed)
        return trigger

    def _add_points(self, removal: pipelines.RemoveDocuments) -> None:
        """The jobs of Qdrant. Without it they are declared, too: a job waits for a worker that has it."""
        chosen = self.settings.qdrant
        uses = {}
        if self.qdrant is not None:
            self.app.limit(QDRANT_LIMIT, chosen.permits, rest=QDRANT_REST)
            uses = {QDRANT_LIMIT: 1}
        points = pipelines.PublishPoints(self.app, self.qdrant, self.notifier, removal)
        reindexing = pipelines.ReindexCollection(self.app, self.qdrant)
        self.app.job(queue=POINTS_QUEUE, timeout="1h", retries=10, uses=uses)(points.publish_points)
        self.app.job(queue=POINTS_QUEUE, timeout="1h", retries=10, uses=uses)(points.remove_points)
        self.app.job(queue=POINTS_QUEUE, timeout="1h", retries=10, uses=uses)(reindexing.forget_points)
        self.app.job(queue=MODELS_QUEUE, timeout="3d", retries=10)(reindexing.reindex_collection)
        self.app.job(queue=UPKEEP_QUEUE, timeout="6h", retries=10)(reindexing.drop_vector_index)
        reconciling = pipelines.ReconcileQdrant(self.app, self.qdrant)
        self.app.job(queue=UPKEEP_QUEUE, timeout="10m", retries=1, uses=uses)(reconciling.reconcile_points)
        if self.qdrant is not None:
            call = self.app.kinds["reconcile_points"]()
            self.app.schedule("reconcile-points", "every 10m", call, overlap="skip")

    @property
    def settings(self) -> Settings:
        return self.app.settings

    @property
    def slots(self) -> dict[str, int]:
        """The slots of each queue. Documents: enough to keep all sandboxes busy, few enough that their texts fit in memory."""
        documents = 4 * self.settings.extraction.children + 4
        return {
            QUEUE: documents,
            INBOX_QUEUE: 16,
            UPKEEP_QUEUE: 3,
            pipelines.REDRIVE_QUEUE: pipelines.REDRIVE_SLOTS,
            MODELS_QUEUE: 1,
            POINTS_QUEUE: self.settings.qdrant.permits if self.qdrant else 1,
            pipelines.LLM_QUEUE: self.llm.slots,
            pipelines.CRAWL_QUEUE: self.settings.crawl.at_once,
            pipelines.FACTS_QUEUE: pipelines.FACTS_SLOTS,
            pipelines.MEMOS_QUEUE: self.settings.memos.at_once,
        }

    async def __aenter__(self) -> Self:
        await self.app.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.sandboxes.close()
        await self.models.aclose()
        await self.llm.aclose()
        if self.qdrant is not None:
            await self.qdrant.aclose()
        await self.notifier.close()
        if self.trigger is not None:
            await self.trigger.close()
        await self.app.__aexit__(kind, error, trace)
