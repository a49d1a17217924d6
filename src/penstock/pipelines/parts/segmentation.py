"""Pages one after the other: a part goes on until something speaks for a change.

A small hidden Markov model. `score` of a page and label comes from the rules; here are the costs of the steps between pages.
`best_path` is the most likely sequence as a whole (Viterbi); `posteriors` says for each page how likely each label is over
all sequences (forward-backward), which is the confidence. Both are linear in the pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

Row = Sequence[float]  # one figure for each label


@dataclass(frozen=True, slots=True)
class Costs:
    """What speaks against a step, in log-odds: 2.3 is ten to one."""

    change: float = 2.5  # another label than the page before
    opening: float = 1.5  # less of it where a new document begins
    restart: float = 1.0  # less of it on a page that says it is number 1
    going_on: float = 2.5  # more of it on a page whose `2 of 3` follows a `1 of 3`
    backwards: float = 1.5  # more of it from a later label to an earlier one
    late_cover: float = 4.0  # a cover sheet that is not at the beginning
    long_cover: float = 2.0  # a cover sheet of more than one page
    unnamed: float = 2.5  # a part that begins on a page where nothing speaks for it


@dataclass(frozen=True, slots=True)
class StepCosts:
    """The costs for the labels of some rules."""

    costs: Costs
    labels: Sequence[str]
    cover: str
    other: str

    def begin(self, row: Row) -> list[float]:
        """For the first page, whose scores are `row`."""
        return [-self._unnamed(label, score) for label, score in zip(self.labels, row, strict=True)]

    def between(self, change: float, row: Row) -> list[list[float]]:
        """From each label to each; `change` is what a change costs at this page, whose scores are `row`."""
        scored = list(zip(self.labels, row, strict=True))
        return [[-self._cost(before, after, change, score) for after, score in scored] for before in self.labels]

    def _cost(self, before: str, after: str, change: float, score: float) -> float:
        if before == after:
            return self.costs.long_cover if after == self.cover else 0.0
        cost = change + self._unnamed(after, score)
        if after == self.cover:
            return cost + self.costs.late_cover
        if self.other not in {before, after} and self.labels.index(after) < self.labels.index(before):
            cost += self.costs.backwards
        return cost

    def _unnamed(self, label: str, score: float) -> float:
        return self.costs.unnamed if label not in {self.cover, self.other} and score <= 0 else 0.0


def best_path(scores: Sequence[Row], steps: Sequence[Sequence[Row]], begin: Row) -> list[int]:
    """The place of the label of each page; `steps[n]` leads from page n to n + 1."""
    if not scores:
        return []
    labels = range(len(begin))
    best = [start + score for start, score in zip(begin, scores[0], strict=True)]
    came: list[list[int]] = []
    for row, step in zip(scores[1:], steps, strict=True):
        came.append([max(labels, key=lambda before: best[before] + step[before][after]) for after in labels])
        best = [best[before] + step[before][after] + row[after] for after, before in enumerate(came[-1])]
    path = [max(labels, key=best.__getitem__)]
    for back in reversed(came):
        path.append(back[path[-1]])
    return path[::-1]


def posteriors(scores: Sequence[Row], steps: Sequence[Sequence[Row]], begin: Row) -> list[list[float]]:
    """The probability of each label on each page."""
    if not scores:
        return []
    labels = range(len(begin))
    forward = [_settled([start + score for start, score in zip(begin, scores[0], strict=True)])]
    for row, step in zip(scores[1:], steps, strict=True):
        last = forward[-1]
        forward.append(_settled([_sum([last[b] + step[b][a] for b in labels]) + row[a] for a in labels]))
    backward = [[0.0] * len(begin)]
    for row, step in zip(reversed(scores[1:]), reversed(steps), strict=True):
        after = backward[-1]
        backward.append(_settled([_sum([step[b][a] + row[a] + after[a] for a in labels]) for b in labels]))
    together = zip(forward, reversed(backward), strict=True)
    return [[exp(value) for value in _settled([f + b for f, b in zip(*pair, strict=True)])] for pair in together]


def _sum(values: Sequence[float]) -> float:
    most = max(values)
    return most + log(sum(exp(value - most) for value in values))


def _settled(values: list[float]) -> list[float]:
    """The same up to a constant, so that nothing grows with the pages."""
    total = _sum(values)
    return [value - total for value in values]
