"""A MariaDB of the tests' own, from Debian's programs, in a temporary folder and on a free port."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real.conftest import need_program

PASSWORD = "canary-of-mariadb"


class MariaDb:
    """It can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = need_program("mariadbd", "mariadb-server")
        self._install = need_program("mariadb-install-db", "mariadb-server")
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"mysql://penstock:{PASSWORD}@127.0.0.1:{self.port}/erp"

    def make(self) -> None:
        (self._folder / "opening.sql").write_text(
            "create database if not exists erp character set utf8mb4;\n"
            f"create user if not exists penstock@'127.0.0.1' identified by '{PASSWORD}';\n"
            "grant all on erp.* to penstock@'127.0.0.1';\n"
        )
        command = [self._install, *self._options(), "--skip-test-db", "--auth-root-authentication-method=normal"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _options(self) -> list[str]:
        user = [f"--user={account()}"] if os.geteuid() == 0 else []
        return ["--no-defaults", *user, f"--datadir={self._folder / 'data'}"]

    def start(self) -> None:
        listening = [f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
        files = [f"--socket={self._folder / 's'}", f"--init-file={self._folder / 'opening.sql'}"]
        cheap = ["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", f"--pid-file={self._folder / 'pid'}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._server, *self._options(), *listening, *files, *cheap], stdout=subprocess.DEVNULL, stderr=log
            )
        until = time.monotonic() + 30
        while time.monotonic() < until:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError((self._folder / "log").read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)
            self._process = None


def account() -> str:
    """As root the server wants another one."""
    names = {each.pw_name for each in pwd.getpwall()}
    return "mysql" if "mysql" in names else "nobody"


@contextmanager
def mariadb() -> Iterator[MariaDb]:
    """Running, with an empty database; gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-mariadb-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, account())
        server = MariaDb(folder)
        server.make()
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
