"""`penstock metrics`: the list, and the files for Prometheus and Grafana."""

import json
from pathlib import Path

from tests.processes import penstock

DEPLOY = Path(__file__).parents[2] / "deploy"


async def test_the_list() -> None:
    code, said = await penstock("metrics", "list", "--json")
    assert code == 0, said
    found = {metric["name"]: metric for metric in json.loads(said)}
    assert list(found) == sorted(found)
    assert found["penstock_lane_ready_jobs"] == {
        "name": "penstock_lane_ready_jobs",
        "type": "gauge",
        "words": "Ready jobs, counted to 10,000 over the first 200 lanes, but to 100 in each",
        "labels": ["queue", "kind", "fairness_key"],
        "fleet": True,
    }
    code, said = await penstock("metrics", "list")
    assert (code, said.splitlines()[0].split()) == (0, ["metric", "type", "of", "labels"])
    assert {line.split()[0] for line in said.splitlines()[1:]} == found.keys()


async def test_the_files_are_those_of_deploy() -> None:
    for command, path in (("alerts", "prometheus/penstock.rules.yml"), ("dashboard", "grafana/penstock.json")):
        assert await penstock("metrics", command) == (0, (DEPLOY / path).read_text())
