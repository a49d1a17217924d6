import asyncio
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from structlog.contextvars import bound_contextvars
from structlog.typing import FilteringBoundLogger
from typing_extensions import override

from penstock import telemetry
from penstock.settings import DatabaseUrl, LogSettings
from penstock.telemetry import (
    configure_logging,
    counter,
    extract_trace,
    gauge,
    hide,
    histogram,
    inject_trace,
    log,
    mask,
    render_metrics,
    span,
)


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def log_to(stream: io.StringIO, **chosen: Any) -> None:
    """Configure as a process of ours does: alone. (pytest's handlers print what goes wrong in their own way.)"""
    logging.getLogger().handlers.clear()
    configure_logging(LogSettings(**chosen), stream=stream)


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


# What a line looks like


def test_a_machine_gets_json() -> None:
    stream = io.StringIO()
    log_to(stream)
    log.info("document ready", document=7, pages=[1, 2])
    [event] = events(stream)
    at = datetime.fromisoformat(event.pop("timestamp"))
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60
    assert event == {
        "event": "document ready",
        "document": 7,
        "pages": [1, 2],
        "level": "info",
        "logger": __name__,
    }


def test_a_person_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    log_to(terminal)
    log.warning("slow", seconds=3)
    assert "slow" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(terminal.getvalue())


def test_colours_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    log_to(terminal)
    log.warning("slow")
    assert "slow" in terminal.getvalue()
    assert "\x1b[" not in terminal.getvalue()


def test_the_format_can_be_forced() -> None:
    terminal, file = Terminal(), io.StringIO()
    log_to(terminal, format="json")
    log.info("one")
    log_to(file, format="console")
    log.info("two")
    assert json.loads(terminal.getvalue())["event"] == "one"
    assert "two" in file.getvalue()
    assert "\x1b[" not in file.getvalue()


@pytest.mark.parametrize(
    ("level", "seen"),
    [("debug", "dieD"), ("info", "ie"), ("warning", "e"), ("error", "e")],
)
def test_levels(level: Any, seen: str) -> None:
    stream = io.StringIO()
    log_to(stream, level=level)
    log.debug("d")
    log.info("i")
    log.error("e")
    logging.getLogger("other").debug("D")
    assert "".join(event["event"] for event in events(stream)) == seen


def test_configuring_twice_prints_once() -> None:
    stream = io.StringIO()
    log_to(stream)
    second = io.StringIO()
    configure_logging(LogSettings(), stream=second)
    configure_logging(LogSettings(), stream=second)
    log.info("ours")
    logging.getLogger("other").warning("theirs")
    assert [event["event"] for event in events(second)] == ["ours", "theirs"]
    assert stream.getvalue() == ""


def test_other_packages_log_the_same_way() -> None:
    stream = io.StringIO()
    log_to(stream)
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.setLevel(logging.NOTSET)  # a server in this process may have set one
    own = logging.StreamHandler(io.StringIO())
    uvicorn.addHandler(own)
    uvicorn.propagate = False
    log_to(stream)
    with bound_contextvars(worker="w1"):
        uvicorn.info("started %s", "server", extra={"color_message": "started in colour", "port": 8080})
    [event] = events(stream)
    assert event.pop("timestamp")
    assert event == {
        "event": "started server",
        "level": "info",
        "logger": "uvicorn.error",
        "worker": "w1",
        "port": 8080,
    }


def test_an_error_is_printed_with_its_traceback() -> None:
    stream = io.StringIO()
    log_to(stream)
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        log.exception("failed")
        logging.getLogger("other").exception("failed too")
    ours, theirs = events(stream)
    for event in (ours, theirs):
        assert event["level"] == "error"
        assert "ZeroDivisionError" in event["exception"]
        assert "1 // 0" in event["exception"]


class Unprintable:
    @override
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_any_value_can_be_logged() -> None:
    stream = io.StringIO()
    log_to(stream)
    circle: list[object] = []
    circle.append(circle)
    job = uuid4()
    log.info(
        "odd", job=job, nan=float("nan"), huge=10**5000, bad=Unprintable(), keys={(1, 2): {3}}, circle=circle, raw=b"x"
    )
    [event] = events(stream)
    assert event["job"] == str(job)
    assert event["nan"] == "nan"
    assert event["bad"] == "<Unprintable without text: RuntimeError>"
    assert event["huge"] == "<int without text: ValueError>"
    assert event["keys"] == {"(1, 2)": [3]}
    assert event["raw"] == "b'x'"


# Context


def test_context_is_added_and_restored() -> None:
    stream = io.StringIO()
    log_to(stream)
    with bound_contextvars(job=1, step="ocr"):
        with bound_contextvars(job=2):
            log.info("inner")
        log.info("outer")
    log.info("outside")
    inner, outer, outside = events(stream)
    assert (inner["job"], inner["step"]) == (2, "ocr")
    assert (outer["job"], outer["step"]) == (1, "ocr")
    assert "job" not in outside


def test_context_is_restored_after_an_error() -> None:
    stream = io.StringIO()
    log_to(stream)
    with pytest.raises(KeyError), bound_contextvars(job=1):
        raise KeyError
    log.info("after")
    assert "job" not in events(stream)[0]


def test_tasks_do_not_see_each_others_context() -> None:
    stream = io.StringIO()
    log_to(stream)
    both_inside = asyncio.Barrier(2)

    async def work(job: int) -> None:
        with bound_contextvars(job=job):
            await both_inside.wait()
            log.info("working")
            await asyncio.create_task(child())

    async def child() -> None:
        log.info("child")

    async def main() -> None:
        with bound_contextvars(worker="w1"):
            await asyncio.gather(work(1), work(2))
            log.info("end")

    asyncio.run(main())
    *pairs, end = events(stream)
    assert sorted((event["event"], event["job"]) for event in pairs) == [
        ("child", 1),
        ("child", 2),
        ("working", 1),
        ("working", 2),
    ]
    assert {event["worker"] for event in pairs} == {"w1"}
    assert "job" not in end


# Secrets


class Holder:
    def __init__(self, secret: str) -> None:
        self.secret = secret

    @override
    def __repr__(self) -> str:
        return f"Holder({self.secret!r})"


class Tricky(Exception):
    pass


def fail(first: Exception) -> None:
    local = str(first)
    raise Tricky(f"after {local}") from first


def chirp(log: FilteringBoundLogger, secret: str) -> None:
    """Log a secret in every way that we could think of."""
    log.info(f"event {secret}")
    log.info("event %s", secret)
    log.info("value", value=secret, number=12345678, **{f"key-{secret}": 1})
    log.info("nested", value={"a": [{"b": (secret,)}], secret: {secret}, "deep": [[[[[[[[[[secret]]]]]]]]]]})
    log.info("object", value=Holder(secret), nested=[Holder(secret)], raw=secret.encode(), error=Tricky(secret))
    log.info("json", value=json.dumps({"a": secret}))
    with bound_contextvars(context=secret):
        log.info("context")
    for first in (Tricky(secret), KeyError(secret), Tricky({"a": secret}), ExceptionGroup(secret, [Tricky(secret)])):
        try:
            fail(first)
        except Tricky:
            log.exception("failed", stack_info=True)
            logging.getLogger("other").exception("failed %s", secret)
    other = logging.getLogger("other")
    other.warning("record %s", secret, extra={"extra_value": [secret]}, stack_info=True)
    other.warning({"a": secret})
    other.warning("wrong %d", secret)


@pytest.mark.parametrize("format_", ["json", "console"])
@pytest.mark.parametrize(
    "secret", ["kanarienvogel", "kana'rien\"vogel", "kana\\rien\nvogel", "kanarién'\"\\vogel/+ %", "kanar.*[ien"]
)
def test_a_hidden_secret_is_never_printed(format_: Any, secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    hide(secret)
    hide("12345678")
    for stream in (io.StringIO(), Terminal()):
        log_to(stream, level="debug", format=format_)
        chirp(log, secret)
        text = stream.getvalue()
        assert text.count("***") > 20, "the lines were printed, with the secret masked"
        assert "ExceptionGroup" in text
        assert "Holder" in text
        assert not [line for line in text.splitlines() if "kana" in line or "vogel" in line or "12345678" in line]
    assert capsys.readouterr() == ("", ""), "nothing goes around the stream"


def test_a_line_that_cannot_be_printed_says_where() -> None:
    stream = io.StringIO()
    log_to(stream)
    logging.getLogger("other").warning("wrong %d", "kanarienvogel")
    assert stream.getvalue().startswith(f"a log line of other ({__file__}:")
    assert "kanarienvogel" not in stream.getvalue()


def test_a_broken_stream_does_not_break_the_work() -> None:
    stream = io.StringIO()
    log_to(stream)
    stream.close()
    log.info("nobody hears this")


@pytest.mark.parametrize("format_", ["json", "console"])
def test_passwords_in_urls_are_masked_unregistered(format_: Any) -> None:
    stream = io.StringIO()
    log_to(stream, format=format_)
    for scheme in ("postgresql", "postgres", "amqp", "amqps", "http", "https"):
        url = f"{scheme}://ada:zaunkoenig@host:1/x"
        log.info(f"to {url}", url=url, urls=[url])
        logging.getLogger("other").error("no way to %s", url)
    log.info("typed", url=DatabaseUrl("postgresql://ada:zaunkoenig@host/x"))
    assert stream.getvalue().count("://ada:***@host") == 6 * 4 + 1
    assert "zaunkoenig" not in stream.getvalue()


def test_mask_and_what_is_too_short_to_hide() -> None:
    hide("")
    hide("abc")
    hide("rotkehlchen")
    hide("rotkehlchen-und-mehr")
    assert mask("abc rotkehlchen-und-mehr rotkehlchen") == "abc *** ***"


# Metrics


def test_metrics_are_rendered_from_our_own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry.metrics, "described", dict(telemetry.described))  # the page lists what is in it
    jobs = counter("penstock_test_jobs", "Jobs of this test.", ["kind"])
    level = gauge("penstock_test_level", "A level.")
    spread = histogram("penstock_test_seconds", "A spread.", buckets=[1, 2])
    jobs.labels(kind="ocr").inc(3)
    level.set(5)
    spread.observe(1.5)
    text = render_metrics().decode()
    assert 'penstock_test_jobs_total{kind="ocr"} 3.0' in text
    assert "penstock_test_level 5.0" in text
    assert 'penstock_test_seconds_bucket{le="2.0"} 1.0' in text
    assert "# HELP penstock_test_level A level." in text
    assert "python_info" not in text
    for metric in (jobs, level, spread):
        telemetry.registry.unregister(metric)


@pytest.mark.parametrize("make", [counter, gauge, histogram])
@pytest.mark.parametrize(
    "name", ["jobs", "penstock", "penstock_", "Penstock_jobs", "penstock_jobs-done", "my_penstock_jobs"]
)
def test_a_metric_is_named_after_us(make: Any, name: str) -> None:
    with pytest.raises(ValueError, match="penstock_"):
        make(name, "Help.")


# Traces: a tracer that remembers stands in for OpenTelemetry's SDK, which is not installed.


class Remembered(NonRecordingSpan):
    def __init__(self, parent: SpanContext, name: str, attributes: Any) -> None:
        fresh = SpanContext(parent.trace_id or 0xABC, 0x123, is_remote=False, trace_flags=TraceFlags(1))
        super().__init__(fresh)
        self.parent, self.name, self.attributes = parent, name, attributes
        self.errors: list[Any] = []
        self.status: Any = None
        self.ended = False

    @override
    def record_exception(self, exception: Any, attributes: Any = None, *_: Any, **__: Any) -> None:
        self.errors.append(attributes)

    @override
    def set_status(self, status: Any, description: Any = None) -> None:
        self.status = status

    @override
    def end(self, end_time: Any = None) -> None:
        self.ended = True


class Rememberer:
    def __init__(self) -> None:
        self.spans: list[Remembered] = []

    def start_as_current_span(self, name: str, **options: Any) -> Any:
        assert options["record_exception"] is options["set_status_on_exception"] is False, "the SDK would not mask"
        parent = trace.get_current_span().get_span_context()
        self.spans.append(Remembered(parent, name, options["attributes"]))
        return trace.use_span(self.spans[-1], end_on_exit=True, record_exception=False, set_status_on_exception=False)


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Rememberer:
    rememberer = Rememberer()
    monkeypatch.setattr(telemetry.traces, "tracer", rememberer)
    return rememberer


def test_a_span_has_attributes(tracer: Rememberer) -> None:
    with span("claim", queue="cpu", slots=3, fairness_key=None, url="amqp://u:zaunkoenig@h"):
        assert trace.get_current_span() is tracer.spans[0]
    [claim] = tracer.spans
    assert (claim.name, claim.attributes) == ("claim", {"queue": "cpu", "slots": 3, "url": "amqp://u:***@h"})
    assert claim.ended
    assert claim.status is None


def test_a_span_records_an_error_without_secrets(tracer: Rememberer) -> None:
    hide("zeisig-im-kaefig")
    with pytest.raises(KeyError), span("claim"):
        raise KeyError("zeisig-im-kaefig")
    [claim] = tracer.spans
    [recorded] = claim.errors
    assert recorded["exception.message"] == "'***'"
    assert "KeyError: '***'" in recorded["exception.stacktrace"]
    assert "zeisig" not in recorded["exception.stacktrace"]
    assert claim.status.status_code is trace.StatusCode.ERROR
    assert "zeisig" not in claim.status.description
    assert claim.ended


def test_a_trace_goes_from_one_process_to_another(tracer: Rememberer) -> None:
    with span("upload"):
        carrier = inject_trace()
    assert json.loads(json.dumps(carrier)) == carrier
    assert inject_trace() == {}
    with extract_trace(carrier), span("job"):
        pass
    with span("unrelated"):
        pass
    upload, job, unrelated = tracer.spans
    assert job.parent.span_id == upload.get_span_context().span_id
    assert job.parent.trace_id == upload.get_span_context().trace_id == 0xABC
    assert job.parent.is_remote
    assert not unrelated.parent.is_valid


@pytest.mark.parametrize("carrier", [{}, {"traceparent": "nonsense"}, {"unknown": "x"}])
def test_a_carrier_without_a_trace_is_harmless(carrier: dict[str, str]) -> None:
    with extract_trace(carrier):
        assert inject_trace() == {}


def test_without_a_tracing_sdk_nothing_happens() -> None:
    with span("quiet", job=1) as quiet:
        assert not quiet.is_recording()
    assert inject_trace() == {}


def test_a_log_line_has_the_number_of_its_trace(tracer: Rememberer) -> None:
    stream = io.StringIO()
    log_to(stream)
    with span("upload"):
        log.warning("inside")
    log.warning("outside")
    inside, outside = events(stream)
    assert inside["trace"] == f"{0xABC:032x}"
    assert "trace" not in outside
