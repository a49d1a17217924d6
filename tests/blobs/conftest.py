"""Stores of their own for each test: a folder, or a prefix of a bucket."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from penstock.blobs import BlobStore
from penstock.blobs.local import LocalStore
from tests.blobs import servers

CLOUDS = {"s3", "azure"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a cloud on this machine is for `./dev test --real`, which brings the programs."""
    for item in items:
        if isinstance(item, pytest.Function) and "tests/blobs/" in str(item.path):
            chosen = item.callspec.params.get("any_store") if hasattr(item, "callspec") else None
            if chosen in CLOUDS or CLOUDS & {*item.fixturenames}:
                item.add_marker(pytest.mark.real)


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "blobs")


@pytest.fixture(scope="session")
def s3() -> Iterator[servers.Cloud]:
    with servers.s3() as cloud:
        yield cloud


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Cloud]:
    with servers.azure(tmp_path_factory.mktemp("azurite")) as cloud:
        yield cloud


@pytest.fixture(params=["folder", "s3", "azure"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "folder":
        return LocalStore(tmp_path / "blobs")
    cloud: servers.Cloud = request.getfixturevalue(request.param)
    return cloud.open(tmp_path, secrets.token_hex(8))


async def keys_of(store: BlobStore) -> list[str]:
    return sorted([key async for key, _ in store.keys("")])
