"""The Vaswani collection, where it is beside the project: abstracts, questions, and which answer them."""

import re
from math import log2

from benchmarks.documents.fileset import CORPUS

FOLDER = CORPUS.parent / "retrieval/vaswani"


def _read(name: str) -> str:
    path = FOLDER / name
    if not path.exists():
        raise SystemExit(f"The Vaswani collection is not at {FOLDER}: this benchmark needs it.")
    return path.read_text(errors="replace")


def abstracts() -> dict[int, str]:
    found = re.findall(
        r"<DOC>\s*<DOCNO>\s*(\d+)\s*</DOCNO>(.*?)</DOC>", _read("doc-text.trec"), re.DOTALL | re.IGNORECASE
    )
    return {int(number): text.strip() for number, text in found}


def questions() -> dict[int, str]:
    found = re.findall(r"<num>\s*(\d+)\s*</num>\s*<title>(.*?)</title>", _read("query-text.trec"), re.DOTALL)
    return {int(number): " ".join(text.split()).lower() for number, text in found}


def judgements() -> dict[int, set[int]]:
    """The abstracts that answer each question."""
    answers: dict[int, set[int]] = {}
    for line in _read("qrels").splitlines():
        question, _, abstract, relevant = line.split()
        if int(relevant) > 0:
            answers.setdefault(int(question), set()).add(int(abstract))
    return answers


def ndcg(ranked: list[int], relevant: set[int], depth: int = 10) -> float:
    """Discounted gain of the first ones, as a part of the best that was possible; each answer counts the same."""
    gain = sum(1 / log2(place + 2) for place, number in enumerate(ranked[:depth]) if number in relevant)
    best = sum(1 / log2(place + 2) for place in range(min(depth, len(relevant))))
    return gain / best if best else 0.0
