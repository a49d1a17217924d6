"""What the outside sees of a running process: log lines, metrics, traces.

One rule above all: a secret is never printed. `hide` registers one, `hide_secrets` all of the settings; the last step before
a line is rendered makes plain text or numbers of every value and masks it, so that neither a nested value, an object's repr
nor a traceback can carry a secret through. Passwords in URLs, and what has the shape of a key, are masked without being
registered. Logs of other packages take the same way; what is kept in the database or sent to a client goes through `mask`.

Only processes of ours call `configure_logging`; a program that imports Penstock keeps its own logging.
"""

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TextIO
from urllib.parse import quote, quote_plus

import structlog
from opentelemetry import context, propagate, trace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_logger_name
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger
from typing_extensions import override

from penstock.settings import LogSettings, Settings, mask_credentials
from penstock.settings.secret import find_secrets, find_variables, mask_shapes

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

if not structlog.is_configured():  # a library is silent below warnings, and never writes to a program's standard output
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
log: FilteringBoundLogger = structlog.get_logger()
registry = CollectorRegistry()
tracer = trace.get_tracer("penstock")


# Secrets

_secrets: set[str] = set()
_pattern: re.Pattern[str] | None = None
_registering = threading.Lock()


def hide(secret: str) -> None:
    """Never print this text again, nor its escaped forms. Under 4 characters it would only blot out innocent words."""
    global _pattern  # noqa: PLW0603 - one registry per process, as for logging itself
    forms = {secret, repr(secret)[1:-1], repr(secret.encode(errors="replace"))[2:-1], json.dumps(secret)[1:-1]}
    forms |= {quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace")}
    forms |= set(secret.splitlines())  # a traceback may indent each line of a key
    with _registering:
        _secrets.update(form for form in forms if len(form) >= 4)
        longest_first = sorted(_secrets, key=len, reverse=True)
        _pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def hide_secrets(settings: Settings) -> None:
    """Hide all that these settings know as secret, and what the variables of clouds and of PostgreSQL add to them."""
    for secret in (*find_secrets(settings), *find_variables(os.environ)):
        hide(secret)


def mask(text: str) -> str:
    """The text without registered secrets, without passwords in URLs, and without what has the shape of a key."""
    return mask_shapes(mask_credentials(_pattern.sub("***", text) if _pattern else text))


def mask_tracebacks() -> None:
    """For a process of ours: what Python prints by itself, of a thread that failed or of an object's end, is masked, too."""

    def say(error: BaseException | None, where: object) -> None:
        lines = "".join(traceback.format_exception(error)) if error is not None else ""
        sys.stderr.write(mask(f"Ignored in {where!r}:\n{lines}"))

    threading.excepthook = lambda failed: say(failed.exc_value, failed.thread and failed.thread.name)
    sys.unraisablehook = lambda failed: say(failed.exc_value, failed.err_msg or failed.object)


def _masked(value: object, depth: int = 0) -> object:
    """A copy made of plain values only: what a renderer does not have to call repr on cannot surprise us."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and -1e308 < value < 1e308:  # NaN and infinity are not JSON
        text = mask(str(value))
        return value if text == str(value) else text
    if depth < 8:  # deeper, or in a circle: one text is enough
        if isinstance(value, Mapping):
            return {mask(_printed(key)): _masked(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [_masked(item, depth + 1) for item in value]
    return mask(_printed(value))


def _printed(value: object) -> str:
    try:
        return repr(value) if isinstance(value, BaseException | bytes | bytearray) else str(value)
    except Exception as error:  # noqa: BLE001 - a log line must not break the work that it reports
        return f"<{type(value).__name__} without text: {type(error).__name__}>"


# Logs


def configure_logging(chosen: LogSettings, *, stream: TextIO | None = None) -> None:
    """Send the logs of this process, ours and those of other packages, to the stream; call it again to change it."""
    stream = sys.stderr if stream is None else stream
    level = logging.getLevelNamesMapping()[chosen.level.upper()]
    prepare: list[Processor] = [
        merge_contextvars,
        _add_job,
        _add_trace,
        structlog.processors.add_log_level,
        add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*prepare, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = _Handler(stream)
    handler.setFormatter(
        ProcessorFormatter(
            processors=[ProcessorFormatter.remove_processors_meta, _mask_event, _renderer(chosen, stream)],
            foreign_pre_chain=[ExtraAdder(), _drop_copies, *prepare],
        )
    )
    root = logging.getLogger()
    for earlier in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):  # it prints by handlers of its own
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True


class _Handler(logging.StreamHandler[TextIO]):
    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """Say where a line was lost. The inherited way prints the raw arguments, with every secret in them."""
        try:
            self.stream.write(f"a log line of {record.name} ({record.pathname}:{record.lineno}) cannot be printed\n")
        except (OSError, ValueError):
            return  # the stream itself is gone


def _drop_copies(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Other handlers leave their formatted text in the record, uvicorn a coloured one: the same event again."""
    return {key: value for key, value in event.items() if key not in {"message", "asctime", "color_message"}}


def _mask_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {mask(str(key)): _masked(value) for key, value in event.items()}


def _renderer(chosen: LogSettings, stream: TextIO) -> Processor:
    if chosen.format == "json" or (chosen.format == "auto" and not stream.isatty()):
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty() and not os.environ.get("NO_COLOR"),
        exception_formatter=structlog.dev.plain_traceback,  # rich's shows local variables
    )


@contextmanager
def log_context(**values: object) -> Iterator[None]:
    """Add job=…, document=…, step=… to every line logged inside, also by tasks that are started inside."""
    with bound_contextvars(**values):
        yield


current_job: ContextVar[tuple[int, str] | None] = ContextVar("current_job", default=None)


def _add_job(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The number and kind of the job that runs here: one variable, because setting it is part of each job's cost."""
    job = current_job.get()
    if job is not None:
        event.setdefault("job", job[0])
        event.setdefault("kind", job[1])
    return event


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """So that the lines of one upload can be found in all processes."""
    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        event.setdefault("trace", f"{current.trace_id:032x}")
    return event


# Metrics


def _named(name: str) -> str:
    if not re.fullmatch(r"penstock_[a-z][a-z0-9_]*", name):
        raise ValueError(f"A metric's name is penstock_ and small letters, not {name!r}.")
    return name


@dataclass(frozen=True, slots=True)
class Described:
    """A metric, for the pages, the alerts and the dashboard, which may name no other."""

    name: str  # of the samples; those of a histogram add _bucket, _sum and _count
    type: Literal["counter", "gauge", "histogram"]
    words: str
    labels: tuple[str, ...] = ()
    fleet: bool = False  # from PostgreSQL: every process tells the same

    @property
    def family(self) -> str:
        return self.name.removesuffix("_total")


described: dict[str, Described] = {}


def describe(
    kind: Literal["counter", "gauge", "histogram"],
    name: str,
    words: str,
    labels: Sequence[str] = (),
    *,
    fleet: bool = False,
) -> Described:
    """Note a metric that a collector of ours will tell."""
    family = _named(name).removesuffix("_total")
    metric = Described(f"{family}_total" if kind == "counter" else family, kind, words, tuple(labels), fleet)
    if described.setdefault(metric.name, metric) != metric:
        raise ValueError(f"There are two metrics called {metric.name}: rename one of them.")
    return metric


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
    """Something that only grows; its samples are called name_total."""
    found = Counter(_named(name), documentation, labels, registry=registry)
    describe("counter", name, documentation, labels)
    return found


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
    """Something that goes up and down."""
    found = Gauge(_named(name), documentation, labels, registry=registry)
    describe("gauge", name, documentation, labels)
    return found


def histogram(
    name: str, documentation: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS
) -> Histogram:
    """How values are spread: durations in seconds, unless the name says otherwise."""
    found = Histogram(_named(name), documentation, labels, registry=registry, buckets=buckets)
    describe("histogram", name, documentation, labels)
    return found


def render_metrics() -> bytes:
    """All metrics as text, to be served as METRICS_TYPE."""
    return generate_latest(registry)


# Traces


@contextmanager
def span(name: str, **attributes: str | bool | float | None) -> Iterator[trace.Span]:
    """A span around the block; an error is recorded in it, masked, and goes on."""
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
    """A span below the current one, which whoever asked ends."""
    return tracer.start_span(name, attributes=_known(attributes))


def _known(attributes: Mapping[str, str | bool | float | None]) -> dict[str, str | bool | float]:
    return {
        key: mask(value) if isinstance(value, str) else value for key, value in attributes.items() if value is not None
    }


def is_traced() -> bool:
    """Whether spans of this process go anywhere."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def inject_trace() -> dict[str, str]:
    """The current trace as text that can be stored beside a job; empty when nobody traces."""
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
