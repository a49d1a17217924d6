"""The dashboard for Grafana, built from the descriptions of metrics.

It needs nothing but a data source of the type Prometheus, which Grafana asks for when the file is imported.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.database.pool import CONNECTIONS
from penstock.engine import metrics as engine_metrics
from penstock.operations import metrics
from penstock.pipelines.metrics import PREPARED
from penstock.telemetry import described
from penstock.web.server import request_seconds  # noqa: F401  declares its metric
from tools.alerts import each, fleet

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, ACROSS = 8, 8, 24

ACCEPTED = described["penstock_documents_accepted_total"]
DOCUMENT_SECONDS = described["penstock_document_seconds"]
ARRIVALS = described["penstock_inbox_messages_total"]
POOL_WAIT = described["penstock_pool_wait_seconds"]
REQUEST_SECONDS = described["penstock_http_request_seconds"]
LLM_COST = described["penstock_llm_cost_total"]
SEARCH = 'route=~"/api/search|/api/facts/search|/search"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its title, its unit, and the expressions with their legends."""

    title: str
    unit: str
    targets: Sequence[tuple[str, str]]
    description: str = ""
    type: str = "timeseries"


def list_panels() -> list[Panel]:
    return [*_documents(), *_requests(), *_queue(), *_workers(), *_surroundings()]


def _rate(name: str, *labels: str) -> str:
    return f"sum by ({', '.join(labels)}) (rate({name}[5m]))"


def _quantile(part: float, name: str, *labels: str, where: str = "") -> str:
    selected = f"{name}_bucket{{{where}}}" if where else f"{name}_bucket"
    return f"histogram_quantile({part}, sum by ({', '.join(('le', *labels))}) (rate({selected}[5m])))"


def _documents() -> Iterator[Panel]:
    status = fleet(metrics.DOCUMENTS, "status")
    yield Panel("Documents", "short", [(status, "{{status}}")], metrics.DOCUMENTS.help, type="stat")
    yield Panel(
        "Accepted and prepared, per second",
        "ops",
        [(_rate(ACCEPTED.name, "outcome"), "accepted: {{outcome}}"), (_rate(PREPARED.name, "outcome"), "{{outcome}}")],
        "Of the processes that are scraped, workers included.",
    )
    yield Panel("Within the last hour", "short", [(fleet(metrics.LATELY, "event"), "{{event}}")], metrics.LATELY.help)
    yield Panel(
        "From accepted to ready",
        "s",
        [
            (_quantile(0.5, DOCUMENT_SECONDS.name), "half of them"),
            (_quantile(0.95, DOCUMENT_SECONDS.name), "95 %"),
        ],
        DOCUMENT_SECONDS.help,
    )
    yield Panel("Dead letters", "short", [(fleet(metrics.DEAD, "kind"), "{{kind}}")], metrics.DEAD.help)
    yield Panel("Open findings", "short", [(fleet(metrics.OPEN, "check"), "{{check}}")], metrics.OPEN.help)


def _requests() -> Iterator[Panel]:
    yield Panel(
        "HTTP latency, 95 %",
        "s",
        [(f"topk(20, {_quantile(0.95, REQUEST_SECONDS.name, 'route', 'method')})", "{{method}} {{route}}")],
        REQUEST_SECONDS.help,
    )
    yield Panel(
        "Search latency",
        "s",
        [
            (_quantile(0.5, REQUEST_SECONDS.name, where=SEARCH), "half of them"),
            (_quantile(0.95, REQUEST_SECONDS.name, where=SEARCH), "95 %"),
        ],
        "Seconds until the answer of a search began, by the API or on the page.",
    )
    yield Panel(
        "Cost of language models, per hour",
        "short",
        [(f"sum by (llm) (increase({LLM_COST.name}[1h]))", "{{llm}}")],
        LLM_COST.help,
    )


def _queue() -> Iterator[Panel]:
    lanes = fleet(metrics.READY, *metrics.LANE)
    yield Panel(
        "Ready jobs per lane",
        "short",
        [(f"topk(20, {lanes})", "{{queue}} {{kind}} {{fairness_key}}")],
        metrics.READY.help,
    )
    yield Panel(
        "Oldest that is served", "s", [(fleet(metrics.WAIT, "queue", "kind"), "{{queue}} {{kind}}")], metrics.WAIT.help
    )
    yield Panel("Jobs by state", "short", [(fleet(metrics.JOBS, "state"), "{{state}}")], metrics.JOBS.help)
    yield Panel(
        "Attempts per second",
        "ops",
        [(_rate(engine_metrics.ATTEMPTS.name, "kind", "outcome"), "{{kind}}: {{outcome}}")],
        engine_metrics.ATTEMPTS.help,
    )
    yield Panel(
        "Duration of attempts, 95 %",
        "s",
        [(_quantile(0.95, engine_metrics.SECONDS.name, "kind"), "{{kind}}")],
        engine_metrics.SECONDS.help,
    )
    yield Panel(
        "Unserved", "short", [(fleet(metrics.UNSERVED, "queue", "kind"), "{{queue}} {{kind}}")], metrics.UNSERVED.help
    )


def _workers() -> Iterator[Panel]:
    yield Panel(
        "Workers",
        "short",
        [(fleet(metrics.WORKERS), "alive"), (fleet(metrics.SERVING), "for documents")],
        metrics.WORKERS.help,
    )
    yield Panel(
        "Started and ended within an hour",
        "short",
        [(fleet(metrics.WORKERS_LATELY, "event"), "{{event}}")],
        "Of all workers.",
    )
    yield Panel(
        "Handlers at work",
        "short",
        [(f"sum by (kind) ({engine_metrics.RUNNING.name})", "{{kind}}")],
        engine_metrics.RUNNING.help,
    )
    yield Panel("Connections", "short", [(each(CONNECTIONS, "state"), "{{instance}} {{state}}")], CONNECTIONS.help)
    yield Panel(
        "Waiting for a connection, 95 %",
        "s",
        [(_quantile(0.95, POOL_WAIT.name, "instance"), "{{instance}}")],
        POOL_WAIT.help,
    )
    yield Panel("Event loop", "s", [(each(engine_metrics.LAG), "{{instance}}")], engine_metrics.LAG.help)


def _surroundings() -> Iterator[Panel]:
    used, granted, concurrency = (metric for metric, _ in metrics.LIMITS[:3])
    yield Panel(
        "Limits",
        "short",
        [
            (fleet(used, "limit"), "{{limit}} used"),
            (fleet(granted, "limit"), "{{limit}} granted"),
            (fleet(concurrency, "limit"), "{{limit}} concurrency"),
        ],
        "Permits in use, permits granted to workers, and the concurrent calls that they currently allow.",
    )
    yield Panel("Open breakers", "short", [(fleet(metrics.BREAKER, "limit"), "{{limit}}")], metrics.BREAKER.help)
    yield Panel("Schedules", "short", [(fleet(metrics.SCHEDULES, "state"), "{{state}}")], metrics.SCHEDULES.help)
    yield Panel(
        "Messages of sources, per second",
        "ops",
        [(_rate(ARRIVALS.name, "source", "outcome"), "{{source}}: {{outcome}}")],
        ARRIVALS.help,
    )
    yield Panel(
        "Inbox and sources in trouble",
        "short",
        [
            (fleet(metrics.INBOX, "source", "state"), "{{source}} {{state}}"),
            (fleet(metrics.TROUBLE, "source"), "{{source}} in trouble"),
        ],
        metrics.INBOX.help,
    )
    yield Panel(
        "Free disk",
        "percentunit",
        [(f"min by (instance, folder) ({metrics.DISK.name})", "{{instance}} {{folder}}")],
        metrics.DISK.help,
    )


def dashboard_file() -> str:
    """The dashboard as Grafana reads it."""
    dashboard = {
        "uid": "penstock",
        "title": "Penstock",
        "tags": ["penstock"],
        "description": "Made by `./dev generate` from tools/dashboard.py: change it there.",
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
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": column, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": [
            {"refId": chr(ord("A") + turn), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for turn, (expression, legend) in enumerate(panel.targets)
        ],
    }
