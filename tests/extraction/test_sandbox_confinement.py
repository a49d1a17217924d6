"""The walls around a sandbox: what a reader that was taken over can reach. And what is told where walls are missing."""

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from penstock.extraction import SandboxPool
from penstock.extraction.sandbox import confinement, seccomp
from tests.extraction.sandboxes import document, make_sandboxes

NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


@pytest.fixture
async def sandboxes() -> AsyncIterator[SandboxPool]:
    async with make_sandboxes() as opened:
        yield opened


@pytest.fixture
def file() -> Iterator[BinaryIO]:
    with document() as opened:
        yield opened


@pytest.mark.skipif(not seccomp.available(), reason="no system call filter for this architecture")
async def test_no_network_and_no_sockets_of_others(sandboxes: SandboxPool, file: BinaryIO) -> None:
    answers = await sandboxes.call("network", file, {})
    assert answers.pop("stream pair") == "allowed", "runtimes of libraries wake themselves up by one"
    assert set(answers.values()) == {"PermissionError"}
    assert set(answers) == {"inet", "inet6", "netlink", "unix", "datagram pair", "bind", "listen", "interfaces"}


@pytest.mark.skipif(confinement.version() == 0, reason="this kernel has no Landlock")
async def test_no_file_but_its_own(sandboxes: SandboxPool, file: BinaryIO, tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("secret")
    tmp_path.chmod(0o777)
    outside.chmod(0o666)
    answers = await sandboxes.call("attempt", file, {"outside": str(outside)})
    allowed = {name for name, answer in answers.items() if answer == "allowed"}
    assert allowed == {"kill itself", "scratch", "module"}
    assert answers.pop("write the document") == "OSError", "it is open for reading only"
    assert {answers[name] for name in answers.keys() - allowed} == {"PermissionError"}
    assert outside.read_text() == "secret"


async def test_which_walls_stand_is_told(sandboxes: SandboxPool) -> None:
    assert sandboxes.confinement is None
    told = await sandboxes.inspect()
    assert sandboxes.confinement == told
    assert told["landlock"] == (confinement.version() > 0)
    assert told["network"] in {"namespace", "seccomp", "none"}
    assert (told["network"] == "none") <= bool(told["missing"])
    assert told["seccomp"] == seccomp.available()


@pytest.mark.skipif(not NUMBERS.exists(), reason="no kernel headers for x86_64")
def test_the_numbers_of_system_calls_are_right() -> None:
    known = dict(re.findall(r"#define __NR_(\w+) (\d+)", NUMBERS.read_text()))
    ours = seccomp.FORBIDDEN | seccomp.UNKNOWN | seccomp.OTHERS
    assert {name: x86 for name, (x86, _) in ours.items() if name in known} == {
        name: int(known[name]) for name in ours if name in known
    }
    assert len(known.keys() & ours.keys()) > 60


EPERM, ENOSYS = seccomp.FAIL | 1, seccomp.FAIL | 38


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("socket", (2, 1), EPERM),
        ("socket", (1, 1), EPERM),
        ("socketpair", (1, 1), seccomp.ALLOW),
        ("socketpair", (1, 0o2000001), seccomp.ALLOW),  # SOCK_CLOEXEC
        ("socketpair", (1, 2), EPERM),
        ("socketpair", (2, 1), EPERM),
        ("connect", (3, 0), EPERM),
        ("bind", (3, 0), EPERM),
        ("listen", (3, 0), EPERM),
        ("clone", (0x3D0F00, 0), seccomp.ALLOW),  # a thread
        ("clone", (17, 0), EPERM),  # a process
        ("clone", (0x4111, 0), EPERM),  # as vfork does it
        ("clone", (0x10000000 | 17, 0), EPERM),  # in a user namespace
        ("clone", (0x40000000 | 0x3D0F00, 0), EPERM),  # a thread in another network
        ("clone3", (0, 0), ENOSYS),
        ("io_uring_setup", (0, 0), ENOSYS),
        ("execve", (0, 0), EPERM),
        ("execveat", (0, 0), EPERM),
        ("kill", (4711, 9), seccomp.ALLOW),
        ("kill", (4712, 9), EPERM),
        ("tgkill", (4711, 1), seccomp.ALLOW),
        ("tgkill", (4712, 1), EPERM),
        ("tkill", (4711, 1), EPERM),
        ("prlimit64", (0, 1), seccomp.ALLOW),
        ("prlimit64", (1, 1), EPERM),
        ("ptrace", (0, 0), EPERM),
    ],
)
def test_the_filter(machine: str, call: str, arguments: tuple[int, int], expected: int) -> None:
    column, architecture = seccomp.ARCHITECTURES[machine]
    calls = seccomp.FORBIDDEN | seccomp.UNKNOWN | seccomp.OTHERS
    code = seccomp.program(machine, 4711)
    assert verdict(code, architecture, calls[call][column], arguments) == expected


@pytest.mark.parametrize("call", ["fork", "vfork"])
def test_the_filter_knows_the_old_ways_to_a_process(call: str) -> None:
    """Which only x86_64 has."""
    number, none = seccomp.FORBIDDEN[call]
    _, architecture = seccomp.ARCHITECTURES["x86_64"]
    assert verdict(seccomp.program("x86_64", 4711), architecture, number, (0, 0)) == EPERM
    assert none == 0


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_kills_foreign_calls_and_allows_the_rest(machine: str) -> None:
    _, architecture = seccomp.ARCHITECTURES[machine]
    code = seccomp.program(machine, 4711)
    assert verdict(code, 0x40000003, 1, (0, 0)) == seccomp.KILL  # 32 bits
    assert verdict(code, architecture, 63, (0, 0)) == seccomp.ALLOW  # uname, read
    if machine == "x86_64":
        assert verdict(code, architecture, seccomp.X32 + 41, (0, 0)) == seccomp.KILL


def verdict(code: list[seccomp.Instruction], architecture: int, number: int, arguments: tuple[int, int]) -> int:
    """What the kernel would do: a BPF machine for the few instructions that we use."""
    words = {0: number, 4: architecture, 16: arguments[0], 24: arguments[1]}
    accumulator, at = 0, 0
    while True:
        one = code[at]
        at += 1
        match one.code:
            case seccomp.LOAD:
                accumulator = words[one.value]
            case seccomp.AND:
                accumulator &= one.value
            case seccomp.EQUAL:
                at += one.if_true if accumulator == one.value else one.if_false
            case seccomp.AT_LEAST:
                at += one.if_true if accumulator >= one.value else one.if_false
            case seccomp.RETURN:
                return one.value
            case _:
                raise AssertionError(one)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose")
async def test_root_keeps_no_capability(sandboxes: SandboxPool, file: BinaryIO) -> None:
    assert await sandboxes.call("capabilities", file, {}) == [0, 0, 0]
