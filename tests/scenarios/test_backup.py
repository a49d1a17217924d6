"""A backup as docs/deployment.md tells it, restored on another machine: everything is found, and nothing is amiss."""

import json
import shutil
from pathlib import Path

import pytest

from tests.processes import penstock

pytestmark = pytest.mark.slow


async def test_a_backup_restores_documents_and_their_bytes(home: Path, tmp_path: Path) -> None:
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "gate.txt").write_text("The sluice gate was repaired in March.")
    (papers / "weir.md").write_text("# Weir\n\nThe weir holds.")
    here, there = home / "here", home / "there"
    here.mkdir(mode=0o711)
    there.mkdir(mode=0o711)
    code, said = await penstock("add", str(papers), "--json", PENSTOCK_HOME=str(here))
    assert code == 0, said
    # In this order: bytes that come after the dump are named in no row, and are collected; a row without its bytes is a loss.
    backup = tmp_path / "backup"
    code, said = await penstock("db", "dump", str(backup), PENSTOCK_HOME=str(here))
    assert code == 0, said
    shutil.copytree(here / "blobs", there / "blobs")
    code, said = await penstock("db", "restore", str(backup), PENSTOCK_HOME=str(there))
    assert code == 0, said
    code, said = await penstock("search", "who repaired the gate", "--json", PENSTOCK_HOME=str(there))
    assert code == 0, said
    assert json.loads(said[said.index("{") :])["hits"][0]["name"] == "gate.txt"
    (papers / "turbine.txt").write_text("The turbine turns.")
    code, said = await penstock("add", str(papers), "--json", PENSTOCK_HOME=str(there))
    assert code == 0, said
    done = json.loads(said[said.index("{") :])
    assert (done["accepted"], done["skipped"], done["failed"]) == (1, 2, 0), "the old bytes are known by their digest"
