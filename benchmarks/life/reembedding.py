"""Another model for a collection of 100,000 chunks, beside the speed of the model alone.

The collection begins with vectors under another name, and gets the built-in model. Measured is from the command to the
switch, with a worker running: reading the chunks, embedding, writing, the index, and the verification. Beside it the same
texts are only embedded, by one process. The target is for embedding and writing: the index takes as long as any other of its
size, and the collection is searched by the old one meanwhile.
"""

import asyncio
import shutil

import asyncpg

from benchmarks.cost import clock
from benchmarks.documents.product import Installed
from benchmarks.documents.searching import make_documents
from benchmarks.report import Row, ratio
from benchmarks.stage import SideFailed, Stage
from penstock.database import open_database
from penstock.models import Models
from penstock.search import compact, prepare_model
from penstock.settings import Settings
from tests.search.conftest import SearchedTexts

OTHER = {  # never asked: its vectors are there already
    "PENSTOCK_MODELS__OTHER__URL": "http://127.0.0.1:9/v1",
    "PENSTOCK_MODELS__OTHER__MODEL": "none",
    "PENSTOCK_MODELS__OTHER__DIMENSIONS": "256",
}


async def measure(stage: Stage) -> list[Row]:
    chunks = stage.scale.chunks
    alone = Row("reembedding", "embedding alone", "chunks/s", [], note="one process")
    ours = Row("reembedding", "Penstock", "chunks/s", [], note="from the command to the switch")
    written = Row("reembedding", "Penstock, without the index", "chunks/s", [], note="until all vectors are there")
    url = await stage.empty_database("reembedding")
    home = stage.home / "reembedding"
    installed = Installed(url, home, **OTHER)
    await installed.command("status")
    async with open_database(Settings(home=home, database_url=url), role="bench") as database:
        for name in ("other", "static"):
            await prepare_model(database, name, 256)
        library = SearchedTexts(database, Models(), model="other")
        ref = await library.collection("main")
        texts = list(make_documents(chunks))
        for number, part in enumerate(texts):
            await library.add(f"{number}.txt", part)
        await compact(database, ref.id, "other")
    model = Models().open("static")
    await model.embed(texts[0])
    began = clock()
    for part in texts:
        await model.embed(part)
    alone.values.append(chunks / (clock() - began))
    await model.aclose()
    async with installed.running("worker"):
        began = clock()
        changing = asyncio.create_task(installed.command("collections", "set", "main", "--model", "static", "--wait"))
        written.values.append(chunks / (await _until_written(url, chunks, changing) - began))
        await changing
        ours.values.append(chunks / (clock() - began))
    shutil.rmtree(home)
    return [
        alone,
        ours,
        written,
        ratio("reembedding", "vectors written / alone", written, alone).judged("≥ 0.5", lambda value: value >= 0.5),
        ratio("reembedding", "all of it / alone", ours, alone),
    ]


async def _until_written(url: str, chunks: int, changing: "asyncio.Task[object]") -> float:
    """When the last vector was there."""
    connection = await asyncpg.connect(url)
    while not changing.done():
        there = await connection.fetchval(
            "select (select count(*) from penstock.vectors_static) + (select count(*) from penstock.folded_vectors_static)"
        )
        if there >= chunks:
            await connection.close()
            return clock()
        await asyncio.sleep(0.1)
    raise SideFailed("the command ended, and vectors are missing")
