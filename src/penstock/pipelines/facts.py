"""The fact pipeline: cut into windows → ask about each → validate against the text → embed → stage → current.

    extract ── map ─▶ extract_window, one for each window without an answer; each keeps its answer with its own end
        └── when the last one is over: answers are read, facts staged in fenced batches, and made current with the job's end

The arguments of window jobs are places and not text: a document's text is in no job, every answer is kept as soon as it is
there, and the random word of the prompt may differ between attempts. No connection is held while a model is asked. A window
without a usable answer is a gap; one that failed for transient reasons makes the job dead, and a redrive asks about that
window alone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.database import Pool
from penstock.documents import Collection, fairness_key_of
from penstock.engine import STEP, Context, Gap, Kind, Penstock, reach
from penstock.errors import ChildFailed, NoModel, Permanent
from penstock.knowledge.facts import (
    ANSWER,
    Answer,
    Batch,
    Cutter,
    ExtractionConfig,
    Fact,
    FactSource,
    RunCounts,
    ValidatedAnswer,
    Window,
    answered_windows,
    begin,
    find_source,
    forget_answers,
    from_json,
    hold,
    keep_answer,
    keep_facts,
    list_pages,
    list_unasked,
    list_wanted,
    load_answers,
    messages,
    publish,
    read_answer,
    read_windows,
    rejections,
    stage,
    standing_gaps,
    sweep_extractions,
    to_json,
)
from penstock.models import Models, Request
from penstock.pipelines.embedding import Embedding
from penstock.pipelines.llm import LLM_QUEUE, LlmRequests, llm_limit
from penstock.pipelines.prepare import aside
from penstock.search import RowVectors, build_missing_indexes

FACTS_QUEUE = "knowledge"
UPKEEP_QUEUE = "upkeep"
FACTS_SLOTS = 8  # of a worker: a job that waits for its windows has none
MAX_WAITING = 100_000  # versions of one collection that may wait
AT_ONCE = 32  # windows of one version that are asked at the same time
PAGES_BATCH = 2_000_000  # characters of pages that are cut together
WINDOWS_BATCH = 20  # whose answers are read together
FACTS_BATCH = 400  # that are embedded and written together
ENQUEUED = 500  # in one page
NOT_ITS_FAULT = ("Transient", "ResourceLimit", "Poison")  # error classes of a window that a later try may answer

ReadWindow = tuple[int, list[Fact]]


@dataclass
class GatheredAnswers:
    """The facts and counts of the answers that were read so far."""

    facts: int = 0
    answered: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    seen: set[Any] = field(default_factory=set)  # facts that were found before, so that none is there twice

    def count(self, answer: Answer) -> None:
        self.answered += 1
        self.tokens_in += answer.tokens_in
        self.tokens_out += answer.tokens_out
        self.cost += answer.cost

    def only_new(self, reading: ValidatedAnswer) -> list[Fact]:
        self.rejected += reading.rejected
        new = []
        for fact in reading.facts:
            if fact.identity in self.seen:
                self.rejected["twice"] += 1
            else:
                self.seen.add(fact.identity)
                new.append(fact)
        return new


class FactAssembly:
    def __init__(
        self, ctx: Context, pool: Pool, embedding: Embedding, source: FactSource, config: ExtractionConfig
    ) -> None:
        self._ctx = ctx
        self._repeat = pool.repeat
        self._embedding = embedding
        self._source = source
        self._config = config
        self._gathered = GatheredAnswers()

    async def run(self, windows: Sequence[Window], failed: Mapping[int, Gap]) -> dict[str, Any] | None:
        """All of it; what came of it, or None when search does not see the version any more."""
        ctx, source, gathered = self._ctx, self._source, self._gathered
        for window, gap in sorted(failed.items()):
            gathered.gaps.append(_gap(window, windows[window], gap.reason))
        ctx.enter("begin")
        async with ctx.write() as tx:
            number = await begin(tx, source, self._config.digest, self._config.llm, ctx.job.id)
        if number is None:
            return None
        async for batch in self._read(windows):
            if not await self._stage(number, batch, windows):
                return None
        return await self._publish(number, len(windows))

    async def _read(self, windows: Sequence[Window]) -> AsyncIterator[list[ReadWindow]]:
        """New facts by window, as many windows at once as make a batch."""
        version, config = self._source.version, self._config
        batch: list[ReadWindow] = []
        for first in range(0, len(windows), WINDOWS_BATCH):
            await self._ctx.progress(first, len(windows), "windows")
            numbers = range(first, min(first + WINDOWS_BATCH, len(windows)))
            answers = await self._repeat(load_answers, version=version, config=config.digest, windows=numbers)
            several = [windows[number] for number in sorted(answers)]
            texts = await self._repeat(read_windows, version=version, windows=several)
            for number, passages in zip(sorted(answers), texts, strict=True):
                reading = await asyncio.to_thread(read_answer, answers[number].answer, passages, config)
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
            batches.append(Batch(window, len(gathered.seen) - len(statements) + first, found, vectors[first:place]))
        ctx.enter("stage")
        async with ctx.write() as tx:
            if not await hold(tx, source, number):
                return False
            refused = await stage(tx, source, number, [each for each in batches if each.facts])
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
        counts = RunCounts(
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
            published = await publish(tx, self._source, number, counts)
        if published:
            for reason, count in gathered.rejected.items():
                rejections.labels(reason).inc(count)
        return told


def _gap(number: int, window: Window, reason: str) -> dict[str, Any]:
    return {"window": number, "page": window[0].page, "reason": reason[:500]}


class ExtractFacts:
    extract_call: Kind
    window_call: Kind

    def __init__(self, app: Penstock, llm: LlmRequests, models: Models) -> None:
        self._app = app
        self._llm = llm
        self._embedding = Embedding(app, models)
        self._models = models
        self._declare()

    def _declare(self) -> None:
        """The kinds and the schedule. They are declared without a model, too: requests then wait for one."""
        job, llms = self._app.job, self._app.settings.llms
        name = self._app.settings.knowledge.llm or (next(iter(llms)) if len(llms) == 1 else "default")
        chosen = llms.get(name)
        self.extract_call = job(
            name="extract", queue=FACTS_QUEUE, timeout="10m", retries=3, max_queue_size=MAX_WAITING
        )(self.extract)
        self.window_call = job(
            name="extract_window",
            queue=LLM_QUEUE,
            timeout=2 * chosen.timeout.total_seconds() + 60 if chosen else "10m",
            retries=chosen.retries if chosen else 10,
            uses={llm_limit(name): 1} if chosen else None,
        )(self.extract_window)
        tidy = job(queue=UPKEEP_QUEUE, timeout="10m", retries=1)(self.tidy_facts)
        self._app.schedule("tidy-facts", "every 1m", tidy(), overlap="skip")

    @property
    def has_model(self) -> bool:
        """Whether `config` can be asked for."""
        try:
            return bool(self.config)
        except NoModel:
            return False

    @property
    def config(self) -> ExtractionConfig:
        """`NoModel` when there is none."""
        return ExtractionConfig.of(self._app.settings, self._llm.choose(self._app.settings.knowledge.llm or None))

    # -- asking for it ------------------------------------------------------------------------------------------------

    async def ask(self, collection: Collection, *, again: bool = False, keep: bool | None = None) -> list[int]:
        """Have all versions read that search sees and that were not, or not wholly; all of them if `again`. Ids of the jobs.

        With `keep`, new versions are read by themselves from now on; without, none is, not even now.
        """
        config, after = self.config.digest, 0
        jobs: list[int] = []
        repeat, fairness_key = self._app.database.pool.repeat, fairness_key_of(collection.tenant, collection.name)
        if keep is not None:
            await repeat(keep_facts, collection=collection.id, keeps=keep)
        if keep is False:
            return jobs
        while rows := await repeat(
            list_wanted, collection=collection.id, config=config, every=again, after=after, most=ENQUEUED
        ):
            after = rows[-1]["document"]
            jobs += await asyncio.gather(
                *(self._enqueue(row["document"], row["version"], fairness_key, again=again) for row in rows)
            )
        return jobs

    async def _enqueue(self, document: int, version: int, fairness_key: str, *, again: bool) -> int:
        call = self.extract_call(document=document, version=version, again=again)
        job = await self._app.enqueue(call, unique=f"extract {version}", fairness_key=fairness_key)
        # A dead one has the key: its failure stays in the history, and another one tries.
        if not job.created and await self._app.discard(job, reason="it was asked for again"):
            job = await self._app.enqueue(call, unique=f"extract {version}", fairness_key=fairness_key)
        return int(job)

    # -- one version --------------------------------------------------------------------------------------------------

    async def extract(self, ctx: Context, document: int, version: int, again: bool = False) -> dict[str, Any] | None:
        """Read one version; what came of it, for the history. None: search does not see it any more."""
        config = self.config
        repeat = self._app.database.pool.repeat
        source = await repeat(find_source, document=document, version=version)
        if source is None:
            await self._forget(ctx, version, config)
            return None

        async def cut(digest: str) -> dict[str, Any]:
            return await self._cut(ctx, source, config.window, digest, again=again)

        found = await ctx.step("cut", cut, config.digest)
        windows = [from_json(window) for window in found["windows"]]
        calls = [
            self.window_call(
                document=document, version=version, config=config.digest, window=number, spans=found["windows"][number]
            )
            for number in found["missing"]
        ]
        # Another configuration is another map: settings may change between two tries.
        results = await ctx.map(f"read-{config.digest[:12]}", calls, limit=AT_ONCE, gaps="allow") if calls else []
        failed = {number: gap for number, gap in zip(found["missing"], results, strict=True) if isinstance(gap, Gap)}
        await self._insist_on(source, failed, len(windows))
        model = self._models.open(source.embedder)
        await RowVectors("facts", source.embedder).prepare(self._app.database, model.dimensions)
        return await FactAssembly(ctx, self._app.database.pool, self._embedding, source, config).run(windows, failed)

    async def _cut(self, ctx: Context, source: FactSource, size: int, digest: str, *, again: bool) -> dict[str, Any]:
        """The places of all windows, and which of them have no answer. Kept, so that each try asks for the same."""
        cutter, after = Cutter(size), 0
        windows: list[Window] = []
        repeat = self._app.database.pool.repeat
        while pages := await repeat(list_pages, version=source.version, after=after, most=PAGES_BATCH):
            after = pages[-1][0]
            windows += await aside(sum(len(text) for _, text in pages), cutter.add, pages)
        windows += cutter.rest()
        if again:
            async with ctx.write() as tx:
                await forget_answers(tx, source.version, digest)
        answered = await repeat(answered_windows, version=source.version, config=digest)
        missing = [number for number in range(len(windows)) if number not in answered]
        return {"windows": [to_json(window) for window in windows], "missing": missing}

    async def _insist_on(self, source: FactSource, failed: dict[int, Gap], total: int) -> None:
        """Windows that failed for transient reasons are not gaps, and present facts are not replaced by fewer."""
        if not failed:
            return
        passing = [gap for gap in failed.values() if gap.cls in NOT_ITS_FAULT]
        standing = await self._app.database.pool.repeat(standing_gaps, source=source)
        worse = len(failed) == total or (standing is not None and standing < len(failed))
        if passing or worse:
            told = "; ".join(f"job {gap.job} {gap.reason}" for gap in list(failed.values())[:3])
            raise ChildFailed(
                f"{len(failed):,} of its {total:,} windows have no answer ({told}): fix the cause and redrive it, and only "
                "these are asked again.",
                children=[gap.job for gap in failed.values()],
            )

    async def _forget(self, ctx: Context, version: int, config: ExtractionConfig) -> None:
        """Discard the answers about a version that was replaced or deleted while it was read."""
        async with ctx.write() as tx:
            await forget_answers(tx, version, config.digest)

    # -- one window ---------------------------------------------------------------------------------------------------

    async def extract_window(
        self, ctx: Context, *, document: int, version: int, config: str, window: int, spans: list[list[int]]
    ) -> None:
        """Ask about one window, and keep the answer with the end of this job."""
        present = self.config
        if present.digest != config:
            raise Permanent("The schema or the model of [knowledge] has changed since: run `penstock extract` again.")
        repeat = self._app.database.pool.repeat
        source = await repeat(find_source, document=document, version=version)
        if source is None:
            return
        [passages] = await repeat(read_windows, version=version, windows=[from_json(spans)])
        text = "\n\n".join(passage.text for passage in passages)
        ctx.enter("ask")
        done = await self._llm.complete(Request(messages(present, text), ANSWER), llm=present.llm)
        ctx.enter("keep")
        async with ctx.finish() as tx:
            answer = Answer(window, done.value, done.tokens_in, done.tokens_out, done.cost)
            await keep_answer(tx, source, config, answer)

    # -- maintenance --------------------------------------------------------------------------------------------------

    async def tidy_facts(self, ctx: Context) -> dict[str, int]:
        """Clean up old extractions, enqueue versions that were not read yet, and build missing indexes."""
        database = self._app.database
        done = {"removed": await sweep_extractions(database), "asked": 0}
        if self.has_model:
            digest = self.config.digest
            rows = await database.pool.repeat(list_unasked, config=digest, most=ENQUEUED)
            for row in rows:
                fairness_key = fairness_key_of(row["tenant"], row["collection"])
                call = self.extract_call(document=row["document"], version=row["version"])
                await self._app.enqueue(call, unique=f"extract {row['version']}", fairness_key=fairness_key)
            done["asked"] = len(rows)
        done["indexes"] = await build_missing_indexes(database)
        return done
