"""The tables of metrics in docs/metrics.md."""

from penstock.cli.operations import list_metrics


def metrics_table(*, fleet: bool) -> str:
    """Metrics of the process, or those of the fleet."""
    rows = ["| metric | type | labels | meaning |\n|---|---|---|---|\n"]
    for metric in list_metrics():
        if metric.fleet == fleet:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            rows.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} |\n")
    return "".join(rows)
