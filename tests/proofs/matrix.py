"""Which failpoints meet which faults and workloads, and a small selection in which every pair of them occurs.

A workload that never passes a failpoint is no cell of the matrix: `MEETS` says which do. What is left out is counted, and a
test asserts the numbers.
"""

from collections.abc import Iterable
from itertools import combinations, product
from typing import NamedTuple

from penstock.engine.failpoint import FAULTS, POINTS
from tests.proofs.failpoint_worker import WORKLOADS

EVERY = tuple(WORKLOADS)
MEETS: dict[str, tuple[str, ...]] = {
    "after-claim": EVERY,
    "before-settle": ("plain", "map"),  # the others finish by themselves
    "before-finish": ("finish", "steps", "map", "later", "scheduled"),
    "before-commit": EVERY,
    "after-commit-before-ack": EVERY,
    "mid-checkpoint": ("steps",),
    "mid-map": ("map",),
    "before-count-down": ("map",),
    "before-rescue": EVERY,  # of a worker that was killed with the jobs in its hands
    "before-promote": tuple(workload for workload in EVERY if workload != "scheduled"),  # there before its worker
    "cron-tick": ("scheduled",),
}


class Cell(NamedTuple):
    """One run: at this point, this happens to a worker with this work."""

    point: str
    fault: str
    workload: str

    def __str__(self) -> str:
        return "-".join(self)


def all_cells() -> list[Cell]:
    return [Cell(point, fault, workload) for point in POINTS for workload in MEETS[point] for fault in FAULTS]


def excluded() -> list[Cell]:
    """Combinations that cannot meet."""
    return sorted(set(map(Cell._make, product(POINTS, FAULTS, EVERY))) - set(all_cells()))


def pairwise(cells: Iterable[Cell]) -> list[Cell]:
    """Greedy: take the cell that has the most pairs which no chosen one has, until none is left."""
    left = sorted(cells)
    missing = {pair for cell in left for pair in pairs(cell)}
    chosen: list[Cell] = []
    while missing:
        best = max(left, key=lambda cell: len(missing & pairs(cell)))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def pairs(cell: Cell) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    named = tuple(zip(cell._fields, cell, strict=True))
    return set(combinations(named, 2))
