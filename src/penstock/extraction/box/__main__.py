"""The child: `python -m penstock.extraction.box SOCKET PARENT`. Shuts itself in, then does one task after the other.

It speaks the frames of wire.py over the one socket that it was given, and gets each document as a file descriptor. Readers
are imported when they are first needed, inside the walls. A task is a plain function `(file, arguments, reply) -> JSON`.
"""

import array
import ctypes
import faulthandler
import importlib
import io
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from penstock.extraction.box import wire
from penstock.extraction.box.reply import Reply
from penstock.extraction.box.sandbox import Walls, confine, limit_cpu

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGE = 2**25  # bytes that glibc takes from the system and gives back by themselves
KEPT_FREE = 2**27  # bytes at the end of the heap
MUCH = 0.5  # of the memory of a box: one that has had more gives back what is free before it answers
MOMENT = 0.5  # seconds without a task, after which it does so anyway
KEPT = "kept-"  # how the names of such folders begin

Task = Callable[[BinaryIO, dict[str, Any], Reply], Any]


class Box:
    """The loop over tasks."""

    def __init__(self, connection: socket.socket, parent: int) -> None:
        self.connection = connection
        self.heap = Heap()
        setup, _ = self._receive()
        self.tasks: dict[str, str] = setup["tasks"]
        self.scratch: str = setup["scratch"]
        self.heap.much = int(MUCH * setup["file_size"])
        sys.path[:0] = setup["paths"]
        sys.path += [path for path in setup["packages"] if path not in sys.path]
        walls = Walls(parent, self.scratch, setup["memory"], setup["file_size"])
        self.connection.sendall(wire.pack(wire.HELLO, wire.encode({"sandbox": confine(walls)})))

    def serve(self) -> None:
        while True:
            if not select.select([self.connection], [], [], MOMENT)[0]:
                self.heap.give_back()
            request, descriptors = self._receive()
            limit_cpu(request["cpu"])
            with io.FileIO(descriptors[0], "rb") as raw:
                self._perform(request, raw)
            self._tidy()

    def _perform(self, request: dict[str, Any], raw: io.FileIO) -> None:
        reply = Reply(self.connection)
        reply.begin(request["token"])
        try:
            module, _, function = self.tasks[request["task"]].partition(":")
            task: Task = getattr(importlib.import_module(module), function)
            with io.BufferedReader(raw) as file:
                value = task(file, request["arguments"], reply)
            if self.heap.had_much():
                self.heap.give_back()  # now: the parent looks when it has the answer
            reply.result(value)
        except (BrokenPipeError, ConnectionResetError):
            raise SystemExit(0) from None  # the parent is gone
        except Exception as error:  # noqa: BLE001 - whatever a reader raises is the answer
            reply.error(error)

    def _tidy(self) -> None:
        """The next document shall not see what the last one left, except what a library has for as long as it is loaded."""
        for entry in os.scandir(self.scratch):
            if entry.name.startswith(KEPT):
                continue
            if entry.is_dir(follow_symlinks=False):
                import shutil  # rarely needed, and slow to load

                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)  # noqa: PTH108

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        """A frame of the parent and the descriptor that came with it; the end of the parent is ours."""
        descriptors = array.array("i")
        room = socket.CMSG_SPACE(descriptors.itemsize)
        head, ancillary, _, _ = self.connection.recvmsg(wire.HEADER.size, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        if not head:
            raise SystemExit(0)
        head += self._exactly(wire.HEADER.size - len(head))
        _, length = wire.HEADER.unpack(head)
        return wire.decode(self._exactly(length)), list(descriptors)

    def _exactly(self, length: int) -> bytes:
        gathered = bytearray()
        while len(gathered) < length:
            piece = self.connection.recv(min(length - len(gathered), 2**20))
            if not piece:
                raise SystemExit(0)
            gathered += piece
        return bytes(gathered)


class Heap:
    """What is free in it stays for the next task: an OCR that takes its memory from the system anew for every layer is half
    as slow again. It goes back when there is much of it, and when nothing follows.
    """

    def __init__(self) -> None:
        self.much = 0
        self._libc = ctypes.CDLL(None)
        with suppress(AttributeError):  # another C library than glibc
            self._libc.mallopt(M_MMAP_THRESHOLD, LARGE)
            self._libc.mallopt(M_TRIM_THRESHOLD, KEPT_FREE)

    def had_much(self) -> bool:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > self.much

    def give_back(self) -> None:
        with suppress(AttributeError):
            self._libc.malloc_trim(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    faulthandler.enable(2)  # the parent reads the end of it when we crash
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115  libraries may print; nobody listens
    Box(connection, int(sys.argv[2])).serve()


if __name__ == "__main__":
    main()
