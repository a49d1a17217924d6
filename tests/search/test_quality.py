"""Whether people find what they look for: nDCG@10 on a public set of abstracts, questions and judgements."""

import re
from math import log2
from pathlib import Path

import pytest

from tests.search.conftest import SearchedTexts

FOLDER = Path(__file__).parents[2].parent / "shared" / "retrieval" / "vaswani"
DOCUMENT = re.compile(r"<DOCNO>(\d+)</DOCNO>(.*?)</DOC>", re.DOTALL)
BATCH = 2000
QUESTION = re.compile(r"<num>(\d+)</num><title>(.*?)</title>", re.DOTALL)


def ndcg(found: list[int], judged: dict[int, int], depth: int = 10) -> float:
    """How much of the best possible gain there is, with later places counting less."""
    gain = sum(judged.get(number, 0) / log2(place + 2) for place, number in enumerate(found[:depth]))
    best = sum(grade / log2(place + 2) for place, grade in enumerate(sorted(judged.values(), reverse=True)[:depth]))
    return gain / best if best else 0.0


def test_ndcg_by_hand() -> None:
    assert ndcg([1, 2], {1: 1, 2: 1}) == 1
    assert ndcg([3, 1], {1: 1}) == pytest.approx(1 / log2(3))
    assert ndcg([], {1: 1}) == 0


async def load(searched_texts: SearchedTexts) -> list[int]:
    """The abstracts as chunks of one document, for speed; their ids, in the order of the chunks."""
    found = DOCUMENT.findall((FOLDER / "doc-text.trec").read_text())
    version = await searched_texts.begin_version(await searched_texts.accept("abstracts"))
    words = 0
    for first in range(0, len(found), BATCH):
        entry = await searched_texts.entry(
            version, [text.strip() for _, text in found[first : first + BATCH]], first=first
        )
        async with searched_texts.database.pool.transaction() as tx:
            words += await searched_texts.index.stage(tx, entry)
    async with searched_texts.database.pool.transaction() as tx:
        await searched_texts.publish(tx, version, chunks=len(found), words=words)
    return [int(number) for number, _ in found]


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the test set is not there: {FOLDER}")
@pytest.mark.timeout(300)
async def test_hybrid_search_is_good_and_no_worse_than_words(searched_texts: SearchedTexts) -> None:
    numbers = await load(searched_texts)
    judged: dict[int, dict[int, int]] = {}
    for line in (FOLDER / "qrels").read_text().splitlines():
        question, _, document, grade = map(int, line.split())
        judged.setdefault(question, {})[document] = grade
    questions = {
        int(number): text.strip() for number, text in QUESTION.findall((FOLDER / "query-text.trec").read_text())
    }

    means = {}
    for mode in ("hybrid", "words", "vectors"):
        scores = []
        for number, text in questions.items():
            found = await searched_texts.search(text, mode=mode)
            scores.append(ndcg([numbers[hit.chunk] for hit in found.hits], judged[number]))
        means[mode] = sum(scores) / len(scores)

    assert len(questions) == 93
    assert means["hybrid"] >= 0.42, means
    assert means["hybrid"] >= means["words"], means
    assert means["words"] >= 0.42, means
    assert means["vectors"] >= 0.33, means
