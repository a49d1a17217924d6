"""`penstock api` and `penstock worker`: the two kinds of process that `penstock up` runs, for use by themselves."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from signal import SIGTERM
from typing import Annotated

import typer

from penstock.cli.asking import duration
from penstock.cli.importing import import_app
from penstock.cli.running import Stop, run_until_stopped
from penstock.database import Database
from penstock.engine import Penstock
from penstock.engine.worker import Worker
from penstock.errors import BadSetting
from penstock.settings import load_settings
from penstock.telemetry import log

Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes any free one.")]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
WithParent = Annotated[bool, typer.Option("--with-parent", hidden=True)]


def api(
    host: Host = None,
    port: Port = None,
    socket_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    with_parent: WithParent = False,
) -> None:
    """Serve the HTTP API."""
    from penstock.pipelines import Product
    from penstock.web import listen, make_app, refuse_unguarded, serve

    inherited = None if socket_fd is None else socket.socket(fileno=socket_fd)
    if inherited is not None:  # who bound it may have been told another address than the settings say
        host = inherited.getsockname()[0]
    settings = load_settings(api__host=host, api__port=port).settings
    listener = inherited or listen(settings.api.host, settings.api.port)

    async def main(stop: Stop) -> int:
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
        typer.Argument(metavar="[MODULE:APP]", help="The application whose jobs to run; without it, documents."),
    ] = "",
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Jobs at the same time, per queue.", show_default="100; documents: few"),
    ] = None,
    queues: Annotated[str, typer.Option(help="Only these queues, each with its own number: cpu=2,llm=50.")] = "",
    drain: Annotated[str, typer.Option(help="How long running jobs may go on after SIGTERM.")] = "20s",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve health and metrics of this worker; 0: any free port.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address for that port; whoever reaches it reads the metrics.")
    ] = "127.0.0.1",
    sources: Annotated[
        str, typer.Option(help="Which sources it runs: names with commas between, all, or none.")
    ] = "all",
    with_parent: WithParent = False,
) -> None:
    """Work on jobs until stopped: SIGTERM lets running jobs end, SIGINT gives them back at once."""
    app, opened, beside, usual = _served(place, sources)
    app.role = "worker"
    slots = _slots(app, concurrency, queues) or usual
    patience = duration("--drain", drain)
    listener = _listen(host, port)

    async def main(stop: Stop) -> int:
        async with opened:
            worker = app.worker(concurrency=slots, drain=patience)
            async with beside:
                await _work(app, worker, stop, listener)
        return 0

    raise typer.Exit(run_until_stopped(app.settings, main, with_parent=with_parent, role="worker"))


Opened = AbstractAsyncContextManager[object]


def _served(place: str, sources: str) -> tuple[Penstock, Opened, Opened, int | dict[str, int]]:
    """The application whose jobs to run, what to open for it, what runs beside its worker, and its usual slots.

    Without a name it is the product's own, with its sources.
    """
    if place:
        app = import_app(place)
        return app, app, nullcontext(), 100
    from penstock.operations import Inspection
    from penstock.pipelines import Product
    from penstock.sources import Sources

    product = Product(role="worker")
    Inspection(product.app)
    names = {"all": None, "none": []}.get(sources, [name.strip() for name in sources.split(",") if name.strip()])
    return product.app, product, Sources(product, names), product.slots


async def _work(app: Penstock, worker: Worker, stop: Stop, listener: socket.socket | None) -> None:
    ending = asyncio.Event()

    async def pass_on() -> None:
        await stop.requested.wait()
        if stop.signal is not SIGTERM:  # Ctrl-C, or the parent died: nobody waits for us
            worker.hurry()
        ending.set()

    passing = asyncio.create_task(pass_on())
    try:
        async with _port(listener, app.database, worker):
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
            raise BadSetting(f"--queues: {part!r} is not a queue and a number, such as cpu=2,llm=50.")
        slots[queue] = int(number)
    unknown = slots.keys() - {kind.queue for kind in app.kinds.values()}
    if unknown:
        raise BadSetting(f"--queues: no job is declared for {', '.join(sorted(unknown))}.")
    return slots


def _listen(host: str, port: int | None) -> socket.socket | None:
    if port is None:
        return None
    from penstock.web import listen

    return listen(host, port)


@asynccontextmanager
async def _port(listener: socket.socket | None, database: Database, worker: Worker) -> AsyncIterator[None]:
    if listener is None:
        yield
        return
    from penstock.web.worker_port import open_port

    log.info("listening", url="http://{}:{}".format(*listener.getsockname()[:2]))
    async with open_port(listener, database, worker):
        yield
