"""A forked helper worker, so that `penstock add` can use a second core.

The fork happens before there is an event loop or a thread, so that nothing is imported twice. The child waits for a byte,
because only later is it known whether another worker is running. It ends with the command, however that ends: its standard
input closes then.
"""

import asyncio
import os
import signal
import sys
from types import TracebackType
from typing import NoReturn, Self

import typer

from penstock.cli.server import worker
from penstock.errors import CannotStart
from penstock.models import load_static

PATIENCE = 10.0  # seconds to requeue its jobs


class HelperWorker:
    """The other process; use it as a context manager, before anything runs."""

    def __init__(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        reader, self._writer = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._writer)  # else it would keep its own input open
            _wait_and_work(reader)
        os.close(reader)
        self._ended: asyncio.Future[tuple[int, int]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._writer)
        if self._ended is None:
            os.waitpid(self._process, 0)

    async def work(self, *, children: int) -> None:
        """Let it work until this is cancelled, on so many documents at a time."""
        if self._ended is not None:  # it has worked before
            return
        os.write(self._writer, bytes([min(children, 255)]))
        self._ended = ended = asyncio.ensure_future(asyncio.to_thread(os.waitpid, self._process, 0))
        try:
            _, status = await asyncio.shield(ended)
        except asyncio.CancelledError:
            await asyncio.shield(self._end(ended))
            raise
        if code := os.waitstatus_to_exitcode(status):
            raise CannotStart(f"The worker ended with exit code {code}: run `penstock worker` to see why.")

    async def _end(self, ended: "asyncio.Future[tuple[int, int]]") -> None:
        os.kill(self._process, signal.SIGINT)
        try:
            await asyncio.wait_for(asyncio.shield(ended), PATIENCE)
        except TimeoutError:
            os.kill(self._process, signal.SIGKILL)
            await ended


def _wait_and_work(reader: int) -> NoReturn:
    code = 1
    try:
        os.setsid()  # Ctrl-C goes to the command, which passes it on
        os.dup2(reader, sys.stdin.fileno())
        load_static()  # while the command finds its files, this process is idle
        if byte := os.read(sys.stdin.fileno(), 1):
            os.environ["PENSTOCK_EXTRACTION__CHILDREN"] = str(byte[0])
            os.environ.setdefault("PENSTOCK_LOG__LEVEL", "error")  # its lines would tear the display
            worker(sources="none", with_parent=True)
        code = 0
    except typer.Exit as end:
        code = end.exit_code
    finally:
        os._exit(code)
