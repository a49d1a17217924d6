"""The gauges of the whole fleet, read from PostgreSQL for a scrape, at most every five seconds.

Every process answers with the same gauges, so a scraper may ask any of them and takes the maximum. When the database does not
answer, the gauges are absent rather than old. The cost of no statement grows with the documents.
"""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import asyncpg
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock import engine
from penstock.database import Database, Session, all_tenants, statements
from penstock.documents import PREPARE, UNREADABLE, count_everywhere, count_lately
from penstock.engine import count_schedules
from penstock.engine.inspect import count_states, count_workers, served_waits, waiting_lanes
from penstock.engine.limits import LimitState, list_limits
from penstock.errors import DatabaseTrouble, DatabaseUnreachable
from penstock.operations.doctor.engine import DOCUMENT_KINDS
from penstock.operations.invariants import count_violations
from penstock.settings import Settings
from penstock.telemetry import MetricDescription, describe, log

sql = statements(__file__)

FRESH = 5.0  # seconds for which the gauges are not read again
READ_WITHIN = 2.0  # seconds: a scraper gives up after ten, and wants the other metrics all the same
MOST = 10_000  # of anything that is counted row by row

Samples = list[tuple[tuple[str, ...], float]]


def _gauge(name: str, documentation: str, *labels: str) -> MetricDescription:
    return describe("gauge", f"penstock_{name}", documentation, labels, fleet=True)


LANE = ("queue", "kind", "fairness_key")
READY = _gauge("lane_ready_jobs", "Ready jobs, counted to 10,000 over the first 200 lanes, but to 100 in each", *LANE)
OLDEST = _gauge("lane_oldest_seconds", "Age of the oldest ready job, since it was enqueued", *LANE)
UNSERVED = _gauge("unserved_jobs", "Ready jobs that no running worker serves", "queue", "kind")
WAIT = _gauge("queue_wait_seconds", "Age of the oldest ready job that is served and was never tried", "queue", "kind")
JOBS = _gauge(
    "jobs", "Jobs that are not over: ready, quarantined, later, running, waiting, dead; each counted to 10,000", "state"
)
DEAD = _gauge(
    "dead_letters",
    "Dead jobs that wait for a decision, counted to 10,000; without documents whose content cannot be read",
    "kind",
)
WORKERS = _gauge("workers_alive", "Workers within their lease")
SERVING = _gauge("workers_serving_documents", "Running workers that serve documents")
WORKERS_LATELY = _gauge(
    "workers_lately", "Workers within the last hour: started, left, process_ended, lease_ended", "event"
)
DOCUMENTS = _gauge(
    "documents",
    "Documents: queued and processing (counted to 10,000 together), ready, failed (to 10,000), deleted",
    "status",
)
LATELY = _gauge(
    "documents_lately",
    "Documents within the last hour: accepted, ready, partial (partly readable), failed; of the newest 5,000 events",
    "event",
)
SCHEDULES = _gauge("schedules", "Schedules: active, overdue, paused, retired", "state")
DUPLICATES = _gauge("schedule_duplicates", "Schedules that do what another one does, at the same moments: should be 0")
INBOX = _gauge(
    "inbox_unsettled", "Messages of a source: waiting, failed; counted to 10,000 together", "source", "state"
)
TROUBLE = _gauge("source_trouble", "1 while a source does not answer", "source")
SILENT = _gauge("source_silent_seconds", "Time since a source last answered", "source")
FOUND = describe(
    "counter",
    "penstock_findings",
    "Faults that the checks of documents, blobs and index have found",
    ("check",),
    fleet=True,
)
OPEN = _gauge("findings_open", "Findings of checks that are still open", "check")
VIOLATIONS = _gauge("invariant_violations", "Rows that break an invariant", "number")
READING = describe("gauge", "penstock_gauges_seconds", "Time this process took to read the gauges of the fleet")
BREAKER = _gauge("breaker_open", "1 while the breaker is open, after too many failures", "limit")
LIMITS: tuple[tuple[MetricDescription, Callable[[LimitState], float]], ...] = (
    (_gauge("limit_used", "Permits in use, over the fleet", "limit"), lambda limit: limit.used),
    (_gauge("limit_granted", "Permits granted to workers", "limit"), lambda limit: limit.granted),
    (
        _gauge("limit_concurrency", "Concurrent calls that the workers currently allow (adaptive)", "limit"),
        lambda limit: limit.concurrency,
    ),
    (BREAKER, lambda limit: limit.opened_at is not None),
)
DISK = describe("gauge", "penstock_disk_free_ratio", "Free part of the disk with the files of documents", ("folder",))


class FleetGauges(Collector):
    """One for each process that answers scrapers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._disk = Disk(database.settings)
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._samples: dict[MetricDescription, Samples] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    async def render(self) -> bytes:
        async with self._reading:  # several scrapers, one reading
            if time.monotonic() - self._read_at > FRESH:
                await self._read()
        return generate_latest(self._registry)

    async def _read(self) -> None:
        began = time.monotonic()
        self._samples = await self._disk.measure()
        try:
            # The scraper belongs to a tenant; the gauges are about all tenants.
            with all_tenants():
                async with asyncio.timeout(READ_WITHIN), self._database.pool.session() as session:
                    self._samples |= await read_fleet(session)
            self._samples[READING] = [((), time.monotonic() - began)]
        except (TimeoutError, DatabaseTrouble, DatabaseUnreachable, asyncpg.PostgresError) as error:
            # The last: a table that the schema of the release before does not have. Metrics of the process are served anyway.
            log.warning("the fleet's gauges cannot be read", error=str(error) or type(error).__name__)
        self._read_at = time.monotonic()

    def collect(self) -> Iterable[Metric]:
        for metric, samples in self._samples.items():
            make = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
            family = make(metric.family, metric.help, labels=metric.labels)
            for labels, value in samples:
                family.add_metric(labels, value)
            yield family


async def read_fleet(session: Session) -> dict[MetricDescription, Samples]:
    """All gauges of the fleet, in a dozen short statements."""
    samples: dict[MetricDescription, Samples] = {}
    for read in (_read_lanes, _read_jobs, _read_workers, _read_documents, _read_schedules, _read_sources, _read_limits):
        samples |= await read(session)
    checks = await sql.count_findings(session)
    samples[FOUND] = [((check["name"],), check["found"]) for check in checks]
    samples[OPEN] = [((check["name"],), check["open"]) for check in checks]
    samples[VIOLATIONS] = _by_label({str(number): rows for number, rows in (await count_violations(session)).items()})
    return samples


async def _read_lanes(session: Session) -> dict[MetricDescription, Samples]:
    lanes = await waiting_lanes(session)
    unserved: Counter[tuple[str, ...]] = Counter()
    for lane in lanes:
        if not (lane.open or lane.paused or lane.shut):
            unserved[lane.queue, lane.kind] += lane.ready
    return {
        READY: [((lane.queue, lane.kind, lane.fairness_key), lane.ready) for lane in lanes],
        OLDEST: [((lane.queue, lane.kind, lane.fairness_key), lane.oldest_age.total_seconds()) for lane in lanes],
        UNSERVED: list(unserved.items()),
        WAIT: [((wait.queue, wait.kind), wait.seconds) for wait in await served_waits(session)],
    }


async def _read_jobs(session: Session) -> dict[MetricDescription, Samples]:
    rows = await sql.count_dead(session, most=MOST, kinds=list(DOCUMENT_KINDS), unreadable=UNREADABLE)
    states = await count_states(session, MOST)
    states["dead"] = sum(row["count"] for row in rows)
    return {JOBS: _by_label(states), DEAD: _by_label({row["kind"]: row["count"] for row in rows if not row["unread"]})}


async def _read_workers(session: Session) -> dict[MetricDescription, Samples]:
    [lately] = await sql.count_workers_lately(session, most=MOST)
    return {
        WORKERS: [((), await count_workers(session))],
        SERVING: [((), await engine.count_serving(session, PREPARE))],
        WORKERS_LATELY: _by_label(dict(lately)),
    }


async def _read_documents(session: Session) -> dict[MetricDescription, Samples]:
    return {DOCUMENTS: _by_label(await count_everywhere(session)), LATELY: _by_label(await count_lately(session))}


async def _read_schedules(session: Session) -> dict[MetricDescription, Samples]:
    return {
        SCHEDULES: _by_label(await count_schedules(session)),
        DUPLICATES: [((), await sql.count_duplicates.value(session))],
    }


async def _read_sources(session: Session) -> dict[MetricDescription, Samples]:
    sources = await sql.list_sources(session)
    messages = await sql.count_inbox(session, most=MOST)
    return {
        TROUBLE: [((row["name"],), row["trouble"]) for row in sources],
        SILENT: [((row["name"],), row["silent_for"]) for row in sources if row["silent_for"] is not None],
        INBOX: [((row["source"], row["state"]), row["count"]) for row in messages],
    }


async def _read_limits(session: Session) -> dict[MetricDescription, Samples]:
    limits = await list_limits(session)
    return {metric: [((limit.name,), value(limit)) for limit in limits] for metric, value in LIMITS}


class Disk:
    """The free space of the disk with the files of documents, on this machine; nothing for a bucket."""

    def __init__(self, settings: Settings) -> None:
        self._folder = None if settings.blobs.url else settings.blobs.folder or settings.home / "blobs"
        self._measuring: asyncio.Future[float] | None = None

    async def measure(self) -> dict[MetricDescription, Samples]:
        """In a thread, and in one only: a folder may be on a server that does not answer."""
        if self._folder is None:
            return {}
        if self._measuring is None:
            self._measuring = asyncio.ensure_future(asyncio.to_thread(_free_part, self._folder))
        done, _ = await asyncio.wait({self._measuring}, timeout=READ_WITHIN)
        if not done:
            log.warning("the disk does not answer", folder=str(self._folder))
            return {}
        measured, self._measuring = self._measuring, None
        try:
            return {DISK: [((str(self._folder),), measured.result())]}
        except OSError as error:
            log.warning("the disk cannot be measured", folder=str(self._folder), error=str(error))
            return {}


def _free_part(folder: Path) -> float:
    """Of the folder, or of the one in which it will be made."""
    usage = shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists()))
    return usage.free / usage.total if usage.total else 0.0


def _by_label(counts: dict[str, int]) -> Samples:
    return [((label,), count) for label, count in counts.items()]
