"""The kinds of jobs that the product runs: documents, packets, messages, crawls, facts, memos, maintenance."""

from penstock.pipelines.bus import CONNECT, Trigger, need_aio_pika, need_azure, rabbit, service_bus
from penstock.pipelines.crawl import CRAWL_QUEUE, declare_crawls
from penstock.pipelines.embedding import model_limit
from penstock.pipelines.facts import FACTS_QUEUE, FACTS_SLOTS, ExtractFacts
from penstock.pipelines.inbox import HandleMessage
from penstock.pipelines.llm import KIND, LLM_QUEUE, LlmRequests
from penstock.pipelines.maintenance import (
    REDRIVE_QUEUE,
    REDRIVE_SLOTS,
    CheckDocuments,
    RedriveDeadLetters,
    RemoveDocuments,
    TidyDocuments,
)
from penstock.pipelines.memos import MEMOS_QUEUE, MakeMemos
from penstock.pipelines.migration import ReembedCollection, ReindexCollection
from penstock.pipelines.packet import PreparePacket
from penstock.pipelines.prepare import PrepareDocument
from penstock.pipelines.qdrant import LIMIT, PublishPoints, ReconcileQdrant
