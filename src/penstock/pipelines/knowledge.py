"""A version's way to facts: cut → asked, window by window → checked against the text → embedded → staged → current.

    extract ── map ─▶ extract_window, one for each window without an answer; each keeps its answer with its own end
        └── when the last one is over: answers are read, facts staged in fenced batches, and made current with the job's end

Windows are asked about by jobs whose arguments are places and not text: so a document's text is in no job, every answer is kept
the moment it is there, and the random word of the prompt may differ from try to try. No connection is held while a model is
asked. A window whose answer is of no use is a gap; one that failed for reasons that may pass makes the job dead, and who
redrives it has only that window asked about again.
"""

import asyncio
from functools import partial
from typing import Any

from penstock.documents import Collection
from penstock.documents.naming import share_of
from penstock.engine import Context, Gap, Kind, Penstock
from penstock.errors import ChildFailed, NoModel, Permanent
from penstock.knowledge import extraction
from penstock.knowledge.extraction import Answer, Source
from penstock.knowledge.plan import ANSWER, Plan
from penstock.knowledge.prompt import messages
from penstock.knowledge.windows import Cutter, Window, from_json, to_json
from penstock.models import Models
from penstock.models.complete import Request
from penstock.pipelines.assembly import Assembly
from penstock.pipelines.completing import QUEUE as LLM_QUEUE
from penstock.pipelines.completing import Completing, llm_limit
from penstock.pipelines.document import aside
from penstock.pipelines.embedding import Embedding
from penstock.search.likeness import Likeness, build_missing_indexes

QUEUE = "knowledge"
UPKEEP_QUEUE = "upkeep"
SLOTS = 8  # of a worker: a job that waits for its windows has none
DEPTH = 100_000  # versions of one collection that may wait
AT_ONCE = 32  # windows of one version that are asked at the same time
PAGES_BATCH = 2_000_000  # characters of pages that are cut together
ENQUEUED = 500  # in one page
NOT_ITS_FAULT = ("Transient", "ResourceLimit", "Poison")  # error classes of a window that a later try may answer


class Extracting:
    """The handlers of facts, with what they share."""

    extract_call: Kind
    window_call: Kind

    def __init__(self, app: Penstock, completing: Completing, models: Models) -> None:
        self._app = app
        self._completing = completing
        self._embedding = Embedding(app, models)
        self._models = models
        self._declare()

    def _declare(self) -> None:
        """The kinds and the schedule. Without a model they are there, too: what was asked for waits, and says for what."""
        job, llms = self._app.job, self._app.settings.llms
        name = self._app.settings.knowledge.llm or (next(iter(llms)) if len(llms) == 1 else "default")
        chosen = llms.get(name)
        self.extract_call = job(name="extract", queue=QUEUE, timeout="10m", retries=3, depth=DEPTH)(self.extract)
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
        """Whether `plan` can be asked for."""
        try:
            return bool(self.plan)
        except NoModel:
            return False

    @property
    def plan(self) -> Plan:
        """`NoModel` when there is none."""
        return Plan.of(self._app.settings, self._completing.choose(self._app.settings.knowledge.llm or None))

    # -- asking for it ------------------------------------------------------------------------------------------------

    async def ask(self, collection: Collection, *, again: bool = False, keep: bool | None = None) -> list[int]:
        """Have all versions read that search sees and that were not, or not wholly; all of them if `again`. Numbers of jobs.

        With `keep`, new versions are read by themselves from now on; without, none is, not even now.
        """
        plan, after = self.plan.digest, 0
        jobs: list[int] = []
        repeat, share = self._app.database.pool.repeat, share_of(collection.tenant, collection.name)
        if keep is not None:
            await repeat(partial(extraction.keep_facts, collection=collection.id, keeps=keep))
        if keep is False:
            return jobs
        while rows := await repeat(
            partial(
                extraction.list_wanted, collection=collection.id, plan=plan, every=again, after=after, most=ENQUEUED
            )
        ):
            after = rows[-1]["document"]
            jobs += await asyncio.gather(
                *(self._enqueue(row["document"], row["version"], share, again=again) for row in rows)
            )
        return jobs

    async def _enqueue(self, document: int, version: int, share: str, *, again: bool) -> int:
        call = self.extract_call(document=document, version=version, again=again)
        job = await self._app.enqueue(call, unique=f"extract {version}", share=share)
        # A dead one has the key: its failure stays in the history, and another one tries.
        if not job.created and await self._app.discard(job, reason="it was asked for again"):
            job = await self._app.enqueue(call, unique=f"extract {version}", share=share)
        return int(job)

    # -- one version --------------------------------------------------------------------------------------------------

    async def extract(self, ctx: Context, document: int, version: int, again: bool = False) -> dict[str, Any] | None:
        """Read one version; what came of it, for the history. None: search does not see it any more."""
        plan = self.plan
        repeat = self._app.database.pool.repeat
        source = await repeat(partial(extraction.find_source, document=document, version=version))
        if source is None:
            await self._forget(ctx, version, plan)
            return None

        async def cut(digest: str) -> dict[str, Any]:
            return await self._cut(ctx, source, plan.window, digest, again=again)

        found = await ctx.step("cut", cut, plan.digest)
        windows = [from_json(window) for window in found["windows"]]
        calls = [
            self.window_call(
                document=document, version=version, plan=plan.digest, window=number, spans=found["windows"][number]
            )
            for number in found["missing"]
        ]
        # Another plan is another map: settings may change between two tries.
        results = await ctx.map(f"read-{plan.digest[:12]}", calls, limit=AT_ONCE, gaps="allow") if calls else []
        failed = {number: gap for number, gap in zip(found["missing"], results, strict=True) if isinstance(gap, Gap)}
        await self._insist_on(source, failed, len(windows))
        model = self._models.open(source.embedder)
        await Likeness("facts", source.embedder).prepare(self._app.database, model.dimensions)
        return await Assembly(ctx, self._app.database.pool, self._embedding, source, plan).run(windows, failed)

    async def _cut(self, ctx: Context, source: Source, size: int, digest: str, *, again: bool) -> dict[str, Any]:
        """The places of all windows, and which of them have no answer. Kept, so that each try asks for the same."""
        cutter, after = Cutter(size), 0
        windows: list[Window] = []
        repeat = self._app.database.pool.repeat
        while pages := await repeat(
            partial(extraction.list_pages, version=source.version, after=after, most=PAGES_BATCH)
        ):
            after = pages[-1][0]
            windows += await aside(sum(len(text) for _, text in pages), cutter.add, pages)
        windows += cutter.rest()
        if again:
            async with ctx.write() as tx:
                await extraction.forget_answers(tx, source.version, digest)
        answered = await repeat(partial(extraction.answered_windows, version=source.version, plan=digest))
        missing = [number for number in range(len(windows)) if number not in answered]
        return {"windows": [to_json(window) for window in windows], "missing": missing}

    async def _insist_on(self, source: Source, failed: dict[int, Gap], total: int) -> None:
        """What only the model's server kept from us is no gap; and what is there is not replaced by less."""
        if not failed:
            return
        passing = [gap for gap in failed.values() if gap.cls in NOT_ITS_FAULT]
        standing = await self._app.database.pool.repeat(partial(extraction.standing_gaps, source=source))
        worse = len(failed) == total or (standing is not None and standing < len(failed))
        if passing or worse:
            told = "; ".join(f"job {gap.job} {gap.reason}" for gap in list(failed.values())[:3])
            raise ChildFailed(
                f"{len(failed):,} of its {total:,} windows have no answer ({told}): mend the cause and redrive it, and only "
                "these are asked again.",
                children=[gap.job for gap in failed.values()],
            )

    async def _forget(self, ctx: Context, version: int, plan: Plan) -> None:
        """A version that was replaced or deleted while it was read: its answers are for nobody."""
        async with ctx.write() as tx:
            await extraction.forget_answers(tx, version, plan.digest)

    # -- one window ---------------------------------------------------------------------------------------------------

    async def extract_window(
        self, ctx: Context, *, document: int, version: int, plan: str, window: int, spans: list[list[int]]
    ) -> None:
        """Ask about one window, and keep the answer with the end of this job."""
        present = self.plan
        if present.digest != plan:
            raise Permanent("The schema or the model of [knowledge] has changed since: run `penstock extract` again.")
        repeat = self._app.database.pool.repeat
        source = await repeat(partial(extraction.find_source, document=document, version=version))
        if source is None:
            return
        [passages] = await repeat(partial(extraction.read_windows, version=version, windows=[from_json(spans)]))
        text = "\n\n".join(passage.text for passage in passages)
        ctx.enter("ask")
        done = await self._completing.complete(Request(messages(present, text), ANSWER), llm=present.llm)
        ctx.enter("keep")
        async with ctx.finish() as tx:
            answer = Answer(window, done.value, done.tokens_in, done.tokens_out, done.cost)
            await extraction.keep_answer(tx, source, plan, answer)

    # -- upkeep -------------------------------------------------------------------------------------------------------

    async def tidy_facts(self, ctx: Context) -> dict[str, int]:
        """What old extractions have left, versions that nobody has asked for and that shall be read, and missing indexes."""
        database = self._app.database
        done = {"removed": await extraction.sweep_extractions(database), "asked": 0}
        if self.has_model:
            digest = self.plan.digest
            rows = await database.pool.repeat(partial(extraction.list_unasked, plan=digest, most=ENQUEUED))
            for row in rows:
                share = share_of(row["tenant"], row["collection"])
                call = self.extract_call(document=row["document"], version=row["version"])
                await self._app.enqueue(call, unique=f"extract {row['version']}", share=share)
            done["asked"] = len(rows)
        done["indexes"] = await build_missing_indexes(database)
        return done
