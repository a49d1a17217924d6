"""A module for each question; `measure(stage)` answers with rows."""

from collections.abc import Awaitable, Callable, Sequence

from benchmarks.stage import Arena, SideFailed, Stage, rotated

LABELS = {"penstock": "Penstock", "pgqueuer": "PgQueuer", "procrastinate": "Procrastinate", "raw": "raw limit"}


async def arenas(stage: Stage, names: Sequence[str]) -> dict[str, Arena]:
    """A database for each of these systems."""
    return {name: await stage.database(name, LABELS.get(name, name)) for name in names}


async def in_rounds(stage: Stage, sides: Sequence[Arena], step: Callable[[Arena], Awaitable[None]]) -> None:
    """Each side in each round, in a rotating order. A peer that fails is left out from then on, and says why."""
    for number in range(stage.scale.rounds):
        for side in rotated(sides, number):
            if side.broken:
                continue
            try:
                await step(side)
            except SideFailed as failure:
                side.broken = str(failure)
