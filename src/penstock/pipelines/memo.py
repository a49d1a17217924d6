"""A conversation's way to memos: read → ask what is worth remembering → compare with what is known → ask again → save.

    memo.batch-check   every 30 s: one job for each stream with new messages
    memo.batch         the next messages of one stream; its own successor, while there are more
    memo.remove-stream what a deleted stream leaves behind

A batch has no connection while a model is asked: it waits as a row, and runs again from the top when the answer is there. What
it asks is made of what its steps have kept. One fenced transaction then writes the memos, how far the stream has been read,
and the next job. The key of a batch says where it begins, so that each message is read by one batch, whoever asks for it.
"""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.engine import Context, Kind, Penstock
from penstock.engine.family import cancel_trees
from penstock.engine.queue import Order, enqueue_orders
from penstock.memos.batch import Batch, forget_questions, read_batch
from penstock.memos.batch import sql as batch_sql
from penstock.memos.finding import Finding, read_findings
from penstock.memos.memo import Harvest, Overtaken, nearest_live, save
from penstock.memos.prompt import PAIRS, find_question, find_schema, judge_question, judge_schema
from penstock.memos.streams import BITE, batch_key, mark_deleted, removal_key, share_of_memos, sql
from penstock.memos.verdict import Pair, choose_pairs, read_verdicts
from penstock.models import Models
from penstock.pipelines.completing import Completing
from penstock.pipelines.embedding import Embedding
from penstock.search.likeness import Likeness
from penstock.settings.memos import MemoSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUEUE = "memos"
CHECK = "memo.batch-check"
PAGE = 500  # streams that are looked at, and get their jobs, in one transaction
PAGES = 200  # in one check; the next one goes on with those that still have none


class Remembering:
    """The handlers of memos, with what they need."""

    def __init__(self, app: Penstock, completing: Completing, models: Models) -> None:
        self._app = app
        self._completing = completing
        self._models = models
        self._embedding = Embedding(app, models)
        self._prepared: set[str] = set()
        check = app.job(name=CHECK, queue=QUEUE, timeout="10m", retries=1)(self.check_streams)
        self.batch_call: Kind = app.job(name="memo.batch", queue=QUEUE, timeout="10m", retries=5)(self.make_memos)
        self.removal_call: Kind = app.job(name="memo.remove-stream", queue=QUEUE, timeout="6h", retries=10)(
            self.remove_stream
        )
        app.schedule(CHECK, self._chosen.check_every, check(), overlap="skip")

    @property
    def _chosen(self) -> MemoSettings:
        return self._app.settings.memos

    # -- who has something to do --------------------------------------------------------------------------------------

    async def check_streams(self, ctx: Context) -> int:
        """A job for each stream with messages of which no memos have been made, unless it has one; how many.

        Without a language model this job waits for one, in place of as many as there are streams.
        """
        await self._order_removals(ctx)
        pool, ordered = self._app.database.pool, 0
        since: datetime | None = None
        after = 0
        for _ in range(PAGES):
            rows = await pool.repeat(partial(sql.streams_waiting, since=since, after=after, most=PAGE))
            due = [row for row in rows if not row["ordered"]]
            if due:
                self._completing.choose(self._chosen.llm)
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
        return Order(call, share_of_memos(tenant), unique=batch_key(stream, after))

    # -- one batch ----------------------------------------------------------------------------------------------------

    async def make_memos(self, ctx: Context, stream: int, after: int) -> dict[str, int] | None:
        """Make memos of the next messages of a stream; what was read and found."""
        kept = await ctx.step("read", self._read, stream, after)
        if kept is None:  # deleted, or somebody has been there before
            return None
        batch = Batch.kept(kept)
        findings, rejected = await self._find(ctx, batch) if batch.lines else ([], 0)
        texts = [finding.text for finding in findings]
        vectors = await self._embed(ctx, texts)
        pairs = await self._compare(ctx, stream, texts, vectors) if texts else []
        verdicts = await self._judge(ctx, batch, texts, pairs) if pairs else []
        harvest = Harvest(batch, findings, pairs, verdicts)
        told = {"messages": len(batch.lines), "memos": len(findings), "rejected": rejected}
        await self._save(ctx, harvest, vectors, told)
        return told

    async def _read(self, stream: int, after: int) -> dict[str, Any] | None:
        llm = self._completing.choose(self._chosen.llm)
        async with self._app.database.pool.session() as session:
            return await read_batch(session, stream, after, self._chosen, llm)

    async def _find(self, ctx: Context, batch: Batch) -> tuple[list[Finding], int]:
        call = self._completing.call(find_question(batch), llm=batch.llm, schema=find_schema(batch.kinds))
        [answer] = await ctx.map("find", [call])
        return read_findings(answer["value"], batch)

    async def _embed(self, ctx: Context, texts: list[str]) -> "NDArray[np.float32]":
        """Computed again where that costs nothing; what another server was asked for is kept."""
        import numpy as np

        model = self._models.open(self._chosen.model)
        if not texts:
            return np.zeros((0, model.dimensions), dtype=np.float32)
        if model.name not in self._prepared:
            await Likeness("memos", model.name).prepare(self._app.database, model.dimensions)
            self._prepared.add(model.name)

        async def embed(name: str, texts: list[str]) -> bytes:
            return (await self._embedding.vectors(ctx, name, texts)).astype(np.float32).tobytes()

        raw = await ctx.step("embed", embed, model.name, texts, pure=True)
        return np.frombuffer(raw, dtype=np.float32).reshape(len(texts), model.dimensions)

    async def _compare(self, ctx: Context, stream: int, texts: list[str], vectors: "NDArray[np.float32]") -> list[Pair]:
        """What is so near to something older that the model is asked about it; kept, for the question must stay the same."""
        chosen = self._chosen

        async def compare(texts: list[str]) -> list[Pair]:
            async with self._app.database.pool.session() as session:
                near = await nearest_live(session, Likeness("memos", chosen.model), stream, vectors, chosen.alike)
            return choose_pairs(texts, vectors, near, chosen.alike)

        return [Pair.kept(each) for each in await ctx.step("compare", compare, texts)]

    async def _judge(self, ctx: Context, batch: Batch, texts: list[str], pairs: list[Pair]) -> list[str]:
        """Some pairs in each question, all questions at once."""
        parts = [pairs[start : start + PAIRS] for start in range(0, len(pairs), PAIRS)]
        questions = [judge_question(batch.mark, [(each.text, texts[each.newer]) for each in part]) for part in parts]
        schema = judge_schema()
        calls = [self._completing.call(question, llm=batch.llm, schema=schema) for question in questions]
        answers = await ctx.map("judge", calls)
        return read_verdicts([answer["value"] for answer in answers], [len(part) for part in parts])

    async def _save(self, ctx: Context, harvest: Harvest, vectors: "NDArray[np.float32]", told: dict[str, int]) -> None:
        ctx.enter("save")
        batch = harvest.batch
        likeness = Likeness("memos", self._chosen.model)
        order = self._order(batch.stream, batch.upto, batch.tenant)
        lanes = await self._app.lanes([order.lane])
        try:
            async with ctx.finish(told) as tx:
                last = await save(tx, harvest, vectors, job=ctx.job.id, likeness=likeness)
                if last > batch.upto:
                    await enqueue_orders(tx, lanes, [order])
        except Overtaken:
            async with ctx.finish() as tx:
                await forget_questions(tx, ctx.job.id)

    # -- what is deleted ----------------------------------------------------------------------------------------------

    async def delete_stream(self, name: str, *, tenant: str) -> int:
        """Let nobody see a stream any more, and have it removed; its number."""
        share = share_of_memos(tenant)
        await self._app.lanes(
            [(QUEUE, self.removal_call.name, share)]
        )  # before the transaction: it may have to be made
        async with self._app.database.pool.transaction() as tx:
            number = await mark_deleted(tx, name, tenant=tenant)
            await self._app.enqueue(self.removal_call(stream=number), unique=removal_key(number), share=share, tx=tx)
        return number

    async def _order_removals(self, ctx: Context) -> None:
        """Of streams whose job was cancelled or given up."""
        rows = await self._app.database.pool.repeat(partial(sql.deleted_streams, most=PAGE))
        if rows:
            orders = [
                Order(self.removal_call(stream=row["id"]), share_of_memos(row["tenant"]), unique=removal_key(row["id"]))
                for row in rows
            ]
            await self._put(ctx, orders)

    async def remove_stream(self, ctx: Context, stream: int) -> dict[str, int]:
        """End its batch, and remove memos, then messages, then the stream, in bites."""
        fanouts = await self._end_batch(ctx, stream)
        removed = {"memos": 0, "messages": 0}
        for what, statement in (("memos", sql.remove_memos), ("messages", sql.remove_messages)):
            ctx.enter(f"remove-{what}")
            bite = BITE
            while bite == BITE:
                async with ctx.write() as tx:
                    bite = await statement.value(tx, stream=stream, most=BITE)
                removed[what] += bite
        async with ctx.finish(removed) as tx:
            await batch_sql.forget_questions.run(tx, fanouts=fanouts)  # again, of those that were under way
            await sql.remove_stream.run(tx, stream=stream)
        return removed

    async def _end_batch(self, ctx: Context, stream: int) -> list[int]:
        """Cancel the batch that is under way or dead, and forget what it has asked."""
        async with ctx.write() as tx:
            job = await sql.batch_of.value(tx, stream=stream)
            if job is None:
                return []
            await cancel_trees(tx, [job], "its stream was deleted")
            return await forget_questions(tx, job)
