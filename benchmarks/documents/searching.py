"""Search in a large collection, by HTTP, one client: fixed questions, frequent words among them.

The texts are made of the words of the Vaswani abstracts, as often as those use them, in documents of a hundred chunks; the
questions are Vaswani's. Before the first question the collection is folded, as the schedule does by itself within minutes.
"""

import random
import shutil
import statistics
from collections.abc import Iterator

import aiohttp

from benchmarks.cost import clock
from benchmarks.documents.product import Installed
from benchmarks.documents.vaswani import abstracts, questions
from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock.database import open_database
from penstock.models import Models
from penstock.search import compact, prepare_model
from penstock.settings import Settings
from tests.search.conftest import SearchedTexts

PER_DOCUMENT = 100
WORDS = 150  # of a chunk
FREQUENT = [
    "the",
    "of the",
    "what is the theory of the electron",
    "a method for the measurement of the temperature",
    "the use of a computer in the design of a circuit",
]


async def measure(stage: Stage) -> list[Row]:
    url = await stage.empty_database("search")
    home = stage.home / "search"
    await Installed(url, home).command("status")
    settings = Settings(home=home, database_url=url)
    began = clock()
    async with open_database(settings, role="bench") as database:
        await prepare_model(database, "static", 256)
        library = SearchedTexts(database, Models())
        ref = await library.collection("main")
        for number, texts in enumerate(make_documents(stage.scale.chunks)):
            await library.add(f"{number}.txt", texts)
        filled = clock() - began
        began = clock()
        await compact(database, ref.id, "static")
        folded = clock() - began
        await library.run("vacuum (analyze) penstock.folded_postings")
    times = await _ask(stage, Installed(url, home))
    shutil.rmtree(home)
    of = f"in {stage.scale.chunks:,} chunks"
    percentiles = statistics.quantiles(times, n=100)
    large = stage.scale.chunks > 100_000  # reported, without a target
    p50 = Row("search", f"{of}, p50", "ms", [percentiles[49]], note=f"{len(times)} questions")
    p99 = Row("search", f"{of}, p99", "ms", [percentiles[98]])
    return [
        p50 if large else p50.judged("≤ 30", lambda value: value <= 30),
        p99 if large else p99.judged("≤ 150", lambda value: value <= 150),
        Row(
            "search", "writing the chunks", "1/s", [stage.scale.chunks / filled], note="one process, with their vectors"
        ),
        Row("search", "folding", "s", [folded], note="postings and the HNSW index"),
    ]


def make_documents(chunks: int) -> Iterator[list[str]]:
    """Texts of their chunks, a hundred for each document."""
    words = [word for text in abstracts().values() for word in text.split()]
    draw = random.Random(7)
    for _ in range(chunks // PER_DOCUMENT):
        yield [" ".join(draw.choices(words, k=WORDS)) for _ in range(PER_DOCUMENT)]


async def _ask(stage: Stage, installed: Installed) -> list[float]:
    asked = [*questions().values(), *FREQUENT]
    times = []
    async with installed.api() as (address, _), aiohttp.ClientSession() as http:
        for number in range(-1, stage.scale.rounds):
            for question in asked:
                began = clock()
                async with http.get(f"{address}/api/search", params={"q": question, "collection": "main"}) as answer:
                    found = await answer.json()
                assert answer.status == 200, found
                assert found["hits"], question
                if number >= 0:  # the first round warms the cache
                    times.append(1000 * (clock() - began))
    return times
