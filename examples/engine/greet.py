"""Greeting cards: a small program that enqueues jobs, works on them, and prints their results.

python greet.py              everything in one process, in a temporary home unless PENSTOCK_HOME is set
penstock worker greet:app    only the work, in a process of its own, until it is stopped
"""

import asyncio

from penstock import Context, JobDead, Penstock, Permanent

app = Penstock()

TABLES = """
create schema if not exists greetings;
create table if not exists greetings.guests (name text primary key);
create table if not exists greetings.cards (name text primary key, card text not null);
"""


@app.job(timeout="1m", retries=3)
async def greet(ctx: Context, name: str) -> str:
    """Slow work first, without a connection; then one short transaction."""
    if not name.isprintable():
        raise Permanent(f"{name!r} cannot be printed on a card")
    await asyncio.sleep(0.1)  # in place of a model, a printer, another service
    card = f"Good morning, {name}!"
    async with ctx.finish(result=card) as tx:  # the fence, this write, and "done": one commit
        await tx.execute("insert into greetings.cards values ($1, $2)", name, card)
    return card


async def main() -> None:
    async with app:
        async with app.transaction() as tx:
            await tx.execute(TABLES)
            await tx.execute("truncate greetings.guests, greetings.cards")
        async with app.transaction() as tx:  # the guest and the job: both, or neither
            await tx.execute("insert into greetings.guests values ('Ada')")
            ada = await app.enqueue(greet(name="Ada"), unique="greet Ada", tx=tx)
        again = await app.enqueue(greet(name="Ada"), unique="greet Ada")
        print("the same job:", again == ada, "created:", again.created)
        others = await app.enqueue_many([greet(name=name) for name in ("Grace", "Edsger", "a\nb")])

        stop = asyncio.Event()
        working = asyncio.create_task(app.work(concurrency=10, stop=stop))
        for job in (ada, *others):
            try:
                print(await app.result(job, timeout="30s"))
            except JobDead as error:
                print(error)
        stop.set()
        await working


if __name__ == "__main__":
    from temporary_home import temporary_home

    with temporary_home():
        asyncio.run(main())
