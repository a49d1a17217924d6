"""`penstock up`: everything on one machine, with one command.

The parent owns the home (a flock on `home/up.lock`), the listening socket and a hold on the embedded server; it starts
an API process and a worker process, starts them again when they end without being asked, and passes signals on. The
children have sessions of their own, so that Ctrl-C comes to them once, through the parent.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import typer

from penstock.cli.server import Host, Port, ShutdownRequest, run_until_stopped
from penstock.cli.session import report
from penstock.database import DatabaseEndpoint, EmbeddedServer, home_trouble, reach_database
from penstock.errors import AlreadyRunning, ServerUnusable
from penstock.settings import Settings, load_settings
from penstock.telemetry import log

RESTART_AFTER = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_AFTER = 60.0  # a child that lived this long was fine: its next restart is quick again
DRAIN = 25.0  # seconds for children to end after a signal; longer than a worker's own drain
CHECK_EVERY = 1.0  # seconds, whether the server runs
CANNOT_START = 2  # the exit code of a process that has printed why it cannot work


def up(host: Host = None, port: Port = None) -> None:
    """Start PostgreSQL, the API and a worker on this machine."""
    loaded = load_settings(api__host=host, api__port=port)
    settings = loaded.settings
    if loaded.file.path.exists():
        typer.echo(f"Settings are read from {loaded.file}")
    report(f"Starting Penstock in {settings.home} …")
    from penstock.web import listen  # a second

    with _own_home(settings.home) as lock, listen(settings.api.host, settings.api.port) as listener:
        address = "http://{}:{}".format(*listener.getsockname()[:2])
        _sign(lock, settings.home, address)
        raise typer.Exit(run_until_stopped(settings, lambda stop: _run(settings, listener, address, stop)))


async def _run(settings: Settings, listener: socket.socket, address: str, stop: ShutdownRequest) -> int:
    began = time.monotonic()
    async with reach_database(settings, progress=typer.echo) as reached:
        if reached.joined is not None:
            typer.echo(f"PostgreSQL {reached.joined.how} in {reached.joined.seconds:.2f} s, in {settings.home}")
        await _refuse_unguarded(reached, settings.api.host)
        descriptor = listener.fileno()
        tasks = [
            asyncio.create_task(
                ChildProcess("api", "--socket-fd", str(descriptor), pass_fds=(descriptor,)).keep_alive(stop)
            ),
            asyncio.create_task(ChildProcess("worker").keep_alive(stop)),
        ]
        if reached.server is not None:
            tasks.append(asyncio.create_task(_keep_server(reached.server, stop)))
        reporting = asyncio.create_task(_report_when_live(listener, address, began))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # by a signal, or because a child cannot start
        reporting.cancel()
        stop.requested.set()
        return max(await asyncio.gather(*tasks))


async def _refuse_unguarded(reached: DatabaseEndpoint, host: str) -> None:
    """Before anything starts, as the API would do it."""
    from penstock.web import refuse_unguarded

    session = await reached.address.open_session("up")
    try:
        await refuse_unguarded(session, host)
    finally:
        session.terminate()


class ChildProcess:
    """The API or the worker process, restarted until a stop is requested."""

    def __init__(self, name: str, *arguments: str, pass_fds: tuple[int, ...] = ()) -> None:
        self._name = name
        self._command = [sys.executable, "-m", "penstock", name, "--with-parent", *arguments]
        self._pass_fds = pass_fds

    async def keep_alive(self, stop: ShutdownRequest) -> int:
        """Restart it until a stop is requested or it cannot start; the exit code of the last one."""
        failures = 0
        while True:
            began = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, start_new_session=True, pass_fds=self._pass_fds
            )
            code = await _until_ended(process, stop)
            if stop.requested.is_set() or code == CANNOT_START:
                return max(code, 0)
            failures = 0 if time.monotonic() - began > STEADY_AFTER else failures + 1
            pause = RESTART_AFTER[min(failures, len(RESTART_AFTER) - 1)]
            log.error("process ended and is started again", process=self._name, code=code, after=pause)
            await _pause(stop, pause)
            if stop.requested.is_set():
                return 0


async def _until_ended(process: asyncio.subprocess.Process, stop: ShutdownRequest) -> int:
    """Wait for the end; once a stop is asked, pass the signal on, and kill what does not end in time."""
    ending = asyncio.create_task(process.wait())
    asked = asyncio.create_task(stop.requested.wait())
    await asyncio.wait([ending, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not ending.done():
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(stop.signal or signal.SIGTERM)
        try:
            return await asyncio.wait_for(asyncio.shield(ending), DRAIN)
        except TimeoutError:
            process.kill()
    return await ending


async def _keep_server(server: EmbeddedServer, stop: ShutdownRequest) -> int:
    """Restart the server also while no child needs it; children restart it when they do."""
    while not stop.requested.is_set():
        if server.postmaster.running() is None:
            log.error("PostgreSQL has gone; starting it again")
            try:
                await server.revive()
            except ServerUnusable as error:
                log.error("PostgreSQL did not start", reason=str(error))
        await _pause(stop, CHECK_EVERY)
    return 0


async def _report_when_live(listener: socket.socket, address: str, began: float) -> None:
    """The socket listens already, so one request waits for the API process; if that ends, the next one does."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            writer.write(b"GET /health/live HTTP/1.0\r\n\r\n")
            answer = await reader.readline()
            writer.close()
        except OSError:
            answer = b""
        if b" 200 " in answer:
            break
        await asyncio.sleep(0.1)
    typer.echo(f"Penstock is up on {address} after {time.monotonic() - began:.1f} s. Ctrl-C stops it.")


async def _pause(stop: ShutdownRequest, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.requested.wait()


@contextlib.contextmanager
def _own_home(home: Path) -> Iterator[int]:
    """Only one `up` per home; its lock file has its process id and its address."""
    with home_trouble(home):
        home.mkdir(parents=True, exist_ok=True, mode=0o711)
        lock = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    except BlockingIOError:
        owner = os.pread(lock, 200, 0).decode() or "another penstock up"
        raise AlreadyRunning(
            f"{home} is in use by {owner}: stop that process, or choose another home with PENSTOCK_HOME."
        ) from None
    finally:
        os.close(lock)


def _sign(lock: int, home: Path, address: str) -> None:
    with home_trouble(home):
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} (penstock up) on {address}".encode(), 0)
