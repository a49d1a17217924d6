"""Clouds on this machine: moto's server for S3, Azurite for Azure Blob.

Neither is a dependency of the project: moto needs another python-dateutil than the benchmarks do, and Azurite is a program
for node. `./dev test --real` installs both and names them by PENSTOCK_TEST_MOTO and PENSTOCK_TEST_AZURITE (the paths of
`moto_server` and `azurite-blob`); otherwise they are taken from PATH. Tests that miss one are skipped, and say so.
"""

import base64
import hashlib
import hmac
import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import pytest

from penstock.blobs import BlobStore, open_store
from penstock.settings import Settings
from penstock.settings.storage import BlobSettings
from tests.real.conftest import missing

ACCOUNT = "penstocktests"
SECRET = "canary-of-the-bucket"


@dataclass(frozen=True)
class Cloud:
    """A bucket on a server of ours."""

    url: str
    endpoint: str
    options: str

    def open(self, home: Path, prefix: str) -> BlobStore:
        return open_store(self.settings(home, prefix))

    def settings(self, home: Path, prefix: str) -> Settings:
        blobs = BlobSettings.model_validate(
            {
                "url": f"{self.url}/{prefix}",
                "endpoint": self.endpoint,
                "options": self.options,
            }
        )
        return Settings(home=home, blobs=blobs)

    def unfinished(self) -> int:
        """The uploads to S3 that were begun, and neither ended nor taken back."""
        with urllib.request.urlopen(f"{self.endpoint}/penstock?uploads") as answer:
            return str(answer.read()).count("<UploadId>")


@contextmanager
def s3() -> Iterator[Cloud]:
    port = _free_port()
    with _running([_program("PENSTOCK_TEST_MOTO", "moto_server"), "-H", "127.0.0.1", "-p", str(port)], port):
        endpoint = f"http://127.0.0.1:{port}"
        _ask("PUT", f"{endpoint}/penstock", {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/x"})
        yield Cloud("s3://penstock", endpoint, f"access_key_id=a secret_access_key={SECRET} region=us-east-1")


@contextmanager
def azure(folder: Path) -> Iterator[Cloud]:
    port = _free_port()
    key = base64.b64encode(secrets.token_bytes(64)).decode()
    command = [_program("PENSTOCK_TEST_AZURITE", "azurite-blob"), "--blobPort", str(port), "--location", str(folder)]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with _running(command, port, {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"}):
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(endpoint, key)
        yield Cloud("az://penstock", endpoint, f"account_name={ACCOUNT} account_key={key}")


def _program(variable: str, name: str) -> str:
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        how = f"use ./dev test --real, or put its path into {variable}"
        if name == "azurite-blob" and not shutil.which("npm"):  # nobody has to have node
            pytest.skip(f"{name} and npm are missing: install npm, then {how}")
        missing(name, how)
    assert found
    return found


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def _running(command: list[str], port: int, environ: dict[str, str] | None = None) -> Iterator[None]:
    process = subprocess.Popen(
        command, env=os.environ | (environ or {}), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while not _answers(port):
            assert process.poll() is None, f"{command[0]} ended at once"
            assert time.monotonic() < deadline, f"{command[0]} does not answer"
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def _make_container(endpoint: str, key: str) -> None:
    date = formatdate(usegmt=True)
    named = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{ACCOUNT}/{ACCOUNT}/penstock\nrestype:container"
    text = "PUT" + "\n" * 12 + named
    signature = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
    _ask("PUT", f"{endpoint}/penstock?restype=container", headers)


def _ask(method: str, url: str, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request):
            pass
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{url}: {error.code} {error.read().decode()[:500]}") from None
