"""Log lines of a process, its own and those of other packages.

The last step before a line is rendered turns every value into plain text or numbers and masks it (masking.py), so that neither
a nested value, an object's repr nor a traceback can carry a secret through.

Only Penstock's own processes call `configure_logging`; a program that imports Penstock keeps its own logging.
"""

import logging
import os
import sys
from contextvars import ContextVar
from typing import TextIO

import structlog
from opentelemetry import trace
from structlog.contextvars import merge_contextvars
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_logger_name
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger
from typing_extensions import override

from penstock.settings import LogSettings
from penstock.telemetry.masking import mask, mask_value

if not structlog.is_configured():  # a library is silent below warnings, and never writes to a program's standard output
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
log: FilteringBoundLogger = structlog.get_logger()


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
        """Report where a line was lost. The inherited method prints the raw arguments, with every secret in them."""
        try:
            self.stream.write(f"a log line of {record.name} ({record.pathname}:{record.lineno}) cannot be printed\n")
        except (OSError, ValueError):
            return  # the stream itself is closed


def _drop_copies(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Other handlers leave their formatted text in the record, uvicorn a coloured one: the same event again."""
    return {key: value for key, value in event.items() if key not in {"message", "asctime", "color_message"}}


def _mask_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {mask(str(key)): mask_value(value) for key, value in event.items()}


def _renderer(chosen: LogSettings, stream: TextIO) -> Processor:
    if chosen.format == "json" or (chosen.format == "auto" and not stream.isatty()):
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty() and not os.environ.get("NO_COLOR"),
        exception_formatter=structlog.dev.plain_traceback,  # rich's shows local variables
    )


current_job: ContextVar[tuple[int, str] | None] = ContextVar("current_job", default=None)


def _add_job(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The id and kind of the job that runs here: one variable, because setting it is part of each job's cost."""
    job = current_job.get()
    if job is not None:
        event.setdefault("job", job[0])
        event.setdefault("kind", job[1])
    return event


def _add_trace(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the trace id, by which the lines of one upload are found in all processes."""
    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        event.setdefault("trace", f"{current.trace_id:032x}")
    return event
