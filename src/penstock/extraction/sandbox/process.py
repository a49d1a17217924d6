"""One sandbox process, seen from the worker: its start, its socket, its scratch folder and its end.

It starts with an empty environment in its own session. It is ended by killing its process group, and is always reaped. The
kernel kills it when the thread that started it ends, so only the event loop's thread starts it.
"""

import asyncio
import fcntl
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
from time import time
from typing import Any

from penstock.errors import JobFailure
from penstock.extraction.sandbox import protocol
from penstock.extraction.sandbox.exchange import (
    Exchange,
    FrameStream,
    ProtocolBroken,
    SandboxEnded,
    TaskRequest,
    decode,
)
from penstock.extraction.sandbox.monitor import Monitor, ProcStat, ResourceLimits

PREFIX = "penstock-sandbox-"  # of folders in the system's folder for temporary files
ROOT = str(Path(__file__).parents[3])  # the folder of the package


class ScratchFolder:
    """The folder of one pool, with a folder for each of its children; locked, so that others remove it after a kill -9."""

    def __init__(self) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            _remove_left(left)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _remove_left(folder: Path) -> None:
    with suppress(OSError):  # in use, of another user, or gone
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if (
                os.fstat(lock).st_uid == os.geteuid() and os.fstat(lock).st_mtime < time() - 60
            ):  # one being made has no lock yet
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


@dataclass(frozen=True)
class SandboxSpec:
    """The settings that all sandbox processes of one kind share."""

    tasks: Mapping[str, str]  # "module:function" of each
    scratch: Path  # each process has its own folder in it
    memory: int
    net: bool  # whether the kernel limits its memory, too
    paths: Sequence[str] = field(default=())  # to import from, before all others


@dataclass(frozen=True)
class Crash:
    """The end of a process, and the evidence of its cause."""

    signal: str  # "SIGSEGV", or "exit code 3"
    memory: int  # the largest that was measured in its last task
    stderr: str  # the end of it


class SandboxCrashed(Exception):
    """The process ended in the middle of a task, after it had sent so many parts."""

    def __init__(self, crash: Crash, *, parts: int) -> None:
        super().__init__(crash.signal)
        self.crash = crash
        self.parts = parts


class SandboxProcess:
    """A process that does one task at a time."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self.tasks = 0
        self.usable = False
        self.confinement: dict[str, Any] = {}
        self.ending: asyncio.Task[Crash] | None = None
        self._failure: JobFailure | None = None
        self._peak = 0
        self.scratch = tempfile.mkdtemp(dir=spec.scratch)
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
            self._stat = ProcStat(self.pid)
            opened.pop_all()
        self._connection.setblocking(False)
        self._frames = FrameStream(self._connection)

    async def greet(self) -> None:
        """Wait until it has confined itself; `SandboxEnded` or `ProtocolBroken` when it cannot start."""
        setup = {
            "tasks": dict(self.spec.tasks),
            "scratch": self.scratch,
            "memory": 2 * self.spec.memory + 2**30 if self.spec.net else None,
            "file_size": self.spec.memory,
            "paths": list(self.spec.paths),
            "packages": [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}],
        }
        await self._frames.send(protocol.SETUP, protocol.encode(setup))
        kind, body = await self._frames.next()
        hello = await decode(body)
        if kind != protocol.HELLO or not isinstance(hello, dict) or not isinstance(hello.get("confinement"), dict):
            raise ProtocolBroken("no hello")
        self.confinement = hello["confinement"]
        self.usable = True

    def ready(self) -> bool:
        """Whether it is alive, and has sent nothing without a task."""
        return self.usable and self._frames.quiet()

    async def run(self, request: TaskRequest) -> Any:
        """Return the task's value; `SandboxEnded` for a crash. `usable` is whether the process can be kept."""
        self.usable = False
        self.tasks += 1
        monitor = Monitor(self._stat, ResourceLimits(self.spec.memory, request.seconds, self.scratch), self._kill_for)
        exchange = Exchange(self._frames, monitor, request)
        try:
            token = secrets.token_hex(8)
            await self._send_task(request, token)
            await exchange.begin(token)
            value = await exchange.result()
        except SandboxEnded:
            if self._failure is not None:
                raise self._failure from None
            raise SandboxEnded(exchange.parts) from None
        except JobFailure:
            self.usable = exchange.over and self._failure is None
            raise
        finally:
            monitor.stop()
            self._peak = monitor.peak
        self.usable = self._failure is None  # its result may have arrived while it was killed
        return value

    async def _send_task(self, request: TaskRequest, token: str) -> None:
        fields = {"task": request.task, "arguments": request.arguments, "cpu": request.seconds, "token": token}
        descriptor = _reopened(request.file.fileno())
        try:
            await self._frames.send(protocol.TASK, protocol.encode(fields), descriptor)
        finally:
            os.close(descriptor)

    def _kill_for(self, reason: JobFailure) -> None:
        self._failure = reason
        self.kill()

    def memory(self) -> int:
        """The resident size now."""
        return self._stat.memory()

    def kill(self) -> None:
        """Kill its process group: on a machine without the system call filter it may have started another process."""
        self.usable = False
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self) -> Crash:
        """Kill and reap it, remove its folder, and return how it ended."""
        self.kill()
        loop = asyncio.get_running_loop()
        dead = asyncio.Event()
        loop.add_reader(self._pidfd, dead.set)
        try:
            await dead.wait()
        finally:
            loop.remove_reader(self._pidfd)
        return await asyncio.to_thread(self._reap)

    def _reap(self) -> Crash:
        _, status = os.waitpid(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen knows, and does not wait itself
        try:
            stderr = os.read(self._errors, 2**16).decode(errors="replace")
        except BlockingIOError:
            stderr = ""
        os.close(self._errors)
        os.close(self._pidfd)
        self._stat.close()
        self._connection.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        # Not by ru_maxrss: it begins with the size of the process that was forked, ours.
        return Crash(_called(self._process.returncode), self._peak, stderr)


def _launch(connection: int, errors: int, scratch: str) -> "subprocess.Popen[bytes]":
    options = ("-s", "-P", "-B", "-X", "utf8")  # no packages of the user, none of the working folder, nothing written
    return subprocess.Popen(
        [sys.executable, *options, "-m", "penstock.extraction.sandbox", str(connection), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=[connection],
        env=_environment(scratch),
        cwd=scratch,
        start_new_session=True,
    )


def _environment(scratch: str) -> dict[str, str]:
    """Without the worker's own variables, which may be secret; one thread per library, because processes share the CPUs."""
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
