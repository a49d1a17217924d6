"""A command as the worker of what it waits for, when no other one would do it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import typer

from penstock.cli.watching import sql
from penstock.pipelines import Product


@asynccontextmanager
async def worker_for(product: Product, kind: str) -> AsyncIterator[None]:
    """This process, when no other one would do jobs of this kind."""
    if await product.app.database.pool.repeat(lambda session: sql.is_served.value(session, kind=kind)):
        yield
        return
    typer.echo("No worker is running: working here until it is done.", err=True)
    working = asyncio.create_task(product.app.work(concurrency=product.slots), name="work here")
    try:
        yield
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
