"""A system call filter (seccomp) against calls that lead out of the sandbox and that no reader of documents needs.

A reader has threads, but starts no process or program and opens no socket. The filter is BPF written by hand, for x86_64 and
aarch64, so that no library is needed. It lists refusals, not permissions: the readers are large and their libraries change.
Refused calls fail with EPERM, or with ENOSYS where a library then falls back to another call; calls of a foreign
architecture kill the process.
"""

import ctypes
import errno
import os
from typing import NamedTuple

# Numbers of x86_64 and of aarch64 (0: it has none).
FORBIDDEN = {
    "fork": (57, 0),
    "vfork": (58, 0),
    "execve": (59, 221),
    "execveat": (322, 281),
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "tkill": (200, 130),  # may name a thread of another process
    "setsid": (112, 157),  # with setpgid: it stays in the group that is killed
    "setpgid": (109, 154),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmget": (29, 194),  # memory that no limit counts
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "syslog": (103, 116),
    "personality": (135, 92),
    "modify_ldt": (154, 0),
    "iopl": (172, 0),
    "ioperm": (173, 0),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
UNKNOWN = {
    "io_uring_setup": (425, 425),  # would do all of the above unseen by the filter
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),  # its flags cannot be seen from here: the C library then takes clone
    "memfd_create": (319, 279),  # memory that no limit counts
    "memfd_secret": (447, 447),
}
OTHERS = {
    "socketpair": (53, 199),
    "clone": (56, 220),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
}
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

THREAD = 0x10000
NEW_NAMESPACES = 0x7E020000
UNIX, STREAM, TYPE = 1, 1, 0xF
X32 = 0x40000000

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, ARCHITECTURE = 0, 4
SET_SECCOMP, FILTER = 22, 2


class Instruction(NamedTuple):
    code: int
    if_true: int
    if_false: int
    value: int


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def available() -> bool:
    return os.uname().machine in ARCHITECTURES


def program(machine: str, own: int) -> list[Instruction]:
    """The filter for a process with this pid."""
    column, architecture = ARCHITECTURES[machine]
    refused = {name: (numbers, errno.EPERM) for name, numbers in FORBIDDEN.items()}
    refused |= {name: (numbers, errno.ENOSYS) for name, numbers in UNKNOWN.items()}
    code = [
        Instruction(LOAD, 0, 0, ARCHITECTURE),
        Instruction(EQUAL, 1, 0, architecture),
        Instruction(RETURN, 0, 0, KILL),
        Instruction(LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        code += [Instruction(AT_LEAST, 0, 1, X32), Instruction(RETURN, 0, 0, KILL)]
    for numbers, error in refused.values():
        if numbers[column]:
            code += [Instruction(EQUAL, 0, 1, numbers[column]), Instruction(RETURN, 0, 0, FAIL | error)]
    for name, conditions in _conditional(own).items():
        code += _only_if(OTHERS[name][column], conditions)
    return [*code, Instruction(RETURN, 0, 0, ALLOW)]


class Condition(NamedTuple):
    """An argument, seen through a mask, is one of the values."""

    argument: int
    mask: int
    values: tuple[int, ...]


def _conditional(own: int) -> dict[str, list[Condition]]:
    unix_stream = [Condition(0, 0xFFFFFFFF, (UNIX,)), Condition(1, TYPE, (STREAM,))]  # a datagram needs no connect
    itself = [Condition(0, 0xFFFFFFFF, (0, own))]
    threads = [Condition(0, THREAD | NEW_NAMESPACES, (THREAD,))]
    return {"socketpair": unix_stream, "clone": threads, "kill": itself, "tgkill": itself, "prlimit64": itself}


def _only_if(number: int, conditions: list[Condition]) -> list[Instruction]:
    """Refuse the call unless all conditions hold."""
    block: list[Instruction] = []
    for argument, mask, values in conditions:
        block += [Instruction(LOAD, 0, 0, 16 + 8 * argument), Instruction(AND, 0, 0, mask)]
        for left, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
            block.append(Instruction(EQUAL, left + 1, 0, value))  # over the other values and the refusal
        block.append(Instruction(RETURN, 0, 0, FAIL | errno.EPERM))
    block.append(Instruction(RETURN, 0, 0, ALLOW))
    return [Instruction(EQUAL, 0, len(block), number), *block]


def restrict() -> None:
    """Filter the system calls of this process from now on; OSError where the kernel cannot. Needs no_new_privs."""
    code = program(os.uname().machine, os.getpid())
    packed = b"".join(
        one.code.to_bytes(2, "little") + bytes((one.if_true, one.if_false)) + one.value.to_bytes(4, "little")
        for one in code
    )
    buffer = ctypes.create_string_buffer(packed, len(packed))
    filters = _Program(len(code), ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_SECCOMP, FILTER, ctypes.byref(filters), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
