"""Embedding by a model behind an address: how many calls do the chunks of real documents take?

The documents are those of `./dev bench documents`, four salted copies of each, most of them of a few chunks, prepared by one
worker without OCR. The server counts calls and texts; one call for each text is what a program does that embeds chunk by
chunk. Each call takes half a second: documents that come meanwhile share the next one.
"""

import shutil

from benchmarks.documents.fileset import make_files
from benchmarks.documents.product import Installed
from benchmarks.models.server import DIMENSIONS, model_server
from benchmarks.report import Row
from benchmarks.stage import SideFailed, Stage

SECONDS = 0.5
COPIES = 4


async def measure(stage: Stage) -> list[Row]:
    folder, home = stage.home / "embedded", stage.home / "embedding"
    folder.mkdir()
    files = make_files(folder, COPIES)
    url = await stage.empty_database("embedding")
    async with model_server(SECONDS) as server:
        installed = Installed(
            url,
            home,
            PENSTOCK_EXTRACTION__OCR="off",
            PENSTOCK_COLLECTIONS__MODEL="far",
            PENSTOCK_MODELS__FAR__URL=server.url,
            PENSTOCK_MODELS__FAR__MODEL="slow",
            PENSTOCK_MODELS__FAR__DIMENSIONS=str(DIMENSIONS),
        )
        await installed.command("status")
        async with installed.running("worker"):
            added = await installed.command("add", str(folder), "--wait")
        counts = await server.counts()
    shutil.rmtree(folder)
    shutil.rmtree(home)
    await stage.drop(url)
    if not added["ready"] or not counts["answered"]:
        raise SideFailed(f"{added['ready']} of {len(files)} documents are ready")
    calls, texts = len(counts["answered"]), counts["texts"]
    fewer = Row("embedding", "chunks per call", "×", [texts / calls])
    return [
        Row("embedding", f"chunks of {added['ready']} documents", "chunks", [texts]),
        Row("embedding", "calls for them", "calls", [calls]),
        fewer.judged("≥ 20", lambda value: value >= 20),
    ]
