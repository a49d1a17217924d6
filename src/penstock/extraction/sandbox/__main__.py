"""The sandbox process: `python -m penstock.extraction.sandbox SOCKET PARENT` confines itself, then runs one task at a time.

It speaks the frames of protocol.py over the socket that it inherits, and receives each document as a file descriptor. Readers
are imported when they are first needed, inside the confinement. A task is a function `(file, arguments, reply) -> JSON`.
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

from penstock.extraction.sandbox import protocol
from penstock.extraction.sandbox.confinement import Confinement, confine, limit_cpu
from penstock.extraction.sandbox.protocol import Reply

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGE = 2**25  # bytes: glibc maps larger blocks separately and returns them to the system
KEPT_FREE = 2**27  # bytes at the end of the heap
TRIM_ABOVE = 0.5  # share of the memory limit: a process that has used more trims its heap before it answers
TRIM_AFTER = 0.5  # seconds without a task
KEPT = "kept-"  # prefix of folders that a library needs for as long as it is loaded

Task = Callable[[BinaryIO, dict[str, Any], Reply], Any]


class Sandbox:
    """The loop over tasks."""

    def __init__(self, connection: socket.socket, parent: int) -> None:
        self.connection = connection
        self.heap = Heap()
        setup, _ = self._receive()
        self.tasks: dict[str, str] = setup["tasks"]
        self.scratch: str = setup["scratch"]
        self.heap.trim_above = int(TRIM_ABOVE * setup["file_size"])
        sys.path[:0] = setup["paths"]
        sys.path += [path for path in setup["packages"] if path not in sys.path]
        walls = Confinement(parent, self.scratch, setup["memory"], setup["file_size"])
        self.connection.sendall(protocol.pack(protocol.HELLO, protocol.encode({"confinement": confine(walls)})))

    def serve(self) -> None:
        # poll, not select, which cannot wait for descriptors from 1024 on: this one has the number that the parent gave it.
        incoming = select.poll()
        incoming.register(self.connection, select.POLLIN)
        while True:
            if not incoming.poll(TRIM_AFTER * 1000):
                self.heap.trim()
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
            if self.heap.is_large():
                self.heap.trim()  # now: the parent measures it when it has the answer
            reply.result(value)
        except (BrokenPipeError, ConnectionResetError):
            raise SystemExit(0) from None  # the parent is gone
        except Exception as error:  # noqa: BLE001 - any error of a reader is the answer
            reply.error(error)

    def _tidy(self) -> None:
        """Remove what the task left in the scratch folder: the next document must not see it."""
        for entry in os.scandir(self.scratch):
            if entry.name.startswith(KEPT):
                continue
            if entry.is_dir(follow_symlinks=False):
                import shutil  # rarely needed, and slow to load

                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)  # noqa: PTH108

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        """Receive a frame of the parent and its file descriptor; exit when the parent has ended."""
        descriptors = array.array("i")
        room = socket.CMSG_SPACE(descriptors.itemsize)
        head, ancillary, _, _ = self.connection.recvmsg(protocol.HEADER.size, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        if not head:
            raise SystemExit(0)
        head += self._exactly(protocol.HEADER.size - len(head))
        _, length = protocol.HEADER.unpack(head)
        return protocol.decode(self._exactly(length)), list(descriptors)

    def _exactly(self, length: int) -> bytes:
        gathered = bytearray()
        while len(gathered) < length:
            piece = self.connection.recv(min(length - len(gathered), 2**20))
            if not piece:
                raise SystemExit(0)
            gathered += piece
        return bytes(gathered)


class Heap:
    """Keeps freed memory for the next task: OCR that takes memory from the system for every layer needs half as much time
    again. Memory goes back after a task that has used much, and when no task follows.
    """

    def __init__(self) -> None:
        self.trim_above = 0
        self._libc = ctypes.CDLL(None)
        with suppress(AttributeError):  # another C library than glibc
            self._libc.mallopt(M_MMAP_THRESHOLD, LARGE)
            self._libc.mallopt(M_TRIM_THRESHOLD, KEPT_FREE)

    def is_large(self) -> bool:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > self.trim_above

    def trim(self) -> None:
        with suppress(AttributeError):
            self._libc.malloc_trim(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    faulthandler.enable(2)  # the parent reads the end of it when we crash
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115  output of libraries
    Sandbox(connection, int(sys.argv[2])).serve()


if __name__ == "__main__":
    main()
