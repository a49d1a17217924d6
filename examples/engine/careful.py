"""A limit: questions for a pretend model that can handle four at once, refuses the others as real ones do, and goes away once.

python careful.py             ends by itself after some seconds
penstock limits list          who has how many permits, and whether the breaker is open
"""

import asyncio

from penstock import Context, Penstock, RateLimited

app = Penstock()
app.limit("model", 8, rest="2s", breaker_after=3)  # what was promised; the worker finds out how many it can handle


class Model:
    """Handles four calls at once, and none while it is away."""

    def __init__(self) -> None:
        self.inside = self.most = self.refused = self.failed = 0
        self.back = asyncio.Event()

    async def answer(self, question: int) -> int:
        if not self.back.is_set():
            self.failed += 1
            raise ConnectionError("the model is away")
        if self.inside >= 4:
            self.refused += 1
            raise RateLimited("429 Too Many Requests", retry_after=0.2)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.1)
        self.inside -= 1
        return question * question


model = Model()


@app.job()
async def ask(ctx: Context, question: int) -> int:
    """One call, one permit, for which it waits without a connection. How the block ends shows how the model is."""
    async with ctx.limit("model"):
        return await model.answer(question)


@app.job(uses={"model": 1})
async def ask_only(ctx: Context, question: int) -> int:
    """A permit for the whole job: without one it is not even claimed."""
    return await model.answer(question)


async def main() -> None:
    async with app:
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(concurrency=20, stop=stop))
        model.back.set()
        jobs = await app.enqueue_many([ask(question=question) for question in range(40)])
        answers = [await app.result(job, timeout="30s") for job in jobs]
        print("answers:", answers[:5], "…", answers[-1])
        print("at most", model.most, "at once;", model.refused, "were refused and came again")

        model.back.clear()
        asyncio.get_running_loop().call_later(1, model.back.set)
        jobs = await app.enqueue_many([ask_only(question=question) for question in range(40)])
        answers = [await app.result(job, timeout="30s") for job in jobs]
        print("away for a second:", model.failed, "calls failed, then its breaker was open; answers:", len(answers))
        stop.set()
        await working


if __name__ == "__main__":
    from temporary_home import temporary_home

    with temporary_home():
        asyncio.run(main())
