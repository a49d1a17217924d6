"""Every alert against recorded series, by Prometheus' own promtool: it fires when it should, and not before."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import need_program
from tools.alerts import Alert, list_alerts
from tools.dashboard import list_panels

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).parents[2] / "deploy/prometheus"
MINUTES = 60
# Two processes tell the same about the fleet: it must not be counted twice.
A, B = 'instance="a"', 'instance="b"'


@dataclass(frozen=True)
class Case:
    """Series that fire an alert, and series that are just not enough."""

    fires: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)


def fleet(name: str, value: float, **labels: str) -> dict[str, str]:
    inside = "".join(f',{key}="{text}"' for key, text in labels.items())
    return {f"{name}{{{each}{inside}}}": f"{value}x{MINUTES}" for each in (A, B)}


def workers(alive: int, **lately: int) -> dict[str, str]:
    found = fleet("penstock_workers_alive", alive)
    for event in ("started", "left", "process_ended", "lease_ended"):
        found |= fleet("penstock_workers_lately", lately.get(event, 0), event=event)
    return found


def documents(**lately: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in ("accepted", "ready", "partial", "failed"):
        found |= fleet("penstock_documents_lately", lately.get(event, 0), event=event)
    return found


def one(name: str, fires: float, quiet: float, shown: dict[str, str] | None = None, **hidden: str) -> Case:
    labels = shown or {}
    return Case(fleet(name, fires, **labels, **hidden), fleet(name, quiet, **labels, **hidden), labels)


def process(name: str, fires: str, quiet: str, **labels: str) -> Case:
    inside = "".join(f',{key}="{text}"' for key, text in labels.items())
    return Case({f"{name}{{{A}{inside}}}": fires}, {f"{name}{{{A}{inside}}}": quiet}, {"instance": "a"})


CASES = {
    "PenstockAway": Case({}, workers(1)),
    "PenstockNoWorker": one("penstock_workers_alive", 0, 1),
    "PenstockUnservedKind": one("penstock_unserved_jobs", 1, 0, {"queue": "documents", "kind": "prepare_document"}),
    "PenstockWorkersRestart": Case(
        workers(2, process_ended=3, lease_ended=1, started=6), workers(2, process_ended=3, left=9, started=12)
    ),
    "PenstockLeasesExpire": Case(workers(10, lease_ended=1), workers(19, lease_ended=1)),
    "PenstockDocumentsFail": Case(
        documents(ready=85, partial=3, failed=12), documents(ready=80, partial=10, failed=10)
    ),
    "PenstockDocumentsPartial": Case(
        documents(ready=80, partial=20, failed=5), documents(ready=90, partial=10, failed=50)
    ),
    "PenstockDeadLetters": Case(
        fleet("penstock_dead_letters", 6, kind="read") | fleet("penstock_dead_letters", 5, kind="bill"),
        fleet("penstock_dead_letters", 6, kind="read") | fleet("penstock_dead_letters", 4, kind="bill"),
    ),
    "PenstockFindingsOpen": one("penstock_findings_open", 1, 0, {"check": "blobs"}),
    "PenstockQueueDeep": one("penstock_documents", 51, 50, status="queued"),
    "PenstockQueueStale": one(
        "penstock_queue_wait_seconds", 601, 600, {"queue": "documents", "kind": "prepare_document"}
    ),
    "PenstockPoolWaits": process("penstock_pool_connections", f"2x{MINUTES}", "2 2 0 " * 20 + "2", state="waiting"),
    "PenstockLoopBlocked": process("penstock_loop_lag_seconds", f"2x{MINUTES}", f"0.2x{MINUTES}"),
    "PenstockSchedulesOverdue": one("penstock_schedules", 1, 0, state="overdue"),
    "PenstockBreakerOpen": one("penstock_breaker_open", 1, 0, {"limit": "llm"}),
    "PenstockSourceTrouble": one("penstock_source_trouble", 1, 0, {"source": "orders"}),
    "PenstockMessagesFail": one("penstock_inbox_unsettled", 1, 0, {"source": "orders"}, state="failed"),
    "PenstockDiskNearlyFull": Case(
        fleet("penstock_disk_free_ratio", 0.09, folder="/blobs"),
        fleet("penstock_disk_free_ratio", 0.11, folder="/blobs"),
        {"folder": "/blobs"},
    ),
    "PenstockScheduleTwice": one("penstock_schedule_duplicates", 1, 0),
    "PenstockFanoutFixed": Case(
        {f"penstock_fanouts_fixed_total{{{A}}}": f"0+0x30 1x{MINUTES - 30}"},
        {f"penstock_fanouts_fixed_total{{{A}}}": f"0x{MINUTES}"},
    ),
    "PenstockInvariantViolated": one("penstock_invariant_violations", 1, 0),
}


@pytest.fixture(scope="module")
def promtool() -> str:
    return need_program("promtool", "prometheus")


def run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_files_are_valid(promtool: str) -> None:
    assert f"{len(list_alerts())} rules found" in run(promtool, "check", "rules", str(DEPLOY / "penstock.rules.yml"))
    run(promtool, "check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml"))


def test_the_dashboard_asks_what_prometheus_understands(promtool: str, tmp_path: Path) -> None:
    asked = [expression for panel in list_panels() for expression, _ in panel.targets]
    rules = [{"record": f"asked:{turn}", "expr": expression} for turn, expression in enumerate(asked)]
    (tmp_path / "asked.yml").write_text(json.dumps({"groups": [{"name": "asked", "rules": rules}]}))
    assert f"{len(asked)} rules found" in run(promtool, "check", "rules", str(tmp_path / "asked.yml"))


def test_every_alert_has_a_case() -> None:
    assert {alert.name for alert in list_alerts()} <= CASES.keys()


def told(alert: Alert, series: dict[str, str], *, fires: bool) -> dict[str, Any]:
    """A test in promtool's words. Which labels and texts it fires with is asked of promtool itself, below."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"}}) > 0 or vector(0)',
                "eval_time": f"{MINUTES - 5}m",
                "exp_samples": [{"labels": "{}", "value": 0 if not fires else 1}],
            }
        ],
    }


@pytest.mark.parametrize("alert", list_alerts(), ids=lambda alert: alert.name)
def test_it_fires_when_it_should(alert: Alert, promtool: str, tmp_path: Path) -> None:
    case = CASES[alert.name]
    fires = told(alert, case.fires, fires=True)
    if alert.name == "PenstockDiskNearlyFull":  # each machine has its own disk
        fires["promql_expr_test"][0]["exp_samples"][0]["value"] = 2
    tests = [fires, told(alert, case.quiet, fires=False)]
    (tmp_path / "test.yml").write_text(
        json.dumps({"rule_files": [str(DEPLOY / "penstock.rules.yml")], "evaluation_interval": "1m", "tests": tests})
    )
    run(promtool, "test", "rules", str(tmp_path / "test.yml"))


@pytest.mark.parametrize("alert", list_alerts(), ids=lambda alert: alert.name)
def test_what_it_says_can_be_filled_in(alert: Alert, promtool: str, tmp_path: Path) -> None:
    """A label that the expression has dropped would leave a hole in the sentence: `of the kind  wait`."""
    case = CASES[alert.name]
    test = told(alert, case.fires, fires=True) | {
        "promql_expr_test": [],
        "alert_rule_test": [{"eval_time": f"{MINUTES - 5}m", "alertname": alert.name, "exp_alerts": []}],
    }
    (tmp_path / "test.yml").write_text(
        json.dumps({"rule_files": [str(DEPLOY / "penstock.rules.yml")], "evaluation_interval": "1m", "tests": [test]})
    )
    ended = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True, timeout=60, check=False
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1, "it fires, and nothing was expected"
    assert "<no value>" not in said
    assert "error executing template" not in said.lower()
    for value in case.labels.values():
        assert value in said
