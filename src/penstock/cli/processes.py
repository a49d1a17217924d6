"""`penstock api` and `penstock worker`: the two kinds of process that `penstock up` runs, for use by themselves."""

import socket
from typing import Annotated

import typer

from penstock.cli.running import Stop, run_until_stopped
from penstock.database import open_database
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
    from penstock.web import listen, make_app, serve

    settings = load_settings(api__host=host, api__port=port).settings
    listener = (
        socket.socket(fileno=socket_fd) if socket_fd is not None else listen(settings.api.host, settings.api.port)
    )

    async def main(stop: Stop) -> int:
        async with open_database(settings, role="api", progress=log.info) as database:
            log.info("listening", url="http://{}:{}".format(*listener.getsockname()[:2]))
            await serve(make_app(database), listener, stop.requested)
        return 0

    raise typer.Exit(run_until_stopped(settings, main, with_parent=with_parent))


def worker(with_parent: WithParent = False) -> None:
    """Work on jobs until stopped."""
    settings = load_settings().settings

    async def main(stop: Stop) -> int:
        async with open_database(settings, role="worker", progress=log.info):
            log.info("worker started")
            await stop.requested.wait()
        return 0

    raise typer.Exit(run_until_stopped(settings, main, with_parent=with_parent))
