"""The alert rules for Prometheus.

An expression is built from the descriptions of metrics, so that a rule cannot name a metric that does not exist. Every process
reports the same gauges of the fleet, so a rule takes their maximum.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.database.pool import CONNECTIONS
from penstock.engine.metrics import LAG
from penstock.operations import metrics
from penstock.telemetry import MetricDescription, described

FIXED = described["penstock_fanouts_fixed_total"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule."""

    name: str
    expression: str
    lasting: str  # for so long before somebody is told
    severity: str  # critical: nothing goes on, or something impossible has happened; warning: look at it today
    summary: str  # with what Prometheus puts into braces
    advice: str


def fleet(metric: MetricDescription, *labels: str, where: str = "") -> str:
    """A gauge of the fleet: once, however many processes tell it."""
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"max{by} ({metric.name}{{{where}}})" if where else f"max{by} ({metric.name})"


def each(metric: MetricDescription, *labels: str, where: str = "") -> str:
    """A gauge of each process."""
    return f"max by ({', '.join(('instance', *labels))}) ({metric.name}{f'{{{where}}}' if where else ''})"


def _documents(event: str) -> str:
    return fleet(metrics.LATELY, where=f'event="{event}"')


def _workers(pattern: str) -> str:
    return f"sum({fleet(metrics.WORKERS_LATELY, 'event', where=f'event=~{json.dumps(pattern)}')})"


READY, PARTIAL, FAILED = _documents("ready"), _documents("partial"), _documents("failed")
LOST = "process_ended|lease_ended"


def list_alerts() -> list[Alert]:
    """All rules, those that are most urgent first."""
    alerts = [*_work_stops(), *_work_fails(), *_work_waits(), *_surroundings(), *_impossible()]
    return sorted(alerts, key=lambda alert: alert.severity != "critical")


def _work_stops() -> Iterator[Alert]:
    yield Alert(
        "PenstockAway",
        f"absent({metrics.WORKERS.name})",
        "5m",
        "critical",
        "No process of Penstock tells the gauges of the fleet.",
        "Either no process answers the scraper, or the database does not answer them: ask `/health/ready` of the API.",
    )
    yield Alert(
        "PenstockNoWorker",
        f"{fleet(metrics.WORKERS)} == 0",
        "1m",
        "critical",
        "No worker is alive: nothing that is enqueued will run.",
        "Start one with `penstock worker`. If there should be one, its log says why it ended.",
    )
    yield Alert(
        "PenstockUnservedKind",
        f"{fleet(metrics.UNSERVED, 'queue', 'kind')} > 0",
        "2m",
        "critical",
        "{{ $value }} ready jobs of the kind {{ $labels.kind }} (queue {{ $labels.queue }}) wait, and no live "
        "worker serves them.",
        "Start a worker for that queue and kind; `penstock fleet` lists who serves what.",
    )
    yield Alert(
        "PenstockWorkersRestart",
        f"{_workers(LOST)} > 3",
        "0m",
        "warning",
        "{{ $value }} workers were lost within an hour: their processes ended, or their leases.",
        "`penstock fleet` lists them with the reason. For want of memory: lower `extraction.memory` or the "
        "slots. Look for a document "
        "that takes its worker with it: `penstock dead list`.",
    )
    yield Alert(
        "PenstockLeasesExpire",
        f"{_workers('lease_ended')} / ({fleet(metrics.WORKERS)} + {_workers('left|process_ended|lease_ended')}) > 0.05",
        "0m",
        "warning",
        "{{ $value | humanizePercentage }} of the workers of the last hour lost their lease: they could not say "
        "that they live.",
        "A handler that blocks the event loop, a frozen machine, or a network that drops connections: see the "
        "log of the worker "
        "that `penstock fleet` names.",
    )


def _work_fails() -> Iterator[Alert]:
    yield Alert(
        "PenstockDocumentsFail",
        f"{FAILED} / ({READY} + {PARTIAL} + {FAILED}) > 0.1",
        "5m",
        "warning",
        "{{ $value | humanizePercentage }} of the documents that ended within an hour have failed.",
        "`penstock status` groups them by cause; `penstock why ID` tells about one. When it is mended: `penstock "
        "dead redrive`.",
    )
    yield Alert(
        "PenstockDocumentsPartial",
        f"{PARTIAL} / ({READY} + {PARTIAL}) > 0.1",
        "15m",
        "warning",
        "{{ $value | humanizePercentage }} of the documents that became ready within an hour have gaps.",
        "`penstock documents show ID` lists the gaps of one. Pages that OCR could not read are often a missing "
        "language "
        "(`collections.ocr_language`).",
    )
    yield Alert(
        "PenstockDeadLetters",
        f"sum({fleet(metrics.DEAD, 'kind')}) > 10",
        "5m",
        "warning",
        "{{ $value }} jobs are dead and wait for somebody's decision.",
        "`penstock dead list` groups them by cause; then `penstock dead redrive` or `penstock dead discard`.",
    )
    yield Alert(
        "PenstockFindingsOpen",
        f"{fleet(metrics.OPEN, 'check')} > 0",
        "30m",
        "warning",
        "The check {{ $labels.check }} has found {{ $value }} things about documents, files or index that it "
        "could not repair.",
        "`penstock doctor` tells each with what to do.",
    )


def _work_waits() -> Iterator[Alert]:
    yield Alert(
        "PenstockQueueDeep",
        f"{fleet(metrics.DOCUMENTS, where='status=' + json.dumps('queued'))} > 50",
        "10m",
        "warning",
        "{{ $value }} documents have been waiting for a worker.",
        "Start more workers, or raise `extraction.children` where there are cores to spare. Who always has so "
        "many raises the "
        "number in this rule.",
    )
    yield Alert(
        "PenstockQueueStale",
        f"{fleet(metrics.WAIT, 'queue', 'kind')} > 600",
        "1m",
        "warning",
        "A ready job of the kind {{ $labels.kind }} has waited for {{ $value | humanizeDuration }} although it "
        "is served.",
        "`penstock doctor` and `penstock why ID` say what is in its way: full slots, an empty limit, a pool "
        "without connections.",
    )
    yield Alert(
        "PenstockPoolWaits",
        f"{each(CONNECTIONS, where='state=' + json.dumps('waiting'))} > 0",
        "5m",
        "warning",
        "Work in {{ $labels.instance }} has been waiting for a connection to PostgreSQL.",
        "Raise `pool.size` if the server has room (`penstock fleet --budget`); else find who holds connections: "
        "the log names it.",
    )
    yield Alert(
        "PenstockLoopBlocked",
        f"{each(LAG)} > 1",
        "1m",
        "warning",
        "The event loop of {{ $labels.instance }} is {{ $value | humanizeDuration }} late again and again.",
        "A handler computes or blocks without giving way: put that into `asyncio.to_thread`.",
    )


def _surroundings() -> Iterator[Alert]:
    yield Alert(
        "PenstockSchedulesOverdue",
        f"{fleet(metrics.SCHEDULES, where='state=' + json.dumps('overdue'))} > 0",
        "5m",
        "warning",
        "{{ $value }} schedules should have ticked and did not.",
        "Every worker ticks: start one, or see its log for `schedules do not tick`.",
    )
    yield Alert(
        "PenstockBreakerOpen",
        f"{fleet(metrics.BREAKER, 'limit')} > 0",
        "10m",
        "warning",
        "The breaker of {{ $labels.limit }} is open: nothing that needs it runs.",
        "It closes by itself when a probe succeeds. If the cause is mended: `penstock limits close NAME`.",
    )
    yield Alert(
        "PenstockSourceTrouble",
        f"{fleet(metrics.TROUBLE, 'source')} > 0",
        "10m",
        "warning",
        "The source {{ $labels.source }} does not answer.",
        "`penstock sources list` tells the error and since when. Nothing is lost: it is read from where it was left.",
    )
    yield Alert(
        "PenstockMessagesFail",
        f"{fleet(metrics.INBOX, 'source', where='state=' + json.dumps('failed'))} > 0",
        "10m",
        "warning",
        "{{ $value }} messages of the source {{ $labels.source }} could not be taken.",
        "`penstock inbox list --state failed` tells why; their jobs are dead letters.",
    )
    yield Alert(
        "PenstockDiskNearlyFull",
        f"min by (instance, folder) ({metrics.DISK.name}) < 0.1",
        "10m",
        "warning",
        "Less than a tenth of the disk with {{ $labels.folder }} is free, in {{ $labels.instance }}.",
        "Uploads are refused when it is full. Make room, or move `blobs.folder`.",
    )


def _impossible() -> Iterator[Alert]:
    yield Alert(
        "PenstockScheduleTwice",
        f"{fleet(metrics.DUPLICATES)} > 0",
        "5m",
        "critical",
        "{{ $value }} schedules do what another one does, at the same moments.",
        "`penstock schedules list` shows them: pause or remove all but one.",
    )
    yield Alert(
        "PenstockFanoutMended",
        f"sum(increase({FIXED.name}[1h])) > 0",
        "0m",
        "critical",
        "A fan-out had a wrong count, which the sweep has mended. It cannot happen.",
        "Keep the logs of the last hour, and report it.",
    )
    yield Alert(
        "PenstockInvariantViolated",
        f"{fleet(metrics.VIOLATIONS)} > 0",
        "0m",
        "critical",
        "{{ $value }} violations of what must always be true.",
        "`penstock invariants` lists them with the rows.",
    )


def rules_file() -> str:
    """The rules as YAML; each text is written as JSON has it, which YAML can read."""
    lines = [
        "# Made by `./dev generate` from tools/alerts.py: change it there.",
        "groups:",
        "  - name: penstock",
        "    rules:",
    ]
    for alert in list_alerts():
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {_text(alert.expression)}",
            f"        for: {alert.lasting}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {_text(alert.summary)}",
            f"          description: {_text(alert.advice)}",
        ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def alerts_table() -> str:
    """The table of docs/metrics.md."""
    rows = ["| alert | severity | for | when | what to do |\n|---|---|---|---|---|\n"]
    for alert in list_alerts():
        summary = alert.summary.replace("{{ ", "`{{ ").replace(" }}", " }}`")
        rows.append(f"| `{alert.name}` | {alert.severity} | {alert.lasting} | {summary} | {alert.advice} |\n")
    return "".join(rows)
