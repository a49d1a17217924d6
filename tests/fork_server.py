"""Processes that are forked instead of started: a new interpreter takes 0.6 s of a core to import everything, a fork 10 ms.

One fork server per test process imports Penstock and waits. For each request it forks; the child gets the arguments, the
environment, the folder and the descriptors that a started process would get, and runs the program from its first line. The
request comes with a socket of its own, on which the fork server answers with the process's number and later with how it ended.
"""

import asyncio
import contextlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
BIGGEST = 1_000_000  # bytes of a request: the environment may be large


# -- the server -----------------------------------------------------------------------------------------------------


def live(requests: socket.socket) -> None:
    """Fork until the test process is gone."""
    import penstock.cli.commands
    import penstock.web.health  # noqa: F401

    children: dict[int, socket.socket] = {}
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    events = selectors.DefaultSelector()
    events.register(requests, selectors.EVENT_READ)
    events.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj is woken:
                with contextlib.suppress(BlockingIOError):
                    woken.recv(1000)
                _report(children)
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, BIGGEST, 3)
            if not message:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (requests, wake, woken, *children.values()):
                    other.close()
                _become(json.loads(message), descriptors)
            control = socket.socket(fileno=descriptors[2])
            children[pid] = control
            control.sendall(f"{pid}\n".encode())
            for descriptor in descriptors[:2]:
                os.close(descriptor)


def _report(children: dict[int, socket.socket]) -> None:
    """Tell how those that have ended did."""
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with children.pop(pid) as control, contextlib.suppress(OSError):  # nobody may want to know
                control.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Run the program as a new interpreter would, and end."""
    stdin, output, control = descriptors
    for descriptor, number in ((stdin, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    for descriptor in (stdin, output, control):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    random.seed()
    _read_environment_again()
    code: object = 0
    try:
        _run(request["command"])
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)  # noqa: T201
            code = 1
    except BaseException:  # noqa: BLE001  as an interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 0)


def _read_environment_again() -> None:
    """What was read when this interpreter started, or when a module was imported."""
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    from penstock.engine import failpoint

    failpoint._armed.update(failpoint.parse(os.environ.get(failpoint.VARIABLE, "")))


def _run(command: list[str]) -> None:
    first, *rest = command
    sys.path[0] = str(Path.cwd())
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = command
        sys.path[0] = str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


# -- the test's side ------------------------------------------------------------------------------------------------


class ForkedProcess:
    """What asyncio's Process offers, as far as it is used here."""

    def __init__(self, pid: int, stdout: asyncio.StreamReader, control: asyncio.StreamReader, ends: Any) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = asyncio.create_task(self._end(control, ends))

    async def _end(self, control: asyncio.StreamReader, ends: Any) -> int:
        self.returncode = int(await control.readline() or b"-9")
        ends.close()
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


_fork_server: tuple[int, "subprocess.Popen[bytes]", socket.socket] | None = None


def _requests() -> socket.socket:
    """The way to this process's fork server, which is made when it is first needed."""
    global _fork_server  # noqa: PLW0603
    if _fork_server is None or _fork_server[0] != os.getpid() or _fork_server[1].poll() is not None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        process = subprocess.Popen(
            [sys.executable, "-c", "from tests.fork_server import main; main()", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        _fork_server = os.getpid(), process, ours
    return _fork_server[2]


async def fork(command: Sequence[str], environ: Mapping[str, str], cwd: Path | None) -> ForkedProcess:
    """Run Python with these arguments, as `asyncio.create_subprocess_exec(sys.executable, …)` would."""
    requests = _requests()
    output, its_output = os.pipe()
    control, its_control = socket.socketpair()
    nothing = os.open(os.devnull, os.O_RDONLY)
    request = json.dumps({"command": list(command), "environ": dict(environ), "cwd": str(cwd or Path.cwd())})
    try:
        socket.send_fds(requests, [request.encode()], [nothing, its_output, its_control.fileno()])
    finally:
        os.close(nothing)
        os.close(its_output)
        its_control.close()
    loop = asyncio.get_running_loop()
    stdout = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(output, "rb"))
    answers, ends = await asyncio.open_connection(sock=control)
    async with asyncio.timeout(60):
        pid = int(await answers.readline())
    return ForkedProcess(pid, stdout, answers, ends)


def main() -> None:
    live(socket.socket(fileno=int(sys.argv[1])))
