"""How good the answers are: nDCG@10 over Vaswani's questions, with default settings, by both ways and by each alone."""

import shutil

from benchmarks.documents.product import Installed
from benchmarks.documents.vaswani import abstracts, judgements, ndcg, questions
from benchmarks.report import Row
from benchmarks.stage import Stage
from penstock.database import open_database
from penstock.models import Models
from penstock.search import prepare_model
from penstock.settings import Settings
from tests.search.conftest import SearchedTexts

WAYS = {"hybrid": "both ways", "words": "BM25 alone", "vectors": "vectors alone"}


async def measure(stage: Stage) -> list[Row]:
    url = await stage.empty_database("relevance")
    home = stage.home / "relevance"
    await Installed(url, home).command("status")
    answers = judgements()
    async with open_database(Settings(home=home, database_url=url), role="bench") as database:
        await prepare_model(database, "static", 256)
        library = SearchedTexts(database, Models())
        for number, text in abstracts().items():
            await library.add(str(number), [text])
        means = {}
        for way in WAYS:
            gains = []
            for number, question in questions().items():
                found = await library.search(question, mode=way, k=10)
                gains.append(ndcg([int(hit.name) for hit in found.hits], answers.get(number, set())))
            means[way] = sum(gains) / len(gains)
    shutil.rmtree(home)
    rows = {way: Row("relevance", f"nDCG@10, {what}", "", [means[way]]) for way, what in WAYS.items()}
    rows["hybrid"].judged("≥ 0.42 and not below BM25", lambda value: value >= 0.42 and value >= means["words"])
    return list(rows.values())
