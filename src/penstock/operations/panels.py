"""The dashboard for Grafana, made of the metrics that the processes really have.

`penstock metrics dashboard` prints the file that is kept as deploy/grafana/penstock.json. It needs nothing but a data source of
the type Prometheus, which is asked for when the file is imported.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.database.pool import CONNECTIONS
from penstock.engine import tally
from penstock.operations import gauges
from penstock.operations.alerts import each, fleet
from penstock.pipelines.ends import PREPARED
from penstock.telemetry import described

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, ACROSS = 8, 8, 24

ACCEPTED = described["penstock_documents_accepted_total"]
DOCUMENT_SECONDS = described["penstock_document_seconds"]
ARRIVALS = described["penstock_inbox_messages_total"]
POOL_WAIT = described["penstock_pool_wait_seconds"]


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture: what it shows, in which unit, and the questions with their legends."""

    title: str
    unit: str
    targets: Sequence[tuple[str, str]]
    words: str = ""
    type: str = "timeseries"


def list_panels() -> list[Panel]:
    return [*_documents(), *_queue(), *_workers(), *_surroundings()]


def _rate(name: str, *labels: str) -> str:
    return f"sum by ({', '.join(labels)}) (rate({name}[5m]))"


def _quantile(part: float, name: str, *labels: str) -> str:
    return f"histogram_quantile({part}, sum by ({', '.join(('le', *labels))}) (rate({name}_bucket[5m])))"


def _documents() -> Iterator[Panel]:
    status = fleet(gauges.DOCUMENTS, "status")
    yield Panel("Documents", "short", [(status, "{{status}}")], gauges.DOCUMENTS.words, type="stat")
    yield Panel(
        "Accepted and prepared, per second",
        "ops",
        [(_rate(ACCEPTED.name, "outcome"), "accepted: {{outcome}}"), (_rate(PREPARED.name, "outcome"), "{{outcome}}")],
        "Of the processes that are scraped, workers included.",
    )
    yield Panel("Within the last hour", "short", [(fleet(gauges.LATELY, "event"), "{{event}}")], gauges.LATELY.words)
    yield Panel(
        "From accepted to ready",
        "s",
        [
            (_quantile(0.5, DOCUMENT_SECONDS.name), "half of them"),
            (_quantile(0.95, DOCUMENT_SECONDS.name), "95 %"),
        ],
        DOCUMENT_SECONDS.words,
    )
    yield Panel("Dead letters", "short", [(fleet(gauges.DEAD, "kind"), "{{kind}}")], gauges.DEAD.words)
    yield Panel("Open findings", "short", [(fleet(gauges.OPEN, "check"), "{{check}}")], gauges.OPEN.words)


def _queue() -> Iterator[Panel]:
    lanes = fleet(gauges.DEPTH, *gauges.LANE)
    yield Panel("Depth per lane", "short", [(f"topk(20, {lanes})", "{{queue}} {{kind}} {{share}}")], gauges.DEPTH.words)
    yield Panel(
        "Oldest that is served", "s", [(fleet(gauges.WAIT, "queue", "kind"), "{{queue}} {{kind}}")], gauges.WAIT.words
    )
    yield Panel("Jobs by state", "short", [(fleet(gauges.JOBS, "state"), "{{state}}")], gauges.JOBS.words)
    yield Panel(
        "Attempts per second",
        "ops",
        [(_rate(tally.ATTEMPTS.name, "kind", "outcome"), "{{kind}}: {{outcome}}")],
        tally.ATTEMPTS.words,
    )
    yield Panel(
        "Duration of attempts, 95 %",
        "s",
        [(_quantile(0.95, tally.SECONDS.name, "kind"), "{{kind}}")],
        tally.SECONDS.words,
    )
    yield Panel(
        "Unserved", "short", [(fleet(gauges.UNSERVED, "queue", "kind"), "{{queue}} {{kind}}")], gauges.UNSERVED.words
    )


def _workers() -> Iterator[Panel]:
    yield Panel(
        "Workers",
        "short",
        [(fleet(gauges.WORKERS), "alive"), (fleet(gauges.SERVING), "for documents")],
        gauges.WORKERS.words,
    )
    yield Panel(
        "Came and went within an hour",
        "short",
        [(fleet(gauges.WORKERS_LATELY, "event"), "{{event}}")],
        "Of all workers.",
    )
    yield Panel(
        "Handlers at work", "short", [(f"sum by (kind) ({tally.RUNNING.name})", "{{kind}}")], tally.RUNNING.words
    )
    yield Panel("Connections", "short", [(each(CONNECTIONS, "state"), "{{instance}} {{state}}")], CONNECTIONS.words)
    yield Panel(
        "Waiting for a connection, 95 %",
        "s",
        [(_quantile(0.95, POOL_WAIT.name, "instance"), "{{instance}}")],
        POOL_WAIT.words,
    )
    yield Panel("Event loop", "s", [(each(tally.LAG), "{{instance}}")], tally.LAG.words)


def _surroundings() -> Iterator[Panel]:
    used, granted, level = (metric for metric, _ in gauges.LIMITS[:3])
    yield Panel(
        "Limits",
        "short",
        [
            (fleet(used, "limit"), "{{limit}} used"),
            (fleet(granted, "limit"), "{{limit}} granted"),
            (fleet(level, "limit"), "{{limit}} level"),
        ],
        "Permits in use, permits given to workers, and how many calls they dare to have at once.",
    )
    yield Panel("Open breakers", "short", [(fleet(gauges.BREAKER, "limit"), "{{limit}}")], gauges.BREAKER.words)
    yield Panel("Schedules", "short", [(fleet(gauges.SCHEDULES, "state"), "{{state}}")], gauges.SCHEDULES.words)
    yield Panel(
        "Messages of sources, per second",
        "ops",
        [(_rate(ARRIVALS.name, "source", "outcome"), "{{source}}: {{outcome}}")],
        ARRIVALS.words,
    )
    yield Panel(
        "Inbox and sources in trouble",
        "short",
        [
            (fleet(gauges.INBOX, "source", "state"), "{{source}} {{state}}"),
            (fleet(gauges.TROUBLE, "source"), "{{source}} in trouble"),
        ],
        gauges.INBOX.words,
    )
    yield Panel(
        "Free disk",
        "percentunit",
        [(f"min by (instance, folder) ({gauges.DISK.name})", "{{instance}} {{folder}}")],
        gauges.DISK.words,
    )


def dashboard_file() -> str:
    """The dashboard as Grafana reads it."""
    dashboard = {
        "uid": "penstock",
        "title": "Penstock",
        "tags": ["penstock"],
        "description": "Made by `penstock metrics dashboard`: change src/penstock/operations/panels.py instead.",
        "editable": True,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_draw(number, panel) for number, panel in enumerate(list_panels())],
    }
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def _draw(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number * WIDTH, ACROSS)
    return {
        "id": number + 1,
        "type": panel.type,
        "title": panel.title,
        "description": panel.words,
        "datasource": SOURCE,
        "gridPos": {"x": column, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": [
            {"refId": chr(ord("A") + turn), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for turn, (expression, legend) in enumerate(panel.targets)
        ],
    }
