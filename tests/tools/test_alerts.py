"""The alert rules and the dashboard name metrics that exist."""

import json
import re
from pathlib import Path

import pytest

from penstock import telemetry
from penstock.cli.operations import list_metrics
from tools.alerts import Alert, list_alerts
from tools.dashboard import list_panels

DASHBOARD = Path(__file__).parents[2] / "deploy/grafana/penstock.json"


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


def test_invariants_are_watched() -> None:
    asked = {alert.name: alert.expression for alert in list_alerts()}
    assert asked["PenstockInvariantViolated"] == "max (penstock_invariant_violations) > 0"


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
    with pytest.raises(ValueError, match="penstock_workers_alive is declared twice"):
        telemetry.describe("gauge", "penstock_workers_alive", "Something else")
