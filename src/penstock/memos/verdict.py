"""Verdicts: which memos are worth comparing, and what follows from what the model says of them.

A finding is compared with the live memos of its stream and with earlier findings of its batch, where their vectors are near
enough. Says it the same as one of them, it is merged into that; contradicts it some, it supersedes them. Findings go in the
order in which they were said, so that of two contradictions in one batch the later one stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAR = 4  # memos that a finding is compared with, at most


class Node(NamedTuple):
    """A memo that is there, by its number, or a finding, by its place."""

    is_new: bool
    number: int


class Pair(NamedTuple):
    """A finding and something older that it may repeat or contradict."""

    newer: int
    older: Node
    text: str  # of the older one
    cosine: float

    @classmethod
    def kept(cls, step: Sequence[Any]) -> "Pair":
        newer, (is_new, number), text, cosine = step
        return cls(newer, Node(is_new, number), text, cosine)


@dataclass
class Outcome:
    """What becomes of findings, and of older memos."""

    merged: dict[int, Node] = field(default_factory=dict)  # finding -> what it was merged into
    superseded: dict[Node, Node] = field(default_factory=dict)  # what -> by what

    def holder(self, place: int) -> Node:
        """The memo that holds what a finding says."""
        return self.merged.get(place, Node(True, place))


def choose_pairs(
    findings: Sequence[str],
    vectors: "NDArray[np.float32]",
    near: Mapping[int, Sequence[tuple[int, str, float]]],
    alike: float,
) -> list[Pair]:
    """For each finding the nearest of what is older: memos (`near`, by place: number, text, cosine) and findings before it."""
    pairs = []
    for place in range(len(findings)):
        older = [Pair(place, Node(False, number), text, cosine) for number, text, cosine in near.get(place, ())]
        older += [
            Pair(place, Node(True, before), findings[before], float(vectors[place] @ vectors[before]))
            for before in range(place)
        ]
        close = [pair for pair in older if pair.cosine >= alike]
        pairs += sorted(close, key=lambda pair: (-pair.cosine, pair.older))[:NEAR]
    return pairs


def read_verdicts(answers: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> list[str]:
    """For each pair its verdict, over several answers; what is not told, or told twice otherwise, is different."""
    told: list[str] = []
    for answer, size in zip(answers, sizes, strict=True):
        said: dict[int, set[str]] = {}
        for each in answer["verdicts"]:
            said.setdefault(int(each["pair"]), set()).add(each["verdict"])
        verdicts = [said.get(number, set()) for number in range(1, size + 1)]
        told += [next(iter(each)) if len(each) == 1 else "different" for each in verdicts]
    return told


def decide(pairs: Sequence[Pair], verdicts: Sequence[str], live: set[int], present: Sequence[int]) -> Outcome:
    """By the verdicts, as far as the older memos are still `live` and the findings still `present`."""
    outcome = Outcome()
    standing = {Node(False, number) for number in live} | {Node(True, place) for place in present}
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


def _standing(outcome: Outcome, node: Node, standing: set[Node]) -> Node | None:
    """The memo that stands for it, unless that is gone or superseded."""
    if node.is_new:
        node = outcome.holder(node.number)
    return node if node in standing and node not in outcome.superseded else None
