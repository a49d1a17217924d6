"""All that the processes measure, and the tables of docs/metrics.md.

Here, because from here everything that has a metric is imported, the API's own included.
"""

from collections.abc import Iterator

import penstock.sources
import penstock.web.app
import penstock.web.worker_port  # noqa: F401  for its metrics, as the others
from penstock.operations.alerts import list_alerts
from penstock.telemetry import Described, described


def list_metrics() -> list[Described]:
    return sorted(described.values(), key=lambda each: each.name)


def metrics_table(*, fleet: bool) -> str:
    """Those of the process, or those of the fleet."""
    return "".join(_rows(fleet))


def _rows(fleet: bool) -> Iterator[str]:
    yield "| metric | type | labels | meaning |\n|---|---|---|---|\n"
    for each in list_metrics():
        if each.fleet == fleet:
            labels = ", ".join(f"`{label}`" for label in each.labels)
            yield f"| `{each.name}` | {each.type} | {labels} | {each.words} |\n"


def alerts_table() -> str:
    rows = ["| alert | severity | for | when | what to do |\n|---|---|---|---|---|\n"]
    for alert in list_alerts():
        summary = alert.summary.replace("{{ ", "`{{ ").replace(" }}", " }}`")
        rows.append(f"| `{alert.name}` | {alert.severity} | {alert.lasting} | {summary} | {alert.advice} |\n")
    return "".join(rows)
