"""OpenTelemetry spans, and the trace context that travels with a job. Errors and texts in spans are masked."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context, propagate, trace

from penstock.telemetry.masking import mask

tracer = trace.get_tracer("penstock")


@contextmanager
def span(name: str, **attributes: str | bool | float | None) -> Iterator[trace.Span]:
    """A span around the block; an error is recorded in it, masked, and raised."""
    with tracer.start_as_current_span(
        name, attributes=_known(attributes), record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except Exception as error:
            text = mask(str(error))
            lines = mask("".join(traceback.format_exception(error)))
            current.record_exception(error, {"exception.message": text, "exception.stacktrace": lines})
            current.set_status(trace.Status(trace.StatusCode.ERROR, text))
            raise


def start_span(name: str, **attributes: str | bool | float | None) -> trace.Span:
    """A span below the current one; the caller ends it."""
    return tracer.start_span(name, attributes=_known(attributes))


def _known(attributes: Mapping[str, str | bool | float | None]) -> dict[str, str | bool | float]:
    return {
        key: mask(value) if isinstance(value, str) else value for key, value in attributes.items() if value is not None
    }


def is_traced() -> bool:
    """Whether spans of this process are exported."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def inject_trace() -> dict[str, str]:
    """The current trace as text that can be stored with a job; empty without one."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


@contextmanager
def extract_trace(carrier: Mapping[str, str]) -> Iterator[None]:
    """Continue, inside the block, the trace that `inject_trace` wrote down."""
    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
