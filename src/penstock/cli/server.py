"""`penstock api` and `penstock worker`: the two kinds of process that `penstock up` runs.

All long-running commands share `run_until_stopped`: logging, signals, memory, traces by OTLP if the variables of
OpenTelemetry are set, and one event loop.
"""

import asyncio
import ctypes
import gc
import importlib
import logging
import os
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals, default_int_handler, signal
from typing import Annotated
from urllib.parse import unquote

import typer
import uvloop
from opentelemetry import trace

from penstock import __version__
from penstock.cli.session import duration
from penstock.engine import Penstock, Worker
from penstock.errors import BadSetting, CannotStart
from penstock.settings import Settings, load_settings
from penstock.telemetry import configure_logging, hide, hide_secrets, log

COLLECT_AFTER = 50_000  # objects: some megabytes
M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1  # of malloc.h
LARGE = 2**22  # bytes that are given back to the system as soon as they are free
GIVE_BACK_EVERY = 2.0  # seconds: everything else that is free
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
LAST_SPANS = 3.0  # seconds to send the last spans

Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes any free one.")]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
WithParent = Annotated[bool, typer.Option("--with-parent", hidden=True)]


@dataclass
class ShutdownRequest:
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    signal: Signals | None = None

    def ask(self, by: Signals | None) -> None:
        if self.requested.is_set():
            os._exit(128 + by if by else 1)
        self.signal = by
        self.requested.set()


def api(
    host: Host = None,
    port: Port = None,
    socket_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    with_parent: WithParent = False,
) -> None:
    """Serve the HTTP API."""
    from penstock.product import Product
    from penstock.web import listen, make_app, refuse_unguarded, serve

    inherited = None if socket_fd is None else socket.socket(fileno=socket_fd)
    if inherited is not None:  # the process that bound it may have another address than the settings
        host = inherited.getsockname()[0]
    settings = load_settings(api__host=host, api__port=port).settings
    listener = inherited or listen(settings.api.host, settings.api.port)

    async def main(stop: ShutdownRequest) -> int:
        async with Product(role="api", api__host=host, api__port=port) as product:
            async with product.app.database.pool.session() as session:
                await refuse_unguarded(session, settings.api.host)
            log.info("listening", url="http://{}:{}".format(*listener.getsockname()[:2]))
            await serve(make_app(product), listener, stop.requested)
        return 0

    raise typer.Exit(run_until_stopped(settings, main, with_parent=with_parent, role="api"))


def worker(
    place: Annotated[
        str,
        typer.Argument(metavar="[MODULE:APP]", help="Application whose jobs to run. Default: documents."),
    ] = "",
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000, help="Concurrent jobs per queue.", show_default="100; for documents: by cores"
        ),
    ] = None,
    queues: Annotated[str, typer.Option(help="Serve only these queues, each with its concurrency: cpu=2,llm=50.")] = "",
    drain: Annotated[str, typer.Option(help="Time for running jobs to finish after SIGTERM.")] = "20s",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port for health and metrics of this worker; 0 takes any free one."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address of that port. Clients that reach it can read the metrics.")
    ] = "127.0.0.1",
    sources: Annotated[str, typer.Option(help="Sources to run: comma-separated names, all, or none.")] = "all",
    with_parent: WithParent = False,
) -> None:
    """Run jobs until stopped. SIGTERM lets running jobs finish, SIGINT requeues them at once."""
    app, opened, sourcing, default_slots = _served(place, sources)
    app.role = "worker"
    slots = _slots(app, concurrency, queues) or default_slots
    patience = duration("--drain", drain)
    listener = _listen(host, port)

    async def main(stop: ShutdownRequest) -> int:
        async with opened:
            worker = app.worker(concurrency=slots, drain=patience)
            async with sourcing:
                await _work(app, worker, stop, listener)
        return 0

    raise typer.Exit(run_until_stopped(app.settings, main, with_parent=with_parent, role="worker"))


Opened = AbstractAsyncContextManager[object]


def _served(place: str, sources: str) -> tuple[Penstock, Opened, Opened, int | dict[str, int]]:
    """The application whose jobs to run, its context manager, the sources that run with its worker, and its default slots.

    Without a name it is the product's own, with its sources.
    """
    if place:
        app = _import_app(place)
        return app, app, nullcontext(), 100
    from penstock.operations import Inspection
    from penstock.product import Product
    from penstock.sources import Sources

    product = Product(role="worker")
    Inspection(product.app)
    names = {"all": None, "none": []}.get(sources, [name.strip() for name in sources.split(",") if name.strip()])
    return product.app, product, Sources(product, names), product.slots


async def _work(app: Penstock, worker: Worker, stop: ShutdownRequest, listener: socket.socket | None) -> None:
    ending = asyncio.Event()

    async def pass_on() -> None:
        await stop.requested.wait()
        if stop.signal is not SIGTERM:  # Ctrl-C, or the parent died: no process waits for this one
            worker.hurry()
        ending.set()

    passing = asyncio.create_task(pass_on())
    try:
        async with _port(listener, app, worker):
            await worker.run(ending)
    finally:
        passing.cancel()


def _slots(app: Penstock, concurrency: int | None, queues: str) -> int | dict[str, int] | None:
    if not queues:
        return concurrency
    if concurrency is not None:
        raise BadSetting("Use --concurrency for all queues or --queues for some, not both.")
    slots = {}
    for part in queues.split(","):
        queue, _, number = part.strip().partition("=")
        if not number.isdecimal() or int(number) == 0:
            raise BadSetting(f"--queues: {part!r} is not a queue and its concurrency: write it as in cpu=2,llm=50.")
        slots[queue] = int(number)
    unknown = slots.keys() - {kind.queue for kind in app.kinds.values()}
    if unknown:
        raise BadSetting(f"--queues: the application declares no job for {', '.join(sorted(unknown))}.")
    return slots


def _listen(host: str, port: int | None) -> socket.socket | None:
    if port is None:
        return None
    from penstock.web import listen

    return listen(host, port)


@asynccontextmanager
async def _port(listener: socket.socket | None, app: Penstock, worker: Worker) -> AsyncIterator[None]:
    if listener is None:
        yield
        return
    from penstock.documents import PREPARE
    from penstock.web import open_port

    log.info("listening", url="http://{}:{}".format(*listener.getsockname()[:2]))
    async with open_port(listener, app.database, worker, documents=PREPARE in app.kinds):
        yield


def _import_app(place: str) -> Penstock:
    """The application at `module:name` (`module` alone means `module:app`); the working folder comes first."""
    module_name, _, name = place.partition(":")
    name = name or "app"
    if not all(part.isidentifier() for part in [*module_name.split("."), name]):
        raise CannotStart(f"{place!r} is not an application: write it as in shop.jobs:app.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise CannotStart(
                f"Module {error.name} does not exist in {Path.cwd()} or among the installed ones."
            ) from error
        raise CannotStart(f"{module_name} imports {error.name}, which is not installed.") from error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise CannotStart(
            f"Importing {module_name} failed in {last.filename}:{last.lineno} ({type(error).__name__}: {error})."
        ) from error
    app = getattr(module, name, None)
    if app is None:
        raise CannotStart(f"Module {module_name} has no {name}: give the name of its Penstock().")
    if not isinstance(app, Penstock):
        raise CannotStart(f"{place} is a {type(app).__name__}, not a Penstock: give the name of a Penstock().")
    if not app.kinds:
        raise CannotStart(f"{place} declares no job: decorate one with @{name}.job().")
    return app


# -- a process that runs until it is stopped ------------------------------------------------------------------------


def run_until_stopped(
    settings: Settings, main: Callable[[ShutdownRequest], Awaitable[int]], *, with_parent: bool = False, role: str = ""
) -> int:
    """Run `main` with a request that signals set; its result is the exit code."""
    hide_secrets(settings)
    configure_logging(settings.log)
    give_back = _arrange_memory()

    async def body() -> int:
        stop = ShutdownRequest()
        loop = asyncio.get_running_loop()
        for each in (SIGINT, SIGTERM):
            loop.add_signal_handler(each, stop.ask, each)
        _repeat(loop, give_back)
        if with_parent:
            loop.add_reader(sys.stdin.fileno(), _parent_died, loop, stop)
        code = await main(stop)
        await _end_tasks(code)
        return code

    before = signal(SIGINT, default_int_handler)  # until the loop has its own: Ctrl-C cancels `main`
    try:
        with exporting_traces(role) if role else nullcontext():
            return uvloop.run(body())
    finally:
        signal(SIGINT, before)


def _arrange_memory() -> Callable[[], object]:
    """For a process that runs for long; returns the function that gives free memory back to the system."""
    # Loaded modules stay, so they need not be scanned again; scanning after every 700 new objects takes 5 % of a worker's time.
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)
    # glibc gives each thread a heap of its own, which keeps what its largest texts needed: a fifth more memory in all. Only
    # what is very large goes back at once: with 256 kB it was half of all page faults, some 150 for each document.
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 1)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        libc.mallopt(M_TRIM_THRESHOLD, 2 * LARGE)
        return partial(libc.malloc_trim, 0)
    except (AttributeError, OSError):  # another C library
        return lambda: None


def _repeat(loop: asyncio.AbstractEventLoop, give_back: Callable[[], object]) -> None:
    give_back()
    loop.call_later(GIVE_BACK_EVERY, _repeat, loop, give_back)


async def _end_tasks(code: int) -> None:
    """A task that ignores its cancellation would keep the whole process alive: the loop waits for it without bound."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks and (await asyncio.wait(tasks, timeout=1.0))[1]:
        logging.shutdown()
        os._exit(code)


def _parent_died(loop: asyncio.AbstractEventLoop, stop: ShutdownRequest) -> None:
    """The parent writes nothing to this pipe: it becomes readable only by closing."""
    loop.remove_reader(sys.stdin.fileno())
    stop.ask(None)


# -- traces ---------------------------------------------------------------------------------------------------------


@contextmanager
def exporting_traces(role: str) -> Iterator[None]:
    """Send the spans of the block, if an endpoint is set."""
    if not any(os.environ.get(name) for name in ENDPOINTS) or _is_off():
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
        last.join(LAST_SPANS)


def _is_off() -> bool:
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() == "none"


def _is_named() -> bool:
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
