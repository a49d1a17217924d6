"""Workers of this release and of the one before, together on one schema: nothing is lost, nothing is done twice."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from penstock.documents import Upload, create_collection, list_documents
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.processes import start

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def before() -> str:
    """The newest release, or the commit that stands for it while there is none."""
    tags = _git("tag", "--list", "v*", "--sort=-v:refname", "--merged", "HEAD").split()
    return tags[0] if tags else (ROOT / "deploy/previous-release").read_text().split()[0]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def old_release(tmp_path: Path) -> Iterator[Path]:
    """Its source, in a worktree of its own."""
    try:
        commit = before()
        _git("cat-file", "-e", f"{commit}^{{commit}}")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("The release before is not in this checkout: fetch its history, and run the test again.")
    folder = tmp_path / "before"
    _git("worktree", "add", "--detach", str(folder), commit)
    try:
        yield folder / "src"
    finally:
        _git("worktree", "remove", "--force", str(folder))


async def test_two_releases_work_together(old_release: Path, database_url: DatabaseUrl, home: Path) -> None:
    environ = {"PENSTOCK_DATABASE_URL": database_url.reveal(), "PENSTOCK_HOME": str(home), "PENSTOCK_POOL__SIZE": "3"}
    old = environ | {"PYTHONPATH": str(old_release)}
    product = Product(database_url=database_url, home=home, pool={"size": 3})
    async with (
        product,
        start("-c", "import penstock.cli; penstock.cli.main()", "worker", environ=old) as older,
        start("-m", "penstock", "worker", environ=environ) as newer,
    ):
        await older.until("worker started", 60)
        await newer.until("worker started", 60)
        await create_collection(product.app, "papers")
        for number in range(60):
            content = f"The gate number {number} was repaired.".encode()
            await product.intake.accept(Upload("papers", f"{number}.txt", _pieces(content)))
        async with asyncio.timeout(90):
            while True:
                found = await list_documents(product.app, collection="papers", most=100)
                if all(each.is_over for each in found):
                    break
                await asyncio.sleep(0.1)
        assert [each.status for each in found] == ["ready"] * 60
        rows = await product.app.database.pool.repeat(
            lambda session: session.fetch(
                "select worker_id, count(*) as jobs, max(attempt) as tries from penstock.job_history as past "
                "join penstock.lanes as lane on lane.id = past.lane where kind = 'prepare_document' group by worker_id"
            )
        )
        assert len(rows) == 2, "both took their part"
        assert sum(row["jobs"] for row in rows) == 60
        chunks = await product.app.database.pool.repeat(
            lambda session: session.fetchval("select count(*) from penstock.chunks")
        )
        assert chunks == 60
        for worker in (older, newer):
            os.kill(worker.pid, signal.SIGTERM)
            assert await worker.end(40) == 0


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content
