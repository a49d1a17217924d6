"""The disk of the blob store is full: 507 with a sentence, nothing half-kept, and everything works again afterwards."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sample_documents import story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a disk of 4 MB can only be made by root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a disk of 4 MB cannot be made here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def test_an_upload_to_a_full_disk_is_refused(product_processes: ProductProcesses, small_disk: Path) -> None:
    await product_processes.start_api(PENSTOCK_BLOBS__FOLDER=str(small_disk))
    status, answer = await product_processes.put("large.txt", story(1_000_000))
    assert (status, answer["status"]) == (507, 507)
    assert "room" in answer["detail"]
    assert await product_processes.states() == {}
    assert [path for path in small_disk.rglob("*") if path.is_file()] == [], "what was written before is gone"

    status, _ = await product_processes.put("small.txt", story(1_000))
    assert status == 202
    await product_processes.start_worker(PENSTOCK_BLOBS__FOLDER=str(small_disk))
    await product_processes.until_over()
    assert await product_processes.states() == {"small.txt": "ready"}
