"""Landlock by ctypes: this process, and all that it starts, may open only the named paths from now on.

It needs no privilege, and the kernel has it since 5.13. Newer kernels can do more; what they cannot do is not asked for.
Already open descriptors keep working: that is how a document comes in.
"""

import ctypes
import os
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on all architectures
ASK_VERSION = 1
PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR  # libraries are mapped for execution
FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE  # what a rule for a plain file may name

# What each version of the interface has learned to refuse.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_SINCE, SCOPES_SINCE = 4, 6
BIND_AND_CONNECT = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # as packed structures are laid out; Python 3.14 wants it said
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Of the kernel's interface; 0 where it has none."""
    return max(0, int(_libc.syscall(CREATE_RULESET, None, 0, ASK_VERSION)))


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str] = ()) -> int:
    """From now on only these paths can be opened; the version of the interface, 0 when nothing was done."""
    known = version()
    if not known:
        return 0
    files = FILE_RIGHTS[min(known, max(FILE_RIGHTS))]
    asked = _Ruleset(
        files,
        BIND_AND_CONNECT if known >= TCP_SINCE else 0,
        ABSTRACT_SOCKETS_AND_SIGNALS if known >= SCOPES_SINCE else 0,
    )
    size = 8 if known < TCP_SINCE else 16 if known < SCOPES_SINCE else 24
    ruleset = _checked(_libc.syscall(CREATE_RULESET, ctypes.byref(asked), size, 0))
    try:
        for path in readable:
            _allow(ruleset, path, READ & files)
        for path in writable:
            _allow(ruleset, path, files & ~EXECUTE)
        for path in devices:
            _allow(ruleset, path, (READ_FILE | WRITE_FILE) & files)
        _checked(_libc.syscall(RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return known


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not on this machine
    try:
        if not os.path.isdir(path):  # noqa: PTH112  a reader starts sooner without pathlib
            rights &= FILE_ONLY
        rule = _PathBeneath(rights, folder)
        _checked(_libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(folder)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
