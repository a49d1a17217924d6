"""The files for Prometheus and Grafana, and the page: made of metrics that exist, and as the code has them."""

import json
import re
from pathlib import Path

import pytest

from penstock import telemetry
from penstock.operations.alerts import Alert, list_alerts, rules_file
from penstock.operations.panels import dashboard_file, list_panels
from penstock.web.measured import alerts_table, list_metrics, metrics_table

ROOT = Path(__file__).parents[2]
RULES, DASHBOARD, PAGE = (
    ROOT / "deploy/prometheus/penstock.rules.yml",
    ROOT / "deploy/grafana/penstock.json",
    ROOT / "docs/metrics.md",
)


def samples() -> set[str]:
    """The names by which a scraper knows them."""
    names = {each.name for each in list_metrics()}
    return names | {
        f"{each.name}_{part}"
        for each in list_metrics()
        if each.type == "histogram"
        for part in ("bucket", "sum", "count")
    }


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bpenstock_\w+", expression))


def test_the_files_are_those_of_the_code() -> None:
    assert RULES.read_text() == rules_file(), "penstock metrics alerts > deploy/prometheus/penstock.rules.yml"
    assert DASHBOARD.read_text() == dashboard_file(), "penstock metrics dashboard > deploy/grafana/penstock.json"


def test_the_page_has_every_metric_and_every_alert() -> None:
    page = PAGE.read_text()
    for table in (metrics_table(fleet=False), metrics_table(fleet=True)):
        assert table in page, "penstock metrics list --markdown"
    assert alerts_table() in page, "penstock metrics alerts --markdown"


@pytest.mark.parametrize("alert", list_alerts(), ids=lambda alert: alert.name)
def test_an_alert_is_about_metrics_that_exist(alert: Alert) -> None:
    assert named(alert.expression)
    assert named(alert.expression) <= samples()
    labels = {label for each in list_metrics() if each.name in named(alert.expression) for label in each.labels} | {
        "instance"
    }
    assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= labels
    assert alert.severity in {"critical", "warning"}
    assert alert.summary.endswith(".")
    assert alert.advice.endswith((".", "`."))


def test_the_thresholds_that_were_asked_for() -> None:
    asked = {alert.name: alert.expression for alert in list_alerts()}
    assert asked["PenstockWorkersRestart"].endswith("> 3")
    assert asked["PenstockQueueDeep"].endswith("> 50")
    assert asked["PenstockDocumentsFail"].endswith("> 0.1")
    assert asked["PenstockLeasesExpire"].endswith("> 0.05")
    assert asked["PenstockDeadLetters"].endswith("> 10")


def test_invariants_are_watched_as_soon_as_they_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "penstock_invariant_violations"
    with_it = dict(telemetry.described)
    with_it[name] = telemetry.Described(name, "gauge", "Violations", (), fleet=True)
    monkeypatch.setattr("penstock.operations.alerts.described", with_it)
    assert "PenstockInvariantViolated" in {alert.name for alert in list_alerts()}
    del with_it[name]
    assert "PenstockInvariantViolated" not in {alert.name for alert in list_alerts()}


def test_the_dashboard_draws_metrics_that_exist() -> None:
    drawn = json.loads(DASHBOARD.read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= drawn.keys()
    assert len(drawn["panels"]) == len(list_panels()) == len({panel["id"] for panel in drawn["panels"]})
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in drawn["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in drawn["panels"])
    for panel in drawn["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert named(target["expr"]), panel["title"]
            assert named(target["expr"]) <= samples(), panel["title"]
            assert target["expr"].count("(") == target["expr"].count(")")


def test_a_name_is_described_once() -> None:
    with pytest.raises(ValueError, match="two metrics called penstock_workers_alive"):
        telemetry.describe("gauge", "penstock_workers_alive", "Something else")
