"""Traces of a process of ours, sent by OTLP when the variables of OpenTelemetry say where to.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318      # or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
    OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER, …  # as everywhere

The SDK comes with `penstock[telemetry]`. A program that imports Penstock sets up its own.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from opentelemetry import trace

from penstock import __version__
from penstock.telemetry import hide, log

WHERE = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
FAREWELL = 3.0  # seconds for the last spans


@contextmanager
def exporting(role: str) -> Iterator[None]:
    """Send the spans of the block, if somebody wants them."""
    if not any(os.environ.get(name) for name in WHERE) or _is_off():
        yield
        return
    for name in HEADERS:
        for pair in os.environ.get(name, "").split(","):
            hide(unquote(pair.partition("=")[2].strip()))
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("traces are not sent: install penstock[telemetry]")
        yield
        return
    resource = Resource.create(
        {"service.version": __version__} | ({} if _is_named() else {"service.name": f"penstock-{role}"})
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # A collector that does not answer must not keep the process from ending.
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(FAREWELL)


def _is_off() -> bool:
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() == "none"


def _is_named() -> bool:
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
