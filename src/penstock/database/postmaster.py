"""The postmaster: one data folder and the server process that has it. Made, started, watched and stopped here.

What runs is read from PostgreSQL's own `postmaster.pid`, never remembered: another process may have restarted it. The
caller decides under a lock (see embedded.py), so nothing here guards against a second one doing the same.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.database.binaries import Binaries, clean_environment
from penstock.errors import ServerUnusable
from penstock.settings import PostgresSettings

Progress = Callable[[str], None]

POLL = 0.01
PATIENCE = 2.0  # seconds until a wait is worth a progress line
START_TRIES = 5
SPACE_NEEDED = 200 * 2**20  # a new cluster takes 40 MB, the WAL of its first checkpoints another 80
SOCKET_PATH_MAX = 90  # the kernel allows 107 bytes with the file name; a longer folder is reached by TCP only
LOG_MAX = 10 * 2**20
STOP_PATIENCE = 5.0  # seconds for a shutdown, unless a checkpoint is being written
BUILTIN_LOCALE_SINCE = 17


@dataclass(frozen=True)
class PostmasterStatus:
    """The content of `postmaster.pid`."""

    pid: int
    port: int
    socket_folder: str
    ready: bool


class _Detached(subprocess.Popen[bytes]):
    """A process that may outlive this object on purpose; the ordinary one warns when that happens."""

    def __del__(self) -> None: ...


class Postmaster:
    """The server of `folder`, which holds data/, run/ (socket) and log, and belongs to the account that it runs as."""

    def __init__(self, folder: Path, settings: PostgresSettings, progress: Progress) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "log"
        self._settings = settings
        self._progress = progress
        self._child: subprocess.Popen[bytes] | None = None

    def running(self) -> PostmasterStatus | None:
        """The live postmaster of the data folder, if there is one."""
        if self._child is not None:
            self._child.poll()  # our own child must not linger as a zombie
        found = self._read_pid_file()
        return found if found is not None and self._is_postmaster(found.pid) else None

    async def make(self, binaries: Binaries, password: str) -> None:
        """Run initdb in another folder, then rename: a folder named data is always complete."""
        free = shutil.disk_usage(self.folder).free
        if free < SPACE_NEEDED:
            raise ServerUnusable(
                f"The disk of {self.folder} has {free // 2**20} MB left, and a new database needs {SPACE_NEEDED // 2**20} MB: "
                "free some space, or choose another home with PENSTOCK_HOME."
            )
        half = self.folder / "data.new"
        await self._end_processes_of(half)  # of an initdb whose caller was killed
        shutil.rmtree(half, ignore_errors=True)
        password_file = self.folder / "password.new"
        write_private(password_file, password)
        binaries.account.own(password_file)
        self._progress("Making a new database …")
        try:
            options = _initdb_options(binaries.major, password_file)
            made = await asyncio.to_thread(binaries.run, "initdb", "-D", str(half), *options, cwd=self.folder)
            if made.returncode != 0:
                raise ServerUnusable(self._why_not_made(made.stderr))
            half.rename(self.data)
        finally:
            password_file.unlink(missing_ok=True)
            shutil.rmtree(half, ignore_errors=True)

    async def start(self, binaries: Binaries) -> None:
        """Start the server and wait until it takes connections."""
        self._check_version(binaries)
        for _ in range(START_TRIES):
            await self._clear_remains()
            logged = self.log.stat().st_size if self.log.exists() else 0
            self._launch(binaries)
            if await self.until_ready():
                return
            said = _tail(self.log, logged)
            port_was_taken = "could not bind" in said and not self._settings.port  # since we found it free
            if not port_was_taken and "pre-existing shared memory block" not in said:
                raise ServerUnusable(self._why_not_started(said))
        raise ServerUnusable(f"PostgreSQL did not start in {START_TRIES} tries; its log is {self.log}.")

    async def until_ready(self) -> bool:
        """False if it ends instead. No time limit: crash recovery takes as long as it takes, but its progress is shown."""
        began = told = time.monotonic()
        while True:
            running = self.running()
            if running is not None and running.ready:
                return True
            if running is None and (self._child is None or self._child.poll() is not None):
                return False
            if time.monotonic() - told > PATIENCE:
                told = time.monotonic()
                self._progress(f"PostgreSQL is starting, {told - began:.0f} s: {_last_message(self.log)}")
            await asyncio.sleep(POLL)

    async def stop(self) -> bool:
        """SIGINT is PostgreSQL's fast shutdown: transactions are rolled back, a checkpoint is written. False if none ran.

        A server that is just recovering from the crash of a backend can swallow it and never end; then it is ended at
        once, which costs the next start a recovery and no data.
        """
        running = self.running()
        if running is None:
            return False
        process = psutil.Process(running.pid)
        for wish in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            _signal(process, wish)
            if await self._vanished(STOP_PATIENCE):
                break
        return True

    async def _vanished(self, within: float) -> bool:
        began = told = time.monotonic()
        while self.running() is not None:
            if time.monotonic() - began > within and not self._is_writing():
                return False
            if time.monotonic() - told > PATIENCE:
                told = time.monotonic()
                self._progress("PostgreSQL is writing its last checkpoint …")
            await asyncio.sleep(POLL)
        return True

    def _is_writing(self) -> bool:
        """A large checkpoint takes its time; that is not the same as being stuck."""
        running = self.running()
        if running is None:
            return False
        try:
            children = psutil.Process(running.pid).children()
            return any("checkpointer" in child.cmdline()[0] and child.cpu_percent(0.1) > 0 for child in children)
        except (psutil.Error, IndexError):
            return False

    def _launch(self, binaries: Binaries) -> None:
        """In a session of its own, so that Ctrl-C reaches our processes first."""
        run = self.folder / "run"
        if not run.exists():
            run.mkdir(mode=0o700)
            binaries.account.own(run)
        if self.log.exists() and self.log.stat().st_size > LOG_MAX:
            self.log.rename(self.log.with_name("log.old"))
        options = _server_options(self._settings, self._settings.port or _free_port(), run)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._child = _Detached(
                [binaries.program("postgres"), "-D", str(self.data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=clean_environment(),
                umask=0o077,
                start_new_session=True,
                **binaries.account.switch,
            )
        finally:
            os.close(log)

    async def _clear_remains(self) -> None:
        """After a kill -9 of the postmaster its children hold the shared memory until they notice; help them."""
        began = time.monotonic()
        told = began
        while orphans := self._orphans():
            if time.monotonic() - told > PATIENCE:
                told = time.monotonic()
                self._progress(f"Waiting for {len(orphans)} processes of the crashed server …")
                for process in orphans:  # a frozen one takes only SIGKILL
                    _signal(process, signal.SIGQUIT if told - began < 2 * PATIENCE else signal.SIGKILL)
            await asyncio.sleep(POLL)
        # Left over, and its number may belong to any process by now: PostgreSQL would refuse to start because of it.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    async def _end_processes_of(self, folder: Path) -> None:
        while remains := [process for process in psutil.process_iter() if _works_on(process, folder)]:
            for process in remains:
                _signal(process, signal.SIGKILL)
            await asyncio.sleep(POLL)

    def _orphans(self) -> list[psutil.Process]:
        if not (self.data / "postmaster.pid").exists():
            return []
        return [process for process in psutil.process_iter() if _works_on(process, self.data)]

    def _read_pid_file(self) -> PostmasterStatus | None:
        try:
            lines = (self.data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return None
        lines += [""] * (8 - len(lines))  # the file is written line by line during the start
        if not lines[0]:
            return None
        return PostmasterStatus(int(lines[0]), int(lines[3] or 0), lines[4], lines[7].strip() == "ready")

    def _is_postmaster(self, pid: int) -> bool:
        """A number is given to another process after a reboot, and a zombie still has one."""
        try:
            process = psutil.Process(pid)
            return process.status() != psutil.STATUS_ZOMBIE and str(self.data) in process.cmdline()
        except psutil.NoSuchProcess:
            return False

    def _check_version(self, binaries: Binaries) -> None:
        found = int((self.data / "PG_VERSION").read_text().strip())
        if found != binaries.major:
            raise ServerUnusable(
                f"{self.data} was made by PostgreSQL {found}, and this Penstock brings PostgreSQL {binaries.major}: with the "
                f"earlier Penstock run `penstock db dump FILE`, move {self.folder} away, then run `penstock db restore FILE` "
                "with this one."
            )

    def _why_not_made(self, said: str) -> str:
        if "No space left" in said:
            return f"The disk of {self.folder} is full: free some space, or choose another home with PENSTOCK_HOME."
        reasons = [line for line in said.splitlines() if "error:" in line or "FATAL" in line] or [said.strip()]
        return f"A database could not be made in {self.folder}: {reasons[0]}"

    def _why_not_started(self, said: str) -> str:
        if "No space left" in said:
            return f"The disk of {self.folder} is full, so PostgreSQL cannot start: free some space and try again."
        if "could not bind" in said:
            return f"Port {self._settings.port} (postgres.port) is in use: choose another one, or 0 for any free port."
        reasons = re.findall(r"(?:FATAL|PANIC):\s*(.+)", said) or ["it gave no reason"]
        return f"PostgreSQL did not start: {reasons[0]}. Its log is {self.log}."


def write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def _initdb_options(major: int, password: Path) -> list[str]:
    """C.UTF-8 of PostgreSQL itself where it has it: an order of text that does not change with the operating system."""
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if major >= BUILTIN_LOCALE_SINCE else []
    return ["-U", "penstock", f"--pwfile={password}", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", *locale]


def _server_options(settings: PostgresSettings, port: int, socket_folder: Path) -> list[str]:
    """Options that must be so, or are better so here; everything else can be changed in the data folder's postgresql.conf."""
    values: dict[str, object] = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": socket_folder if len(str(socket_folder)) <= SOCKET_PATH_MAX else "",
        "unix_socket_permissions": "0700",
        "max_connections": settings.max_connections,
        "shared_buffers": settings.shared_buffers,
        "effective_cache_size": f"{psutil.virtual_memory().total // 2 // 2**20}MB",
        "work_mem": "16MB",
        "maintenance_work_mem": "128MB",
        "max_wal_size": "2GB",
        "wal_compression": "on",
        "random_page_cost": 1.1,
        "jit": "off",  # our statements are short: compiling them costs more than running them
        "autovacuum_naptime": "5s",  # a queue's rows live for seconds, and a claim walks over the dead ones
        "log_startup_progress_interval": "2s",
        "log_line_prefix": "%m [%p] %a ",
        "log_checkpoints": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if not settings.durable:
        values |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    return [part for name, value in values.items() for part in ("-c", f"{name}={value}")]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _works_on(process: psutil.Process, folder: Path) -> bool:
    """initdb and the postmaster name the folder in their arguments; their children have it as their working folder."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return str(folder) in process.cmdline() or process.cwd() == str(folder)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return  # gone, which is what the signal was for


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def _last_message(log: Path) -> str:
    lines = _tail(log, max(0, log.stat().st_size - 2000)).strip().splitlines() if log.exists() else []
    return lines[-1].split("LOG:")[-1].strip() if lines else "no message yet"
