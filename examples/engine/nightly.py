"""Schedules: one declared in code, one added while the program runs. It ends by itself after three ticks.

python nightly.py             several at the same time still make one job for each tick
penstock schedules list       what is declared, when it comes next, and how often it was fired
"""

import asyncio

from penstock import Context, Penstock

app = Penstock()
ticks: asyncio.Queue[str] = asyncio.Queue()


@app.job(timeout="10m")
async def back_up(ctx: Context, folder: str) -> None:
    """In place of work that takes long."""
    ticks.put_nowait(f"{folder}, for {ctx.job.unique_key}")


# Every night at two in Berlin. If no worker runs at two, once as soon as one does; never two at the same time.
app.schedule("nightly", "0 2 * * *", back_up(folder="/srv"), timezone="Europe/Berlin", missed="one", overlap="skip")


async def main() -> None:
    async with app:
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(concurrency=10, stop=stop))
        await app.add_schedule("often", "every 1s", back_up(folder="/home"), missed="skip")
        for _ in range(3):
            print("backed up", await ticks.get())
        print("removed:", await app.remove_schedule("often"))
        stop.set()
        await working


if __name__ == "__main__":
    from temporary_home import temporary_home

    with temporary_home():
        asyncio.run(main())
