"""Candidates: memos that the model proposes for a batch, and how they are merged with existing memos.

A candidate is kept if it is well-formed and names messages of its batch. It is compared with the live memos of its stream and
with earlier candidates of its batch, where their vectors are near enough: it is merged into one that says the same, and
supersedes those that it contradicts. Candidates are in the order of their messages, so that of two contradictions in one
batch the later one stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.memos.batch import MessageBatch
from penstock.text import is_storable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEXT_MAX = 2_000  # characters of a memo
MOST = 100  # candidates of one batch
NEAR = 4  # memos that a candidate is compared with, at most


@dataclass(frozen=True, slots=True)
class Candidate:
    text: str
    kind: str
    confidence: float
    messages: list[int]  # their numbers in the stream, in order


def read_candidates(answer: Mapping[str, Any], batch: MessageBatch) -> tuple[list[Candidate], int]:
    """The candidates in the order of their last messages, and how many were rejected."""
    found: dict[str, Candidate] = {}
    rejected = 0
    for each in answer["memos"]:
        candidate = _read(each, batch) if len(found) < MOST else None
        if candidate is None or candidate.confidence < batch.confidence:
            rejected += 1
            continue
        twin = found.get(candidate.text.casefold())
        if twin is not None:  # the same text twice in one answer
            messages = sorted({*twin.messages, *candidate.messages})
            candidate = Candidate(twin.text, twin.kind, max(twin.confidence, candidate.confidence), messages)
        found[candidate.text.casefold()] = candidate
    places = {line.seq: place for place, line in enumerate(batch.lines)}
    return sorted(found.values(), key=lambda each: max(places[seq] for seq in each.messages)), rejected


def _read(each: Mapping[str, Any], batch: MessageBatch) -> Candidate | None:
    text = " ".join(str(each["text"]).split())
    numbers = [batch.seq_of(int(number)) for number in each["messages"]]
    messages = sorted({seq for seq in numbers if seq is not None})
    believable = (
        0 < len(text) <= TEXT_MAX
        and is_storable(text)
        and batch.mark not in text
        and messages
        and None not in numbers
        and 0 <= each["confidence"] <= 1
    )
    return Candidate(text, str(each["kind"]), float(each["confidence"]), messages) if believable else None


class MemoNode(NamedTuple):
    """An existing memo, by its id, or a candidate, by its place."""

    is_new: bool
    number: int


class Pair(NamedTuple):
    """A candidate, and an older memo or candidate that it may repeat or contradict."""

    newer: int
    older: MemoNode
    text: str  # of the older one
    cosine: float

    @classmethod
    def kept(cls, step: Sequence[Any]) -> "Pair":
        newer, (is_new, number), text, cosine = step
        return cls(newer, MemoNode(is_new, number), text, cosine)


@dataclass
class MergeOutcome:
    """The decisions about candidates and older memos."""

    merged: dict[int, MemoNode] = field(default_factory=dict)  # candidate -> what it was merged into
    superseded: dict[MemoNode, MemoNode] = field(default_factory=dict)  # what -> by what

    def holder(self, place: int) -> MemoNode:
        """The memo that a candidate became, or was merged into."""
        return self.merged.get(place, MemoNode(True, place))


def choose_pairs(
    candidates: Sequence[str],
    vectors: "NDArray[np.float32]",
    near: Mapping[int, Sequence[tuple[int, str, float]]],
    alike: float,
) -> list[Pair]:
    """For each candidate the nearest older ones: memos (`near`, by place: id, text, cosine) and candidates before it."""
    pairs = []
    for place in range(len(candidates)):
        older = [Pair(place, MemoNode(False, number), text, cosine) for number, text, cosine in near.get(place, ())]
        older += [
            Pair(place, MemoNode(True, before), candidates[before], float(vectors[place] @ vectors[before]))
            for before in range(place)
        ]
        close = [pair for pair in older if pair.cosine >= alike]
        pairs += sorted(close, key=lambda pair: (-pair.cosine, pair.older))[:NEAR]
    return pairs


def read_verdicts(answers: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> list[str]:
    """For each pair its verdict, over several answers; a verdict that is missing or contradictory is `different`."""
    told: list[str] = []
    for answer, size in zip(answers, sizes, strict=True):
        said: dict[int, set[str]] = {}
        for each in answer["verdicts"]:
            said.setdefault(int(each["pair"]), set()).add(each["verdict"])
        verdicts = [said.get(number, set()) for number in range(1, size + 1)]
        told += [next(iter(each)) if len(each) == 1 else "different" for each in verdicts]
    return told


def decide(pairs: Sequence[Pair], verdicts: Sequence[str], live: set[int], present: Sequence[int]) -> MergeOutcome:
    """Decide by the verdicts, as far as the older memos are still `live` and the candidates still `present`."""
    outcome = MergeOutcome()
    standing = {MemoNode(False, number) for number in live} | {MemoNode(True, place) for place in present}
    for place in present:
        judged = [
            (pair, said)
            for pair, said in zip(pairs, verdicts, strict=True)
            if pair.newer == place and said != "different"
        ]
        for pair, said in judged:
            older = _standing(outcome, pair.older, standing)
            if said == "same" and older is not None and place not in outcome.merged:
                outcome.merged[place] = older
        for pair, said in judged:
            older = _standing(outcome, pair.older, standing)
            if said == "contradicts" and older is not None and older != outcome.holder(place):
                outcome.superseded[older] = outcome.holder(place)
    return outcome


def _standing(outcome: MergeOutcome, node: MemoNode, standing: set[MemoNode]) -> MemoNode | None:
    """The memo that it was merged into, unless that is deleted or superseded."""
    if node.is_new:
        node = outcome.holder(node.number)
    return node if node in standing and node not in outcome.superseded else None
