"""Metrics of the attempts of this process, by kind.

A collector of our own, because a labelled prometheus observation costs more than the rest of a no-op job: here it is a
few additions, and the exposition is put together on request.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock import telemetry

BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)

ATTEMPTS = telemetry.describe(
    "counter",
    "penstock_job_attempts",
    "Ended attempts; outcome is done, finished, waits, retry, snooze, dead, cancelled or requeue, class that of the error",
    ("kind", "outcome", "class"),
)
SECONDS = telemetry.describe("histogram", "penstock_job_seconds", "Seconds of attempts", ("kind",))
SHORTEST = telemetry.describe(
    "gauge", "penstock_job_seconds_min", "Shortest attempt since the start, in seconds", ("kind",)
)
LONGEST = telemetry.describe(
    "gauge", "penstock_job_seconds_max", "Longest attempt since the start, in seconds", ("kind",)
)
RUNNING = telemetry.describe("gauge", "penstock_handlers_running", "Handlers that run now", ("kind",))
LAG = telemetry.describe("gauge", "penstock_loop_lag_seconds", "How late the event loop's last tick was")


class Durations:
    """Count, sum, extremes and a histogram of the attempts of one kind."""

    __slots__ = ("buckets", "count", "longest", "shortest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.shortest = float("inf")
        self.longest = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.shortest = min(self.shortest, seconds)
        self.longest = max(self.longest, seconds)
        self.buckets[bisect_left(BUCKETS, seconds)] += 1


class ProcessMetrics(Collector):
    """Attempts by kind and outcome, their durations, and what runs now."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str, str], int] = defaultdict(int)  # kind, outcome, error class
        self.durations: dict[str, Durations] = defaultdict(Durations)
        self.running: dict[str, int] = defaultdict(int)
        self.loop_lag = 0.0

    def count(self, kind: str, outcome: str, error_class: str, seconds: float) -> None:
        self.outcomes[kind, outcome, error_class] += 1
        self.durations[kind].add(seconds)

    def collect(self) -> Iterable[Metric]:
        attempts = CounterMetricFamily(ATTEMPTS.family, ATTEMPTS.help, labels=ATTEMPTS.labels)
        for key, count in list(self.outcomes.items()):
            kind, outcome, error_class = key
            attempts.add_metric((kind, outcome.lower(), error_class), count)
        seconds = HistogramMetricFamily(SECONDS.name, SECONDS.help, labels=SECONDS.labels)
        shortest = GaugeMetricFamily(SHORTEST.name, SHORTEST.help, labels=SHORTEST.labels)
        longest = GaugeMetricFamily(LONGEST.name, LONGEST.help, labels=LONGEST.labels)
        for kind, durations in list(self.durations.items()):
            seconds.add_metric((kind,), _cumulative(durations.buckets), durations.total)
            shortest.add_metric((kind,), durations.shortest)
            longest.add_metric((kind,), durations.longest)
        running = GaugeMetricFamily(RUNNING.name, RUNNING.help, labels=RUNNING.labels)
        for kind, count in list(self.running.items()):
            running.add_metric((kind,), count)
        lag = GaugeMetricFamily(LAG.name, LAG.help, value=self.loop_lag)
        return (attempts, seconds, shortest, longest, running, lag)


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    total = 0
    rows: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
        total += count
        rows.append((bound, total))
    return rows


tally = ProcessMetrics()
telemetry.registry.register(tally)
