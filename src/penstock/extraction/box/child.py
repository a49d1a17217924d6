"""One box, seen from the worker: a process of ours, its socket, its scratch folder, and its end.

It is started with an empty environment in a session of its own. It is ended by killing its group, and is reaped always; the
kernel kills it when the thread that started it ends, so the loop's own thread starts it and no other.
"""

import asyncio
import os
import secrets
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import JobFailure
from penstock.extraction.box import wire
from penstock.extraction.box.exchange import Exchange, Request
from penstock.extraction.box.frames import Ended, Frames, Nonsense, decode
from penstock.extraction.box.watch import Allowance, Vitals, Watch

ROOT = str(Path(__file__).parents[3])  # where the package is


@dataclass(frozen=True)
class Design:
    """What all boxes of a class have in common."""

    tasks: Mapping[str, str]  # "module:function" of each
    scratch: Path  # each has a folder of its own in it
    memory: int
    net: bool  # whether the kernel limits its memory, too
    paths: Sequence[str] = field(default=())  # to import from, before all others


@dataclass(frozen=True)
class Crash:
    """How a box ended that nobody told to end."""

    signal: str  # "SIGSEGV", or "exit code 3"
    memory: int  # at most, in its last task, as far as it was seen
    said: str  # the end of its standard error


class Crashed(Exception):
    """The box ended in the middle of a task, after it had sent so many parts."""

    def __init__(self, crash: Crash, *, parts: int) -> None:
        super().__init__(crash.signal)
        self.crash = crash
        self.parts = parts


class Child:
    """A process that does one task at a time."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.tasks = 0
        self.usable = False
        self.sandbox: dict[str, Any] = {}
        self.ending: asyncio.Task[Crash] | None = None
        self._doom: JobFailure | None = None
        self._peak = 0
        self.scratch = tempfile.mkdtemp(dir=design.scratch)
        with ExitStack() as opened:  # closes everything again when the start fails
            self._connection, theirs = (opened.enter_context(end) for end in socket.socketpair())
            self._errors, errors = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)  # never read while it runs: full means lost
            opened.callback(os.close, self._errors)
            with theirs, os.fdopen(errors, "wb") as errors_end:
                self._process = _launch(theirs.fileno(), errors_end.fileno(), self.scratch)
            self.pid = self._process.pid
            opened.callback(self._process.wait)
            opened.callback(self._process.kill)
            self._pidfd = os.pidfd_open(self.pid)
            opened.callback(os.close, self._pidfd)
            self._vitals = Vitals(self.pid)
            opened.pop_all()
        self._connection.setblocking(False)
        self._frames = Frames(self._connection)

    async def greet(self) -> None:
        """Wait until it has shut itself in; `Ended` or `Nonsense` when it cannot start."""
        setup = {
            "tasks": dict(self.design.tasks),
            "scratch": self.scratch,
            "memory": 2 * self.design.memory + 2**30 if self.design.net else None,
            "file_size": self.design.memory,
            "paths": list(self.design.paths),
            "packages": [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}],
        }
        await self._frames.send(wire.SETUP, wire.encode(setup))
        kind, body = await self._frames.next()
        hello = await decode(body)
        if kind != wire.HELLO or not isinstance(hello, dict) or not isinstance(hello.get("sandbox"), dict):
            raise Nonsense("no hello")
        self.sandbox = hello["sandbox"]
        self.usable = True

    def ready(self) -> bool:
        """Alive, and silent until it is asked."""
        return self.usable and self._frames.quiet()

    async def run(self, request: Request) -> Any:
        """The task's result. `Ended` for a crash; `usable` tells whether the box can be kept."""
        self.usable = False
        self.tasks += 1
        watch = Watch(self._vitals, Allowance(self.design.memory, request.seconds, self.scratch), self._condemn)
        exchange = Exchange(self._frames, watch, request)
        try:
            token = secrets.token_hex(8)
            await self._hand_over(request, token)
            await exchange.begin(token)
            value = await exchange.result()
        except Ended:
            if self._doom is not None:
                raise self._doom from None
            raise Ended(exchange.parts) from None
        except JobFailure:
            self.usable = exchange.over and self._doom is None
            raise
        finally:
            watch.stop()
            self._peak = watch.peak
        self.usable = self._doom is None  # its last word may have crossed our kill
        return value

    async def _hand_over(self, request: Request, token: str) -> None:
        fields = {"task": request.task, "arguments": request.arguments, "cpu": request.seconds, "token": token}
        descriptor = _reopened(request.file.fileno())
        try:
            await self._frames.send(wire.TASK, wire.encode(fields), descriptor)
        finally:
            os.close(descriptor)

    def _condemn(self, reason: JobFailure) -> None:
        self._doom = reason
        self.kill()

    def memory(self) -> int:
        """What it holds now."""
        return self._vitals.memory()

    def kill(self) -> None:
        """At once, with its group: on a machine without the filter of system calls it may have started something."""
        self.usable = False
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self) -> Crash:
        """Killed, reaped, and its folder removed; how it ended."""
        self.kill()
        loop = asyncio.get_running_loop()
        dead = asyncio.Event()
        loop.add_reader(self._pidfd, dead.set)
        try:
            await dead.wait()
        finally:
            loop.remove_reader(self._pidfd)
        return await asyncio.to_thread(self._bury)

    def _bury(self) -> Crash:
        _, status = os.waitpid(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen knows, and does not wait itself
        try:
            said = os.read(self._errors, 2**16).decode(errors="replace")
        except BlockingIOError:
            said = ""
        os.close(self._errors)
        os.close(self._pidfd)
        self._vitals.close()
        self._connection.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        # Not by ru_maxrss: it begins with the size of the process that was forked, ours.
        return Crash(_called(self._process.returncode), self._peak, said)


def _launch(connection: int, errors: int, scratch: str) -> "subprocess.Popen[bytes]":
    options = ("-s", "-P", "-B", "-X", "utf8")  # no packages of the user, none of the working folder, nothing written
    return subprocess.Popen(
        [sys.executable, *options, "-m", "penstock.extraction.box", str(connection), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=[connection],
        env=_environment(scratch),
        cwd=scratch,
        start_new_session=True,
    )


def _environment(scratch: str) -> dict[str, str]:
    """Nothing of ours: it may hold secrets. One thread per library, because several boxes share the processors."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS")
    environment = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": scratch, "TMPDIR": scratch}
    environment |= dict.fromkeys(threads, "1") | {"MALLOC_ARENA_MAX": "2"}
    if ROOT not in site.getsitepackages():
        environment["PYTHONPATH"] = ROOT
    if "LD_LIBRARY_PATH" in os.environ:  # some interpreters do not start without it
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return environment


def _reopened(descriptor: int) -> int:
    """The same file, for reading only, with a position of its own."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)


def _called(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
