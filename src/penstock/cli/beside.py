"""A worker in a process of its own, beside the one in a command that has much to do: each has its own interpreter's lock.

It is a fork of the command, made before there is an event loop or a thread, so that nothing is imported twice. It waits for
a word, because only later it is known whether another worker is there already; and it ends with the command, however that
ends: its standard input closes then.
"""

import asyncio
import os
import signal
import sys
from types import TracebackType
from typing import NoReturn, Self

import typer

from penstock.cli.processes import worker
from penstock.errors import CannotStart
from penstock.models import load_static

PATIENCE = 10.0  # seconds to give back what it has taken


class Beside:
    """The other process; use it as a context manager, before anything runs."""

    def __init__(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        listening, self._speaking = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._speaking)  # else it would keep its own input open
            _wait_and_work(listening)
        os.close(listening)
        self._ended: asyncio.Future[tuple[int, int]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._speaking)
        if self._ended is None:
            os.waitpid(self._process, 0)

    async def work(self, *, children: int) -> None:
        """Let it work until this is cancelled; it reads so many documents at the same time."""
        if self._ended is not None:  # it has been told to work before
            return
        os.write(self._speaking, bytes([min(children, 255)]))
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


def _wait_and_work(listening: int) -> NoReturn:
    code = 1
    try:
        os.setsid()  # Ctrl-C is the command's, which gives it on
        os.dup2(listening, sys.stdin.fileno())
        load_static()  # while the command looks at its files, this has nothing else to do
        if word := os.read(sys.stdin.fileno(), 1):
            os.environ["PENSTOCK_EXTRACTION__CHILDREN"] = str(word[0])
            os.environ.setdefault("PENSTOCK_LOG__LEVEL", "error")  # its lines would tear the display
            worker(sources="none", with_parent=True)
        code = 0
    except typer.Exit as end:
        code = end.exit_code
    finally:
        os._exit(code)
