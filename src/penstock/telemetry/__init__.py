"""Logs, metrics and traces of a process, in which secrets are masked."""

from penstock.telemetry.logs import configure_logging, current_job, log
from penstock.telemetry.masking import hide, hide_secrets, mask, mask_tracebacks
from penstock.telemetry.metrics import (
    METRICS_TYPE,
    MetricDescription,
    counter,
    describe,
    described,
    gauge,
    histogram,
    registry,
    render_metrics,
)
from penstock.telemetry.traces import extract_trace, inject_trace, is_traced, span, start_span
