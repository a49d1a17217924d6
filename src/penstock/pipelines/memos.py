"""The memo pipeline: read → ask what is worth remembering → compare with known memos → ask how they relate → save.

    memo.batch-check   every 30 s: one job for each stream with new messages
    memo.batch         the next messages of one stream; its own successor, while there are more
    memo.remove-stream what a deleted stream leaves behind

A batch has no connection while a model is asked: it waits as a row, and runs again from the top when the answer is there. Its
questions are made of what its steps have kept. One fenced transaction then writes the memos, how far the stream has been
read, and the next job. The unique key of a batch says where it begins, so that each message is read by one batch.
"""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock import memos
from penstock.engine import Context, Kind, Order, Penstock, cancel_trees, enqueue_orders
from penstock.models import Models
from penstock.pipelines.embedding import Embedding
from penstock.pipelines.llm import LlmRequests
from penstock.search import RowVectors
from penstock.settings import MemoSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MEMOS_QUEUE = "memos"
CHECK = "memo.batch-check"
PAGE = 500  # streams that are read, and get their jobs, in one transaction
PAGES = 200  # in one check; the next one goes on with those that still have none
CHECK_ANSWERS_EVERY = 0.2  # seconds


class MakeMemos:
    def __init__(self, app: Penstock, llm: LlmRequests, models: Models) -> None:
        self._app = app
        self._llm = llm
        self._models = models
        self._embedding = Embedding(app, models)
        self._prepared: set[str] = set()
        check = app.job(name=CHECK, queue=MEMOS_QUEUE, timeout="10m", retries=1)(self.check_streams)
        self.batch_call: Kind = app.job(name="memo.batch", queue=MEMOS_QUEUE, timeout="10m", retries=5)(self.make_memos)
        self.removal_call: Kind = app.job(
            name="memo.remove-stream", queue=MEMOS_QUEUE, timeout="6h", retries=10, scope="memo {stream} removal"
        )(self.remove_stream)
        app.schedule(CHECK, self._chosen.check_every, check(), overlap="skip")

    @property
    def _chosen(self) -> MemoSettings:
        return self._app.settings.memos

    # -- the schedule ---------------------------------------------------------------------------------------------------

    async def check_streams(self, ctx: Context) -> int:
        """A job for each stream with messages of which no memos have been made, unless it has one; how many.

        Without a language model this job waits for one, in place of as many as there are streams.
        """
        await self._order_removals(ctx)
        pool, ordered = self._app.database.pool, 0
        since: datetime | None = None
        after = 0
        for _ in range(PAGES):
            rows = await pool.repeat(memos.streams_waiting, since=since, after=after, most=PAGE)
            due = [row for row in rows if not row["ordered"]]
            if due:
                self._llm.choose(self._chosen.llm)
                orders = [self._order(row["id"], row["done"], row["tenant"]) for row in due]
                ordered += await self._put(ctx, orders)
            if len(rows) < PAGE:
                break
            since, after = rows[-1]["waits_since"], rows[-1]["id"]
        return ordered

    async def _put(self, ctx: Context, orders: list[Order]) -> int:
        """One job for each key, under the fence; how many are new."""
        lanes = await self._app.lanes(order.lane for order in orders)
        async with ctx.write() as tx:
            return sum(number.created for number in await enqueue_orders(tx, lanes, orders))

    def _order(self, stream: int, after: int, tenant: str) -> Order:
        call = self.batch_call(stream=stream, after=after)
        return Order(call, memos.fairness_key_of_memos(tenant), unique=memos.batch_key(stream, after))

    # -- one batch ----------------------------------------------------------------------------------------------------

    async def make_memos(self, ctx: Context, stream: int, after: int) -> dict[str, int] | None:
        """Make memos of the next messages of a stream; what was read and found."""
        kept = await ctx.step("read", self._read, stream, after)
        if kept is None:  # deleted, or another job has handled the batch
            return None
        batch = memos.MessageBatch.kept(kept)
        candidates, rejected = await self._find(ctx, batch) if batch.lines else ([], 0)
        texts = [candidate.text for candidate in candidates]
        vectors = await self._embed(ctx, texts)
        pairs = await self._compare(ctx, stream, texts, vectors) if texts else []
        verdicts = await self._judge(ctx, batch, texts, pairs) if pairs else []
        answer = memos.BatchAnswer(batch, candidates, pairs, verdicts)
        told = {"messages": len(batch.lines), "memos": len(candidates), "rejected": rejected}
        await self._save(ctx, answer, vectors, told)
        return told

    async def _read(self, stream: int, after: int) -> dict[str, Any] | None:
        llm = self._llm.choose(self._chosen.llm)
        async with self._app.database.pool.session() as session:
            return await memos.read_batch(session, stream, after, self._chosen, llm)

    async def _find(self, ctx: Context, batch: memos.MessageBatch) -> tuple[list[memos.Candidate], int]:
        call = self._llm.call(memos.find_question(batch), llm=batch.llm, schema=memos.find_schema(batch.kinds))
        [answer] = await ctx.map("find", [call])
        return memos.read_candidates(answer["value"], batch)

    async def _embed(self, ctx: Context, texts: list[str]) -> "NDArray[np.float32]":
        """Local vectors are computed again; those of a remote model are kept as a step."""
        import numpy as np

        model = self._models.open(self._chosen.model)
        if not texts:
            return np.zeros((0, model.dimensions), dtype=np.float32)
        if model.name not in self._prepared:
            await RowVectors("memos", model.name).prepare(self._app.database, model.dimensions)
            self._prepared.add(model.name)

        async def embed(name: str, texts: list[str]) -> bytes:
            return (await self._embedding.vectors(ctx, name, texts)).astype(np.float32).tobytes()

        raw = await ctx.step("embed", embed, model.name, texts, pure=True)
        return np.frombuffer(raw, dtype=np.float32).reshape(len(texts), model.dimensions)

    async def _compare(
        self, ctx: Context, stream: int, texts: list[str], vectors: "NDArray[np.float32]"
    ) -> list[memos.Pair]:
        """Pairs of similar memos about which the model is asked; kept, because the question must stay the same."""
        chosen = self._chosen

        async def compare(texts: list[str]) -> list[memos.Pair]:
            async with self._app.database.pool.session() as session:
                near = await memos.nearest_live(
                    session, RowVectors("memos", chosen.model), stream, vectors, chosen.alike
                )
            return memos.choose_pairs(texts, vectors, near, chosen.alike)

        return [memos.Pair.kept(each) for each in await ctx.step("compare", compare, texts)]

    async def _judge(
        self, ctx: Context, batch: memos.MessageBatch, texts: list[str], pairs: list[memos.Pair]
    ) -> list[str]:
        """Some pairs in each question, all questions at once."""
        parts = [pairs[start : start + memos.PAIRS] for start in range(0, len(pairs), memos.PAIRS)]
        questions = [
            memos.judge_question(batch.mark, [(each.text, texts[each.newer]) for each in part]) for part in parts
        ]
        schema = memos.judge_schema()
        calls = [self._llm.call(question, llm=batch.llm, schema=schema) for question in questions]
        answers = await ctx.map("judge", calls)
        return memos.read_verdicts([answer["value"] for answer in answers], [len(part) for part in parts])

    async def _save(
        self, ctx: Context, answer: memos.BatchAnswer, vectors: "NDArray[np.float32]", told: dict[str, int]
    ) -> None:
        ctx.enter("save")
        batch = answer.batch
        row_vectors = RowVectors("memos", self._chosen.model)
        order = self._order(batch.stream, batch.upto, batch.tenant)
        lanes = await self._app.lanes([order.lane])
        try:
            async with ctx.finish(told) as tx:
                last = await memos.save(tx, answer, vectors, job=ctx.job.id, row_vectors=row_vectors)
                if last > batch.upto:
                    await enqueue_orders(tx, lanes, [order])
        except memos.BatchOvertaken:
            async with ctx.finish() as tx:
                await memos.forget_questions(tx, ctx.job.id)

    # -- deletion -----------------------------------------------------------------------------------------------------

    async def delete_stream(self, name: str, *, tenant: str) -> int:
        """Hide a stream and enqueue its removal; its id."""
        fairness_key = memos.fairness_key_of_memos(tenant)
        lane = (MEMOS_QUEUE, self.removal_call.name, fairness_key)
        await self._app.lanes([lane])  # before the transaction: it may have to be made
        async with self._app.database.pool.transaction() as tx:
            number = await memos.mark_deleted(tx, name, tenant=tenant)
            await self._app.enqueue(
                self.removal_call(stream=number), unique=memos.removal_key(number), fairness_key=fairness_key, tx=tx
            )
        return number

    async def _order_removals(self, ctx: Context) -> None:
        """Enqueue the removal of streams whose job was cancelled or discarded."""
        rows = await self._app.database.pool.repeat(memos.deleted_streams, most=PAGE)
        if rows:
            orders = [
                Order(
                    self.removal_call(stream=row["id"]),
                    memos.fairness_key_of_memos(row["tenant"]),
                    unique=memos.removal_key(row["id"]),
                )
                for row in rows
            ]
            await self._put(ctx, orders)

    async def remove_stream(self, ctx: Context, stream: int) -> dict[str, int]:
        """End its batch, then remove memos, messages and the stream, in batches.

        A question that is under way ends with the next heartbeat of its worker, or with an answer, which the history of jobs
        keeps: the removal ends after all of them.
        """

        async def end_batch() -> list[int]:
            return await self._end_batch(ctx, stream)

        fanouts: list[int] = await ctx.step(
            "end-batch", end_batch
        )  # kept: nothing leads to them when the batch is over
        removed = {"memos": 0, "messages": 0}
        for what, remove in (("memos", memos.remove_memos), ("messages", memos.remove_messages)):
            ctx.enter(f"remove-{what}")
            count = memos.BATCH
            while count == memos.BATCH:
                async with ctx.write() as tx:
                    count = await remove(tx, stream)
                removed[what] += count
        ctx.enter("await-answers")
        repeat = self._app.database.pool.repeat
        while await repeat(memos.is_asking, fanouts=fanouts):  # noqa: ASYNC110  it is in the database
            await asyncio.sleep(CHECK_ANSWERS_EVERY)
        async with ctx.finish(removed) as tx:
            await memos.forget_answers(tx, fanouts)
            await memos.remove_stream(tx, stream)
        return removed

    async def _end_batch(self, ctx: Context, stream: int) -> list[int]:
        """Cancel the batch that is under way or dead, and forget what it has asked."""
        async with ctx.write() as tx:
            job = await memos.batch_of(tx, stream)
            if job is None:
                return []
            await cancel_trees(tx, [job], "its stream was deleted")
            return await memos.forget_questions(tx, job)
