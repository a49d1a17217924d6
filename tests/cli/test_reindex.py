"""`penstock collections reindex` and `--index`, as people run them: without a worker, the command does the work."""

import json
from pathlib import Path

import pytest

from penstock.settings import DatabaseUrl
from tests.processes import penstock
from tests.search.qdrant_stand_in import StandIn, stand_in

__all__ = ["stand_in"]


@pytest.mark.slow
async def test_there_and_back(database_url: DatabaseUrl, tmp_path: Path, stand_in: StandIn) -> None:
    environ = {
        "PENSTOCK_DATABASE_URL": database_url.reveal(),
        "PENSTOCK_HOME": str(tmp_path / "home"),
        "PENSTOCK_QDRANT__URL": stand_in.url,
    }
    (tmp_path / "mill.txt").write_text("The mill grinds corn.")
    code, said = await penstock("add", str(tmp_path / "mill.txt"), "-c", "papers", "--create", "--wait", **environ)
    assert code == 0, said
    code, said = await penstock("collections", "reindex", "papers", "--into", "qdrant", **environ)
    assert (code, "The collection papers is searched in qdrant." in said) == (0, True), said
    assert await stand_in.count() == 1
    code, said = await penstock("search", "corn", "--mode", "vectors", **environ)
    assert (code, "mill.txt" in said) == (0, True), said

    await stand_in.stop()
    code, said = await penstock("search", "corn", "--mode", "vectors", **environ)
    assert (code, "mill.txt" in said) == (0, True), said
    assert "cannot be reached" in said
    assert "PostgreSQL compared all vectors instead." in said
    await stand_in.start()

    code, said = await penstock(
        "collections", "reindex", "papers", "--into", "postgres", "--no-wait", "--json", **environ
    )
    found = json.loads(said)
    assert (code, found["index"], found["next_index"]) == (0, "qdrant", "postgres")
    code, said = await penstock("collections", "show", "papers", **environ)
    assert "qdrant, becoming postgres" in said


async def test_without_a_qdrant(database_url: DatabaseUrl, tmp_path: Path) -> None:
    environ = {"PENSTOCK_DATABASE_URL": database_url.reveal(), "PENSTOCK_HOME": str(tmp_path / "home")}
    code, said = await penstock("collections", "create", "far", "--index", "qdrant", **environ)
    assert (code, "set qdrant.url" in said) == (2, True), said
