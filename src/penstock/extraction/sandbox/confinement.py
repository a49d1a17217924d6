"""The confinement of a sandbox process, set up before it reads a byte: limits, no network, only the needed files.

Each measure is tried separately, because machines and containers differ; `confine` returns which of them hold, and the parent
logs what is missing. The order matters: a user namespace gives the right to make the others and needs a single thread; then
privileges are dropped; Landlock and the system call filter come last, because neither can be undone.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from penstock.extraction.sandbox import seccomp

# -- Landlock: this process and its children may open only the named paths ----------------------------------------------

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on all architectures
ASK_VERSION = 1
PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR  # libraries are mapped for execution
FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE  # what a rule for a plain file may name

# Rights that each version of the interface can refuse.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_SINCE, SCOPES_SINCE = 4, 6
BIND_AND_CONNECT = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # as packed structures are laid out; Python 3.14 requires it
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The version of the kernel's interface; 0 where it has none."""
    return max(0, int(_libc.syscall(CREATE_RULESET, None, 0, ASK_VERSION)))


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str] = ()) -> int:
    """Allow only these paths from now on; return the version of the interface, 0 when the kernel has none."""
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


# -- the whole confinement ----------------------------------------------------------------------------------------------

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
NEWUSER, NEWNET, NEWIPC = 0x10000000, 0x40000000, 0x08000000
CAPABILITY_VERSION, DAC_OVERRIDE, DAC_READ_SEARCH = 0x20080522, 1 << 1, 1 << 2

OPEN_FILES = 256
THREADS = 256
READABLE = (
    *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib"),
    *("/usr/share/fonts", "/usr/local/share/fonts", "/usr/share/fontconfig", "/etc/fonts", "/var/cache/fontconfig"),
    *("/usr/share/tesseract-ocr", "/usr/share/tessdata", "/usr/share/zoneinfo", "/usr/share/mime"),
    *("/usr/share/libreoffice", "/etc/libreoffice", "/var/lib/libreoffice", "/var/spool/libreoffice", "/opt"),
    *("/usr/share/hunspell", "/usr/share/mythes", "/usr/share/hyphen", "/usr/share/liblangtag"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/ssl/openssl.cnf"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

T = TypeVar("T")


class Confinement(NamedTuple):
    """The parameters that the parent sets."""

    parent: int  # its pid
    scratch: str  # the only folder that can be written
    memory: int | None  # writable, a second bound after the parent's monitor; None for libraries that map too much
    file_size: int


def confine(walls: Confinement) -> dict[str, Any]:
    """Confine this process as far as the machine allows, and return which measures hold."""
    die_with(walls.parent)
    missing: list[str] = []
    offer_to_the_oom_killer()
    os.chdir(walls.scratch)
    os.umask(0o077)
    reachable = os.geteuid() != 0 or reachable_without_privileges()
    namespaces = leave_namespaces(with_user=reachable)
    limit(walls, alone="user" in namespaces)
    drop_capabilities(kept=0 if reachable else DAC_READ_SEARCH)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    die_with(walls.parent)  # again: some changes of privileges make the kernel forget it
    version = _tried(missing, "landlock", lambda: restrict_files(walls)) or 0
    filtered = _tried(missing, "seccomp", restrict_calls) or False
    network = "namespace" if "network" in namespaces else "seccomp" if filtered else "none"
    if not version and not missing:
        missing.append("landlock: this kernel has none")
    if network == "none":
        missing.append("network: neither a namespace nor a filter of system calls is allowed here")
    return {
        "landlock": version > 0,
        "landlock_version": version,
        "network": network,
        "seccomp": filtered,
        "namespaces": sorted(namespaces),
        "missing": missing,
    }


def die_with(parent: int) -> None:
    """Be killed when the parent ends, also when it has already ended."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def offer_to_the_oom_killer() -> None:
    """Make the kernel kill a reader, not the database, when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123  a reader starts sooner without pathlib
            score.write("700")
    except OSError:
        return


def leave_namespaces(*, with_user: bool) -> set[str]:
    """Enter a network namespace without any interface; root needs no user namespace for it."""
    uid, gid = os.geteuid(), os.getegid()
    if with_user and _libc.unshare(NEWUSER | NEWNET | NEWIPC) == 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            try:
                with open(f"/proc/self/{name}", "w") as mapping:  # noqa: PTH123
                    mapping.write(text)
            except OSError:
                break  # then the process runs as the account nobody; files are opened as before
        return {"user", "network", "ipc"}
    if _libc.unshare(NEWNET | NEWIPC) == 0:
        return {"network", "ipc"}
    return set()


def limit(walls: Confinement, *, alone: bool) -> None:
    """Set the limits of the kernel. Processor time is set for each task (`limit_cpu`)."""
    wanted = {
        resource.RLIMIT_CORE: 1,  # with 0 a program that collects dumps would still get one
        resource.RLIMIT_FSIZE: walls.file_size,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if walls.memory is not None:
        wanted[resource.RLIMIT_DATA] = walls.memory
    if alone:  # elsewhere all processes of the user count
        wanted[resource.RLIMIT_NPROC] = THREADS
    for which, most in wanted.items():
        hard = resource.getrlimit(which)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (least, least))


def limit_cpu(seconds: float) -> None:
    """Let the kernel end this process after so much more processor time, in case the parent does not."""
    used = sum(os.times()[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used + seconds) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def restrict_files(walls: Confinement) -> int:
    own = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]
    return restrict([*filter(None, own), *READABLE], [walls.scratch], DEVICES)


def restrict_calls() -> bool:
    if not seccomp.available():
        raise OSError("this architecture is not known")
    seccomp.restrict()
    return True


def _tried(missing: list[str], name: str, wall: Callable[[], T]) -> T | None:
    try:
        return wall()
    except OSError as error:
        missing.append(f"{name}: {error.strerror or error}")
        return None


# -- capabilities -------------------------------------------------------------------------------------------------------


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def reachable_without_privileges() -> bool:
    """Whether root could read the interpreter and its packages without privileges; not in the closed home of another user."""
    header, sets = _Header(CAPABILITY_VERSION, 0), (_Sets * 2)()
    if _libc.capget(ctypes.byref(header), sets):
        return True
    before = sets[0].effective
    sets[0].effective = before & ~(DAC_OVERRIDE | DAC_READ_SEARCH)
    if _libc.capset(ctypes.byref(header), sets):
        return True
    try:
        return all(os.access(path, os.R_OK | os.X_OK, effective_ids=True) for path in _existing(sys.path))
    finally:
        sets[0].effective = before
        _libc.capset(ctypes.byref(header), sets)


def _existing(paths: list[str]) -> list[str]:
    """The paths that exist. Those of imported modules count, too: without privileges they may be out of reach."""
    known = {os.path.dirname(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}  # noqa: PTH120
    return [path for path in (*known, *paths) if path and (path in known or os.path.isdir(path))]  # noqa: PTH112


def drop_capabilities(*, kept: int) -> None:
    for number in range(64):
        if not kept >> number & 1:
            _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails without the right, which is then not needed
    header, sets = _Header(CAPABILITY_VERSION, 0), (_Sets * 2)()
    _libc.capget(ctypes.byref(header), sets)
    for index, mask in enumerate((kept, 0)):
        sets[index].effective &= mask
        sets[index].permitted &= mask
        sets[index].inheritable = 0
    _libc.capset(ctypes.byref(header), sets)


def prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
