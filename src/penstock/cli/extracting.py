"""Follows `penstock extract` until all is read, works on it if nobody does, and tells what is waited for."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console

from penstock.cli.working import worker_for
from penstock.database import statements
from penstock.documents import Collection, watch_changes
from penstock.engine.wording import counted
from penstock.knowledge.extraction import Status, show_status
from penstock.pipelines import Product

sql = statements(__file__)

LOOK_EVERY = 0.5  # seconds
TELL_AFTER = 5.0  # seconds without progress after which it is told what is waited for


async def follow(product: Product, collection: Collection, jobs: Sequence[int], *, as_json: bool) -> None:
    """Until none of the jobs is alive."""
    told = ""
    left, moved = len(jobs), time.monotonic()
    with _line(as_json=as_json) as show:
        async with worker_for(product, "extract"), watch_changes(product.app.database) as changed:
            while left:
                if (now := await _count(product, jobs)) < left:
                    left, moved = now, time.monotonic()
                show(tell(await look(product, collection)))
                if left and time.monotonic() - moved > TELL_AFTER:
                    reason, moved = await _why(product, jobs), time.monotonic()
                    if reason.partition(",")[0] != told.partition(",")[0]:
                        typer.echo(reason, err=True)
                        told = reason
                if left:
                    await changed.wait(LOOK_EVERY)


async def look(product: Product, collection: Collection) -> Status:
    digest = product.extracting.plan.digest
    return await product.app.database.pool.repeat(lambda session: show_status(session, collection, digest))


def tell(status: Status) -> str:
    partial = f", {status.partial} with gaps" if status.partial else ""
    cost = f", cost {status.cost:.4f}" if status.cost else ""
    return (
        f"{status.extracted} of {counted(status.documents, 'document')} read{partial}: {counted(status.facts, 'fact')} from "
        f"{counted(status.windows, 'window')}, {status.rejected} rejected{cost}."
    )


async def _count(product: Product, jobs: Sequence[int]) -> int:
    return int(await product.app.database.pool.repeat(lambda session: sql.count_alive.value(session, jobs=list(jobs))))


async def count_dead(product: Product, jobs: Sequence[int]) -> int:
    return int(await product.app.database.pool.repeat(lambda session: sql.count_dead.value(session, jobs=list(jobs))))


async def _why(product: Product, jobs: Sequence[int]) -> str:
    """Of a part that has no answer yet, or of a version that nobody has begun with."""
    job = await product.app.database.pool.repeat(lambda session: sql.oldest_alive.value(session, jobs=list(jobs)))
    return (await product.app.why(job)).sentence if job is not None else ""


@contextmanager
def _line(*, as_json: bool) -> Iterator[Callable[[str], None]]:
    """On a terminal only."""
    if not sys.stderr.isatty() or as_json:
        yield lambda _: None
        return
    with Console(stderr=True, highlight=False).status("reading …") as shown:
        yield shown.update
