"""A book is read page by page: steps that are not done twice, and children that the whole fleet may run.

    python examples/engine/book.py      in a temporary home unless PENSTOCK_HOME is set

The binder falls ill once. The job is tried again, and goes on where it stopped: nothing is fetched or read a second time.
"""

import asyncio

from penstock import Context, Gap, Penstock, Permanent

app = Penstock()


async def fetch(title: str) -> list[str]:
    print(f"fetching {title}")
    return ["It was a dark", "and stormy night.", "", "The end."]


def bind(pages: list[str], ill: bool) -> str:
    print("binding")
    if ill:
        raise RuntimeError("the binder is ill")
    return " ".join(pages)


@app.job(retries=0)
async def read_page(ctx: Context, number: int, page: str) -> str:
    """A child. It may run in any worker, and is tried and shown like any other job."""
    print(f"reading page {number}")
    if not page:
        raise Permanent(f"page {number} is blank")
    return page.upper()


@app.job(scope="{title}")  # another job about the same title would go on with the same steps
async def read_book(ctx: Context, title: str) -> str:
    pages = await ctx.step("fetch", fetch, title)
    calls = [read_page(number=number, page=page) for number, page in enumerate(pages)]
    read = await ctx.map("pages", calls, limit=2, gaps="allow")  # two at a time; here the job waits without a slot
    words = [page for page in read if not isinstance(page, Gap)]
    return await ctx.step("bind", bind, words, ctx.job.failures == 0)


async def main() -> None:
    async with app:
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(concurrency=10, stop=stop))
        job = await app.enqueue(read_book(title="Paul Clifford"))
        print(await app.result(job, timeout="30s"))
        print((await app.why(job)).sentence)
        stop.set()
        await working


if __name__ == "__main__":
    from temporary_home import temporary_home

    with temporary_home():
        asyncio.run(main())
