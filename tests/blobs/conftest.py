"""A store in a folder of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.blobs.local import LocalStore


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "blobs")


async def keys_of(store: LocalStore) -> list[str]:
    return sorted([key async for key, _ in store.keys("")])
