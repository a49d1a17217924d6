"""A folder is watched while somebody writes slowly into it, and workers are killed in the middle of taking files."""

import signal
from pathlib import Path

import pytest

from tests.application import Application, application
from tests.processes import start

pytestmark = pytest.mark.slow

__all__ = ["application"]

SETTINGS = """
[sources.scans]
type = "folder"
folder = "{folder}"
collection = "scans"
settle = "500ms"
poll_every = "1s"
batch = 5
afterwards = "move"
"""
QUICK = 12
PIECES = 40
WRITE = f"""
import pathlib, sys, time
top = pathlib.Path(sys.argv[1])
for number in range({QUICK}):
    (top / "quick").mkdir(exist_ok=True)
    (top / f"quick/{{number:02}}.txt").write_text(f"Page {{number}} of the survey. " * 2000)
with (top / "slow.txt").open("w") as slow:
    for piece in range({PIECES}):
        slow.write(f"Reading {{piece}} of the gauge. " * 500)
        slow.flush()
        time.sleep(0.1)
(top / "broken.pdf").write_bytes(b"%PDF-1.7 torn")
print("written", slow.name and (top / "slow.txt").stat().st_size, flush=True)
"""
# In the transaction of a batch, and in that of a message.
PLACES = ("step:receive=kill@2", "before-commit=kill@3")


async def test_every_file_is_one_document_and_complete(application: Application, tmp_path: Path) -> None:
    top = tmp_path / "in"
    top.mkdir()
    (tmp_path / "penstock.toml").write_text(SETTINGS.format(folder=top))
    async with start("-c", WRITE, str(top)) as writer:
        for place in PLACES:
            victim = await application.worker(place="", PENSTOCK_TEST_FAILPOINTS=place)
            assert await victim.end(60) == -signal.SIGKILL, victim.printed
        await application.worker(place="")
        printed = await writer.until("written")
    size = int(printed.split()[1])
    files = sorted(["broken.pdf", "slow.txt", *(f"quick/{number:02}.txt" for number in range(QUICK))])
    told = (
        "select from (select count(*) from penstock.inbox where told in ('ready', 'failed')) as told where count >= $1"
    )
    await application.until(told, len(files), within=60)

    documents = await application.run("select name, state, version_id from penstock.documents order by name")
    assert {row["name"]: row["state"] for row in documents} == dict.fromkeys(files, "ready") | {"broken.pdf": "failed"}
    [versions] = await application.run("select count(*) from penstock.versions")
    assert versions["count"] == len(files), "each was taken once"
    [slow] = await application.run(
        "select blob.size from penstock.documents as document join penstock.versions as version on version.id = version_id "
        "join penstock.blobs as blob on blob.id = blob_id where document.name = 'slow.txt'"
    )
    assert slow["size"] == size
    left = sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())
    moved = [f"done/{name}" for name in files if name != "broken.pdf"]
    assert left == sorted([*moved, "failed/broken.pdf", "failed/broken.pdf.reason.txt"])
    assert (top / "failed/broken.pdf.reason.txt").read_text().strip()
    assert (top / "done/slow.txt").stat().st_size == size
