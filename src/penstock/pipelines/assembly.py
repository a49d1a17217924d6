"""From the answers about a version to its facts: read against the text, embedded, staged in fenced batches, and made current.

One of these is made for each try. Nobody sees what it has staged until the last statement; what a killed one has left is old
when the next one begins, and is swept.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.database import Pool
from penstock.engine import Context, Gap
from penstock.engine.failpoint import STEP, reach
from penstock.knowledge import extraction, facts
from penstock.knowledge.extraction import Answer, Counts, Source
from penstock.knowledge.plan import Plan
from penstock.knowledge.reading import Fact, Reading, read_answer, rejections
from penstock.knowledge.windows import Window
from penstock.pipelines.embedding import Embedding

WINDOWS_BATCH = 20  # whose answers are read together
FACTS_BATCH = 400  # that are embedded and written together

ReadWindow = tuple[int, list[Fact]]


@dataclass
class Gathered:
    """What has been read and staged so far."""

    facts: int = 0
    answered: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    seen: set[Any] = field(default_factory=set)  # what was said before, so that nothing is there twice

    def count(self, answer: Answer) -> None:
        self.answered += 1
        self.tokens_in += answer.tokens_in
        self.tokens_out += answer.tokens_out
        self.cost += answer.cost

    def only_new(self, reading: Reading) -> list[Fact]:
        self.rejected += reading.rejected
        new = []
        for fact in reading.facts:
            if fact.sameness in self.seen:
                self.rejected["twice"] += 1
            else:
                self.seen.add(fact.sameness)
                new.append(fact)
        return new


class Assembly:
    """The facts of one version."""

    def __init__(self, ctx: Context, pool: Pool, embedding: Embedding, source: Source, plan: Plan) -> None:
        self._ctx = ctx
        self._repeat = pool.repeat
        self._embedding = embedding
        self._source = source
        self._plan = plan
        self._gathered = Gathered()

    async def run(self, windows: Sequence[Window], failed: Mapping[int, Gap]) -> dict[str, Any] | None:
        """All of it; what came of it, or None when search does not see the version any more."""
        ctx, source, gathered = self._ctx, self._source, self._gathered
        for window, gap in sorted(failed.items()):
            gathered.gaps.append(_gap(window, windows[window], gap.reason))
        ctx.enter("begin")
        async with ctx.write() as tx:
            number = await extraction.begin(tx, source, self._plan.digest, self._plan.llm, ctx.job.id)
        if number is None:
            return None
        async for batch in self._read(windows):
            if not await self._stage(number, batch, windows):
                return None
        return await self._publish(number, len(windows))

    async def _read(self, windows: Sequence[Window]) -> AsyncIterator[list[ReadWindow]]:
        """New facts by window, as many windows at once as make a batch."""
        version, plan = self._source.version, self._plan
        batch: list[ReadWindow] = []
        for first in range(0, len(windows), WINDOWS_BATCH):
            await self._ctx.progress(first, len(windows), "windows")
            numbers = range(first, min(first + WINDOWS_BATCH, len(windows)))
            answers = await self._repeat(
                partial(extraction.load_answers, version=version, plan=plan.digest, windows=numbers)
            )
            several = [windows[number] for number in sorted(answers)]
            texts = await self._repeat(partial(extraction.read_windows, version=version, windows=several))
            for number, passages in zip(sorted(answers), texts, strict=True):
                reading = await asyncio.to_thread(read_answer, answers[number].answer, passages, plan)
                self._gathered.count(answers[number])
                batch.append((number, self._gathered.only_new(reading)))
                if sum(len(found) for _, found in batch) >= FACTS_BATCH:
                    yield batch
                    batch = []
        if batch:
            yield batch

    async def _stage(self, number: int, batch: list[ReadWindow], windows: Sequence[Window]) -> bool:
        """Embed a batch, and write it; False when the version is gone."""
        ctx, source, gathered = self._ctx, self._source, self._gathered
        statements = [fact.statement for _, found in batch for fact in found]
        if not statements:
            return True
        ctx.enter("embed")
        vectors = await self._embedding.vectors(ctx, source.embedder, statements)
        batches, place = [], 0
        for window, found in batch:
            first, place = place, place + len(found)
            batches.append(
                facts.Batch(window, len(gathered.seen) - len(statements) + first, found, vectors[first:place])
            )
        ctx.enter("stage")
        async with ctx.write() as tx:
            if not await extraction.hold(tx, source, number):
                return False
            refused = await facts.stage(tx, source, number, [each for each in batches if each.facts])
            reach(f"{STEP}staging", tx)
        for window, found in batch:
            if window in refused:
                gathered.rejected["unwritable"] += len(found)
                gathered.gaps.append(_gap(window, windows[window], f"it could not be written: {refused[window]}"))
            else:
                gathered.facts += len(found)
        return True

    async def _publish(self, number: int, windows: int) -> dict[str, Any]:
        gathered = self._gathered
        counts = Counts(
            windows,
            gathered.answered,
            gathered.facts,
            dict(gathered.rejected),
            gathered.gaps,
            gathered.tokens_in,
            gathered.tokens_out,
            gathered.cost,
        )
        rejected = gathered.rejected.total()
        told: dict[str, Any] = {"windows": windows, "facts": counts.facts, "rejected": rejected}
        told |= {"gaps": len(counts.gaps), "cost": round(counts.cost, 6)}
        self._ctx.enter("publish")
        async with self._ctx.finish(result=told) as tx:
            published = await extraction.publish(tx, self._source, number, counts)
        if published:
            for reason, count in gathered.rejected.items():
                rejections.labels(reason).inc(count)
        return told


def _gap(number: int, window: Window, reason: str) -> dict[str, Any]:
    return {"window": number, "page": window[0].page, "reason": reason[:500]}
