"""The embedded PostgreSQL server: made on first use, shared by all processes of a home, stopped by the last.

    home/postgres.password      of the one role, `penstock`
    home/postgres.users         each process that uses the server holds a shared flock on it
    home/postgres.decisions     making, starting and stopping happens under an exclusive flock on it
    home/postgres.kept          exists after `penstock db start`: the last user does not stop the server
    home/postgres/              belongs to the account that the server runs as: data/, run/, log, binaries/

Locks are flocks because the kernel drops them with their process: after a kill -9 nothing is left that could block.
"""

import asyncio
import errno
import fcntl
import os
import re
import secrets
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncpg

from penstock.database.binaries import Account, choose_account, find_binaries
from penstock.database.postmaster import PATIENCE, POLL, Postmaster, Progress, write_private
from penstock.database.session import Session, connect
from penstock.errors import ServerUnusable
from penstock.settings import DatabaseUrl, PoolSettings, PostgresSettings

How = Literal["made", "started", "attached"]


@dataclass(frozen=True)
class ServerJoin:
    """The result of joining the server: made, started or attached, and how long it took."""

    url: DatabaseUrl
    how: How
    seconds: float


class EmbeddedServer:
    """One process's hold on the server of a home."""

    def __init__(self, home: Path, settings: PostgresSettings, progress: Progress = lambda _: None) -> None:
        self.home = home
        self.folder = home / "postgres"
        self.postmaster = Postmaster(self.folder, settings, progress)
        self._settings = settings
        self._progress = progress
        self._password = home / "postgres.password"
        self._users = home / "postgres.users"
        self._decisions = home / "postgres.decisions"
        self._kept = home / "postgres.kept"
        self._hold: int | None = None

    async def join(self) -> ServerJoin:
        """Become a user of the server; make and start it if need be."""
        began = time.monotonic()
        with home_trouble(self.home):
            account = self._prepare_home()
            async with self._deciding():
                if self._hold is None:
                    self._hold = os.open(self._users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                    fcntl.flock(self._hold, fcntl.LOCK_SH)
                try:
                    how = await self._ensure_running(account)
                except BaseException:
                    self._let_go()
                    raise
                return ServerJoin(self.url, how, time.monotonic() - began)

    async def revive(self) -> DatabaseUrl:
        """Start the server again if it has stopped; a user calls this when it cannot connect."""
        with home_trouble(self.home):
            async with self._deciding():
                await self._ensure_running(choose_account(self.folder))
                return self.url

    async def leave(self) -> None:
        """Give up our hold; the last one out stops the server."""
        if self._hold is None:
            return
        async with self._deciding():
            self._let_go()
            if not self._kept.exists() and not self._in_use():
                await self.postmaster.stop()

    def keep(self) -> None:
        """Let the server run on after its last user, until `stop`."""
        self._kept.touch(mode=0o600)
        self._let_go()

    async def stop(self, *, force: bool = False) -> bool:
        """Stop the server for good; False when none ran. Refused while it is in use, unless forced."""
        if not self._decisions.exists():
            return False
        with home_trouble(self.home):
            async with self._deciding():
                if self._in_use() and not force:
                    holders = ", ".join(str(pid) for pid in flock_holders(self._users)) or "another process"
                    raise ServerUnusable(f"The server is in use by {holders}: stop that first, or add --force.")
                self._kept.unlink(missing_ok=True)
                return await self.postmaster.stop()

    @property
    def url(self) -> DatabaseUrl:
        """The address of the running server: its socket, or TCP where the socket's path would be too long."""
        running = self.postmaster.running()
        if running is None:
            raise ServerUnusable(f"The server in {self.folder} does not run: start it with `penstock db start`.")
        where = f"@/penstock?host={running.socket_folder}&port={running.port}"
        if not running.socket_folder:
            where = f"@127.0.0.1:{running.port}/penstock"
        return DatabaseUrl(f"postgresql://penstock:{self._password.read_text()}{where}")

    async def _ensure_running(self, account: Account) -> How:
        """Under the decisions lock."""
        postmaster = self.postmaster
        if postmaster.running() is not None and await postmaster.until_ready():
            await self._ensure_database()
            return "attached"
        binaries = find_binaries(self._settings.binaries, account, self.folder / "binaries")
        made = not postmaster.data.exists()
        if made:
            await postmaster.make(binaries, self._choose_password())
        await postmaster.start(binaries)
        await self._ensure_database()
        return "made" if made else "started"

    def _choose_password(self) -> str:
        """Written before the server is made, which would be of no use without it. One that is there is kept: a person may
        have moved the server's folder away, and want it back.
        """
        if not self._password.exists():
            write_private(self._password, secrets.token_urlsafe(24))
        return self._password.read_text()

    async def _ensure_database(self) -> None:
        """Make the database `penstock`: initdb makes only `postgres`. Each process checks, in case an earlier one crashed."""
        admin = await self._connect_when_it_can()
        try:
            if not await admin.fetchval("select 1 from pg_database where datname = 'penstock'"):
                # A process that was killed meanwhile may have requested it, and the server made it after our check.
                with suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
                    await admin.execute("create database penstock")
        finally:
            admin.terminate()

    async def _connect_when_it_can(self) -> Session:
        """After the crash of a backend the postmaster lives on and recovers, while its pid file still says "ready"."""
        told = time.monotonic()
        while True:
            try:
                return await connect(self.url.with_database("postgres"), PoolSettings(), "join")
            except (asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError, ConnectionError, FileNotFoundError):
                if time.monotonic() - told > PATIENCE:
                    told = time.monotonic()
                    self._progress("PostgreSQL is recovering …")
            await asyncio.sleep(POLL)

    def _prepare_home(self) -> Account:
        if not self.home.exists():
            self.home.mkdir(parents=True, mode=0o711)
        account = choose_account(self.folder)
        if not self.folder.exists():
            self.folder.mkdir(mode=0o700)
            account.own(self.folder)
        if account.switch:
            self._let_account_through(account)
        elif self.folder.stat().st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, "belongs to another user", str(self.folder))
        return account

    def _let_account_through(self, account: Account) -> None:
        """Only our own home is opened (for passing, not for reading); a closed folder above it is the person's choice."""
        found = self.home.stat()
        if found.st_uid == os.geteuid() and not found.st_mode & 0o001:
            self.home.chmod(found.st_mode | 0o011)
        enter = ["/bin/sh", "-c", 'cd "$1"', "sh", str(self.folder)]
        if subprocess.run(enter, cwd="/", stderr=subprocess.DEVNULL, check=False, **account.switch).returncode != 0:
            raise ServerUnusable(
                f"PostgreSQL does not run as root, and the account {account.name} cannot reach {self.folder}: choose a home "
                "that it can reach with PENSTOCK_HOME (the default for root is /var/lib/penstock)."
            )

    @asynccontextmanager
    async def _deciding(self) -> AsyncIterator[None]:
        """Try, do not wait: while another process recovers a large database, this one can be cancelled and report its wait."""
        told = time.monotonic()
        decisions = os.open(self._decisions, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _try_flock(decisions):
                if time.monotonic() - told > PATIENCE:
                    told = time.monotonic()
                    self._progress("Another process is starting or stopping the server …")
                await asyncio.sleep(POLL)
            yield
        finally:
            os.close(decisions)

    def _in_use(self) -> bool:
        users = os.open(self._users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return not _try_flock(users)
        finally:
            os.close(users)

    def _let_go(self) -> None:
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None


@contextmanager
def home_trouble(home: Path) -> Iterator[None]:
    """Turn a refusal of the operating system in a home into a sentence."""
    try:
        yield
    except PermissionError as error:
        raise ServerUnusable(
            f"{error.filename or home} belongs to another user: choose another home with PENSTOCK_HOME, or run as its owner."
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fault = f"The disk of {home} is full: free some space"
        else:
            fault = f"{error.filename or home} cannot be used ({error.strerror or error}): correct it"
        raise ServerUnusable(f"{fault}, or choose another home with PENSTOCK_HOME.") from error


def flock_holders(path: Path) -> list[int]:
    """The processes that hold a lock on the file, where the kernel lists them (Linux)."""
    locks = Path("/proc/locks")
    if not locks.exists() or not path.exists():
        return []
    inode = path.stat().st_ino
    return sorted({int(pid) for pid in re.findall(rf"FLOCK\s+\S+\s+\S+\s+(\d+)\s+\S+:{inode}\s", locks.read_text())})


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
