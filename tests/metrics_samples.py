"""Samples of a metrics page."""

from prometheus_client.parser import text_string_to_metric_families

from tests.application import fetch


async def metrics(address: str) -> dict[str, float]:
    """Samples by name and labels, as in `name kind=greet outcome=done`."""
    status, text = await fetch(address, "/metrics")
    assert status == 200
    return {
        " ".join([sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
