"""Metrics of the documents that were prepared in this process.

Each process counts what happened in it, and a scraper adds up: a sum in PostgreSQL would be one more write for each document.
Nothing is counted by tenant or collection, because those are as many as people make; `penstock status --collection` has them.
"""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock import telemetry
from penstock.documents import PREPARE, PREPARE_PACKET, PUBLISH_POINTS, Publication
from penstock.engine import tally

BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)

PREPARED = telemetry.describe(
    "counter",
    "penstock_documents_prepared",
    "Documents whose preparation ended in this process: ready, partial (only partly readable), failed",
    ("outcome",),
)
seconds = telemetry.histogram(
    "penstock_document_seconds", "Seconds from the acceptance of a document to its being ready", buckets=BUCKETS
)


class PreparationMetrics(Collector):
    """Ready, partial (only partly readable), failed. The engine reports failures: the last attempt failed permanently."""

    def __init__(self) -> None:
        self.ready = 0
        self.partial = 0

    def count(self, published: Publication, *, gaps: bool) -> None:
        """After the commit."""
        seconds.observe(published.seconds)
        if gaps:
            self.partial += 1
        else:
            self.ready += 1

    def collect(self) -> Iterable[Metric]:
        buried = {key: count for key, count in list(tally.outcomes.items()) if key[1] == "Bury"}
        failed = sum(
            count for (kind, _, _), count in buried.items() if kind in (PREPARE, PREPARE_PACKET, PUBLISH_POINTS)
        )
        family = CounterMetricFamily(PREPARED.family, PREPARED.help, labels=PREPARED.labels)
        for outcome, count in (("ready", self.ready), ("partial", self.partial), ("failed", failed)):
            family.add_metric((outcome,), count)
        return (family,)


ends = PreparationMetrics()
telemetry.registry.register(ends)
