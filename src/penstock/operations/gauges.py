"""Gauges of the whole fleet, read from PostgreSQL when somebody asks, at most every five seconds.

Every process could answer, and all would say the same: a scraper may ask any of them. When the database does not answer, the
gauges are absent rather than old.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.database import Database
from penstock.engine.census import Waiting, count_workers, waiting_lanes
from penstock.engine.limits import LimitState, list_limits
from penstock.engine.schedules import count_schedules
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.operations.checking import CheckCount, count_findings
from penstock.operations.invariants import count_violations
from penstock.telemetry import log

FRESH = 5.0
READ_WITHIN = 2.0  # seconds: a scraper gives up after ten, and wants the other metrics all the same
LIMIT_GAUGES: tuple[tuple[str, str, Callable[[LimitState], float]], ...] = (
    ("penstock_limit_used", "Permits in use, over the fleet", lambda limit: limit.used),
    ("penstock_limit_granted", "Permits granted to workers", lambda limit: limit.granted),
    ("penstock_limit_level", "Calls that the workers dare to have at once", lambda limit: limit.level),
    ("penstock_breaker_open", "1: nobody calls it, after too many failures", lambda limit: limit.opened_at is not None),
)


class FleetGauges(Collector):
    """Depth and oldest age per lane, and workers alive."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._lanes: list[Waiting] | None = None
        self._workers = 0
        self._schedules: dict[str, int] = {}
        self._limits: list[LimitState] = []
        self._checks: list[CheckCount] = []
        self._violations: dict[int, int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    async def render(self) -> bytes:
        """The gauges as text."""
        async with self._reading:  # several scrapers, one look
            if time.monotonic() - self._read_at > FRESH:
                await self._read()
        return generate_latest(self._registry)

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(READ_WITHIN), self._database.pool.session() as session:
                self._lanes = await waiting_lanes(session)
                self._workers = await count_workers(session)
                self._schedules = await count_schedules(session)
                self._limits = await list_limits(session)
                self._checks = await count_findings(session)
                self._violations = await count_violations(session)
        except (TimeoutError, DatabaseTrouble, DatabaseUnreachable) as error:
            self._lanes = None
            log.warning("the fleet's gauges cannot be read", error=str(error) or type(error).__name__)
        self._read_at = time.monotonic()

    def collect(self) -> Iterable[Metric]:
        if self._lanes is None:
            return
        labels = ("queue", "kind", "share")
        depth = GaugeMetricFamily("penstock_lane_depth", "Ready jobs, counted to 10,000 per band", labels=labels)
        age = GaugeMetricFamily("penstock_lane_oldest_seconds", "Age of the oldest ready job", labels=labels)
        for lane in self._lanes:
            depth.add_metric((lane.queue, lane.kind, lane.share), lane.depth)
            age.add_metric((lane.queue, lane.kind, lane.share), lane.oldest_age.total_seconds())
        yield from (depth, age)
        yield GaugeMetricFamily("penstock_workers_alive", "Workers within their lease", value=self._workers)
        schedules = GaugeMetricFamily("penstock_schedules", "Schedules of the fleet", labels=("state",))
        for state, count in self._schedules.items():
            schedules.add_metric((state,), count)
        yield schedules
        for name, words, value in LIMIT_GAUGES:
            gauge = GaugeMetricFamily(name, words, labels=("limit",))
            for limit in self._limits:
                gauge.add_metric((limit.name,), value(limit))
            yield gauge
        found = CounterMetricFamily("penstock_findings", "What checks of documents have found", labels=("check",))
        still = GaugeMetricFamily("penstock_findings_open", "Findings that are still there", labels=("check",))
        for check in self._checks:
            found.add_metric((check.name,), check.found)
            still.add_metric((check.name,), check.open)
        yield from (found, still)
        violated = GaugeMetricFamily(
            "penstock_invariant_violations", "Rows that break an invariant", labels=("number",)
        )
        for number, violations in self._violations.items():
            violated.add_metric((str(number),), violations)
        yield violated
