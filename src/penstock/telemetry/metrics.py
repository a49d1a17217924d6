"""The Prometheus metrics of a process: one registry, and a description of each metric under its name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

registry = CollectorRegistry()


def _named(name: str) -> str:
    if not re.fullmatch(r"penstock_[a-z][a-z0-9_]*", name):
        raise ValueError(f"A metric's name is penstock_ and small letters, not {name!r}.")
    return name


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """The name, type and help text of a metric. Docs, alerts and dashboard name only metrics that have one."""

    name: str  # of the samples; those of a histogram add _bucket, _sum and _count
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    fleet: bool = False  # from PostgreSQL: every process exports the same

    @property
    def family(self) -> str:
        return self.name.removesuffix("_total")


described: dict[str, MetricDescription] = {}


def describe(
    kind: Literal["counter", "gauge", "histogram"],
    name: str,
    documentation: str,
    labels: Sequence[str] = (),
    *,
    fleet: bool = False,
) -> MetricDescription:
    """Register a metric that a collector of ours exports."""
    family = _named(name).removesuffix("_total")
    metric = MetricDescription(
        f"{family}_total" if kind == "counter" else family, kind, documentation, tuple(labels), fleet
    )
    if described.setdefault(metric.name, metric) != metric:
        raise ValueError(f"Metric {metric.name} is declared twice: rename one of them.")
    return metric


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
    """Something that only grows; its samples are called name_total."""
    found = Counter(_named(name), documentation, labels, registry=registry)
    describe("counter", name, documentation, labels)
    return found


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
    found = Gauge(_named(name), documentation, labels, registry=registry)
    describe("gauge", name, documentation, labels)
    return found


def histogram(
    name: str, documentation: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS
) -> Histogram:
    """A distribution of values: durations in seconds, unless the name has another unit."""
    found = Histogram(_named(name), documentation, labels, registry=registry, buckets=buckets)
    describe("histogram", name, documentation, labels)
    return found


def render_metrics() -> bytes:
    """All metrics as text, to be served as METRICS_TYPE."""
    return generate_latest(registry)
