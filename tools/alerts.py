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
    lasting: str  # how long the expression holds before operators are alerted
    severity: str  # critical: nothing runs, or something impossible has happened; warning: check it today
    summary: str  # with what Prometheus puts into braces
    advice: str


def fleet(metric: MetricDescription, *labels: str, where: str = "") -> str:
    """A gauge of the fleet: once, however many processes report it."""
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
        "No process of Penstock reports the gauges of the fleet.",
        "Either no process answers the scraper, or the database does not answer them: see `/health/ready` of the API.",
    )
    yield Alert(
        "PenstockNoWorker",
        f"{fleet(metrics.WORKERS)} == 0",
        "1m",
        "critical",
        "No worker is running: nothing that is enqueued will run.",
        "Start one with `penstock worker`. If there should be one, its log shows why it ended.",
    )
    yield Alert(
        "PenstockUnservedKind",
        f"{fleet(metrics.UNSERVED, 'queue', 'kind')} > 0",
        "2m",
        "critical",
        "{{ $value }} ready jobs of the kind {{ $labels.kind }} (queue {{ $labels.queue }}) wait, and no running "
        "worker serves them.",
        "Start a worker for that queue and kind; `penstock fleet` lists the queues and kinds of each worker.",
    )
    yield Alert(
        "PenstockWorkersRestart",
        f"{_workers(LOST)} > 3",
        "0m",
        "warning",
        "{{ $value }} workers were lost within an hour: their processes ended, or their leases.",
        "`penstock fleet` lists them with the reason. If they ran out of memory, lower `extraction.memory` or the slots. "
        "`penstock dead list` shows documents that crash their workers.",
    )
    yield Alert(
        "PenstockLeasesExpire",
        f"{_workers('lease_ended')} / ({fleet(metrics.WORKERS)} + {_workers('left|process_ended|lease_ended')}) > 0.05",
        "0m",
        "warning",
        "{{ $value | humanizePercentage }} of the workers of the last hour lost their lease: their heartbeats did not "
        "arrive.",
        "A handler that blocks the event loop, a frozen machine, or a network that drops connections: see the log of the "
        "worker that `penstock fleet` names.",
    )


def _work_fails() -> Iterator[Alert]:
    yield Alert(
        "PenstockDocumentsFail",
        f"{FAILED} / ({READY} + {PARTIAL} + {FAILED}) > 0.1",
        "5m",
        "warning",
        "{{ $value | humanizePercentage }} of the documents that ended within an hour have failed.",
        "`penstock status` lists those that could not be read: replace or dismiss them. `penstock dead list` groups the "
        "others by cause. When it is fixed: `penstock dead redrive`.",
    )
    yield Alert(
        "PenstockDocumentsPartial",
        f"{PARTIAL} / ({READY} + {PARTIAL}) > 0.1",
        "15m",
        "warning",
        "{{ $value | humanizePercentage }} of the documents that became ready within an hour are only partly readable.",
        "`penstock documents list --partial` lists them. Pages that OCR could not read often have another language than "
        "`collections.ocr_language`.",
    )
    yield Alert(
        "PenstockDeadLetters",
        f"sum({fleet(metrics.DEAD, 'kind')}) > 10",
        "5m",
        "warning",
        "{{ $value }} jobs have failed permanently and wait for a decision.",
        "`penstock dead list` groups them by cause; then `penstock dead redrive` or `penstock dead discard`.",
    )
    yield Alert(
        "PenstockFindingsOpen",
        f"{fleet(metrics.OPEN, 'check')} > 0",
        "30m",
        "warning",
        "The check {{ $labels.check }} has found {{ $value }} faults of documents, files or index that it could not "
        "repair.",
        "`penstock doctor` shows each with its fix.",
    )


def _work_waits() -> Iterator[Alert]:
    yield Alert(
        "PenstockQueueDeep",
        f"{fleet(metrics.DOCUMENTS, where='status=' + json.dumps('queued'))} > 50",
        "10m",
        "warning",
        "{{ $value }} documents have been waiting for a worker.",
        "Start more workers, or raise `extraction.children` where cores are idle. If so many are usual, raise the threshold "
        "of this rule.",
    )
    yield Alert(
        "PenstockQueueStale",
        f"{fleet(metrics.WAIT, 'queue', 'kind')} > 600",
        "1m",
        "warning",
        "A ready job of the kind {{ $labels.kind }} has waited for {{ $value | humanizeDuration }} although it "
        "is served.",
        "`penstock doctor` and `penstock why ID` show the cause: full slots, an exhausted limit, a pool without free "
        "connections.",
    )
    yield Alert(
        "PenstockPoolWaits",
        f"{each(CONNECTIONS, where='state=' + json.dumps('waiting'))} > 0",
        "5m",
        "warning",
        "Calls in {{ $labels.instance }} have been waiting for a connection to PostgreSQL.",
        "Raise `pool.size` if the server has connections left (`penstock fleet --budget`); else the log names the code that "
        "holds them.",
    )
    yield Alert(
        "PenstockLoopBlocked",
        f"{each(LAG)} > 1",
        "1m",
        "warning",
        "The event loop of {{ $labels.instance }} is blocked for {{ $value | humanizeDuration }} at a time.",
        "A handler computes or blocks without yielding: move that into `asyncio.to_thread`.",
    )


def _surroundings() -> Iterator[Alert]:
    yield Alert(
        "PenstockSchedulesOverdue",
        f"{fleet(metrics.SCHEDULES, where='state=' + json.dumps('overdue'))} > 0",
        "5m",
        "warning",
        "{{ $value }} schedules should have fired and did not.",
        "Every worker fires schedules: start one, or see its log for `schedules do not tick`.",
    )
    yield Alert(
        "PenstockBreakerOpen",
        f"{fleet(metrics.BREAKER, 'limit')} > 0",
        "10m",
        "warning",
        "The breaker of {{ $labels.limit }} is open: jobs that need it wait.",
        "It closes when a probe succeeds. If the cause is fixed: `penstock limits close LIMIT`.",
    )
    yield Alert(
        "PenstockSourceTrouble",
        f"{fleet(metrics.TROUBLE, 'source')} > 0",
        "10m",
        "warning",
        "The source {{ $labels.source }} does not answer.",
        "`penstock sources list` shows the error and since when. Nothing is lost: it is read from where it was left.",
    )
    yield Alert(
        "PenstockMessagesFail",
        f"{fleet(metrics.INBOX, 'source', where='state=' + json.dumps('failed'))} > 0",
        "10m",
        "warning",
        "{{ $value }} messages of the source {{ $labels.source }} have failed.",
        "`penstock inbox list --state failed` shows why; their jobs are dead letters.",
    )
    yield Alert(
        "PenstockDiskNearlyFull",
        f"min by (instance, folder) ({metrics.DISK.name}) < 0.1",
        "10m",
        "warning",
        "Less than a tenth of the disk with {{ $labels.folder }} is free, in {{ $labels.instance }}.",
        "Uploads are refused when it is full. Free space, or move `blobs.folder`.",
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
        "PenstockFanoutFixed",
        f"sum(increase({FIXED.name}[1h])) > 0",
        "0m",
        "critical",
        "A fan-out had a wrong count, which maintenance has corrected. This should be impossible.",
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
    """The rules as YAML; each text is a JSON string, which is also YAML."""
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
