"""Tasks for the tests of the sandboxes: they run in the child, and do what a hostile document might make a reader do."""

import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from penstock.errors import Encrypted
from penstock.extraction.sandbox.protocol import Reply

Arguments = dict[str, Any]


def echo(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    return {"content": file.read().decode(), "arguments": arguments, "pid": os.getpid()}


def pid(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    return os.getpid()


def refuse(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    raise Encrypted("encrypted: a password is needed")


def stumble(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    raise KeyError("in /root/.secret/place and\nelsewhere" + "x" * 1000)


def starve(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    raise MemoryError


def lack(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    import no_such_package  # type: ignore[import-not-found]  # noqa: F401


def hog(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """In steps, as documents do, until it is stopped."""
    kept = []
    while True:
        kept.append(bytearray(b"x") * 2**22)
        time.sleep(0.001)


def grab(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """All at once, faster than anybody can watch."""
    return len(bytearray(arguments["size"]))


def keep(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """Memory that is not given back."""
    sys.modules[__name__].kept = bytearray(b"x") * arguments["size"]  # type: ignore[attr-defined]
    return os.getpid()


def borrow(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """Memory in pieces, twice, all of it free again at the end; and how many pages the system had to give each time."""
    import resource

    faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
    for _ in range(2):
        pieces = [bytearray(b"x") * 2**20 for _ in range(arguments["pieces"])]
        del pieces
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    return {"pid": os.getpid(), "faults": [after - before for before, after in pairwise(faults)]}


def spin(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    while True:
        pass


def sleep(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    reply.progress(0, 1)
    time.sleep(arguments.get("seconds", 3600))
    return os.getpid()


def crash(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    ctypes.string_at(0)


def warm(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """From now on `crash_if_warm` crashes in this child, and only in this one."""
    globals()["is_warm"] = True


def crash_if_warm(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    if globals().get("is_warm"):
        os.abort()
    return "alive"


def leave(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    os._exit(arguments["code"])


def start(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """Every way to another process or program."""
    command = [sys.executable, "-c", ""]
    return {
        "fork": _failed(os.fork),
        "spawn": _failed(lambda: os.posix_spawn(command[0], command, {})),
        "exec": _failed(lambda: os.execv(command[0], command)),
        "program": _failed(lambda: subprocess.run(command, check=True)),
    }


def thread(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    started = threading.Thread(target=int)
    started.start()
    started.join()
    return "threads work"


def network(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    families = {"inet": socket.AF_INET, "inet6": socket.AF_INET6, "netlink": socket.AF_NETLINK, "unix": socket.AF_UNIX}
    answers = {name: _tried(lambda family=family: socket.socket(family).close()) for name, family in families.items()}
    answers["datagram pair"] = _tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    answers["stream pair"] = _tried(socket.socketpair)
    answers["bind"] = _tried(lambda: _one_end(lambda end: end.bind(str(Path(os.environ["TMPDIR"]) / "socket"))))
    answers["listen"] = _tried(lambda: _one_end(lambda end: end.listen()))
    answers["interfaces"] = _tried(socket.if_nameindex)
    return answers


def attempt(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """What of the outside can be touched."""
    outside = Path(arguments["outside"])
    inside = Path(os.environ["TMPDIR"])
    return {
        "read": _tried(outside.read_bytes),
        "write": _tried(lambda: outside.write_bytes(b"x")),
        "list": _tried(lambda: list(outside.parent.iterdir())),
        "create": _tried(lambda: outside.with_name("new").touch()),
        "remove": _tried(outside.unlink),
        "proc": _tried(Path(f"/proc/{os.getppid()}/environ").read_bytes),
        "passwd": _tried(Path("/etc/passwd").read_bytes),
        "kill": _tried(lambda: os.kill(os.getppid(), 0)),
        "kill itself": _tried(lambda: os.kill(os.getpid(), 0)),
        "session": _tried(os.setsid),
        "scratch": _tried(lambda: (inside / "mine").write_bytes(b"x")),
        "module": _tried(lambda: __import__("sqlite3")),
        "reopen": _tried(lambda: os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDWR)),
        "write the document": _tried(lambda: os.write(file.fileno(), b"x")),
    }


def capabilities(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """Effective, permitted, inheritable, of the first 32."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capget(header, sets) == 0
    return list(sets[:3])


def litter(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """What lies in the scratch folder; then leave something there."""
    folder = Path(os.environ["TMPDIR"])
    found = sorted(path.name for path in folder.iterdir())
    (folder / "left").write_text("x")
    (folder / "sub").mkdir()
    (folder / "sub" / "left").write_text("x")
    return [str(folder), found]


def large_file(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with (Path(os.environ["TMPDIR"]) / "large").open("wb") as large:
        large.truncate(arguments["size"])
    return "written"


def fill(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """Many files, none of them large."""
    folder = Path(os.environ["TMPDIR"]) / "sub"
    folder.mkdir()
    for number in range(arguments["files"]):
        (folder / str(number)).write_bytes(b"x" * arguments["size"])
    time.sleep(3600)


def environment(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    return {
        "environ": dict(os.environ),
        "fds": sorted(
            filter(None, map(_fd_target, range(65_536)))
        ),  # the socket has the number that the parent gave it
        "sid": os.getsid(0) == os.getpid(),
    }


def big(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    page = "Zürich, naïve – “words”\n" * 100
    count = arguments["size"] // len(page.encode())
    return {"pages": [{"number": number, "text": page} for number in range(count)], "single": page * 400, "empty": []}


def parts(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    for number in range(arguments["count"]):
        reply.part({"name": f"member {number}", "number": number}, _pieces(number, arguments["size"]))
    if arguments.get("crash"):
        os.abort()
    return {"members": arguments["count"]}


def broken_part(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    def pieces() -> Iterator[bytes]:
        yield b"begin"
        raise ValueError("bad checksum")

    try:
        reply.part({"name": "first"}, pieces())
    except ValueError:
        reply.part({"name": "second"}, [b"good"])
    return "went on"


def say(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """Raw bytes on the wire, as many times as wanted; then silence."""
    for _ in range(arguments.get("times", 1)):
        reply._connection.sendall(bytes.fromhex(arguments["hex"]))
    time.sleep(arguments.get("silence", 3600))


def say_more(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """A word too many, after the result."""
    reply.result("first")
    return "second"


def lag(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    """From now on something else is said before each task begins."""
    begin = Reply.begin

    def late(self: Reply, token: str) -> None:
        self.result("late")
        begin(self, token)

    Reply.begin = late  # type: ignore[method-assign]
    return os.getpid()


def count(file: BinaryIO, arguments: Arguments, reply: Reply) -> Any:
    for done in range(5):
        time.sleep(0.06)
        reply.progress(done + 1, 5)


def _pieces(number: int, size: int) -> Iterator[bytes]:
    left = size
    while left:
        piece = bytes([number % 256]) * min(left, 300_000)
        left -= len(piece)
        yield piece


def _fd_target(number: int) -> str | None:
    try:
        return f"{number}:{os.fstat(number).st_mode & 0o170000:o}"
    except OSError:
        return None


def _one_end(action: Any) -> None:
    """With a socket that a sandbox can have."""
    one, other = socket.socketpair()
    with one, other:
        action(one)


def _failed(action: Any) -> str:
    """The kernel's own word for it."""
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "allowed"


def _tried(action: Any) -> str:
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "allowed"
