"""`penstock collections set --wait` and `penstock reindex`: follow a collection until it has its next model or index.

Whoever follows works on it, if nobody else does.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from penstock.cli.working import worker_for
from penstock.documents import Collection, find_collection, watch_changes
from penstock.documents.reembedding import REEMBED
from penstock.documents.reindexing import REINDEX
from penstock.pipelines import Product

LOOK_EVERY = 0.5  # seconds, without a notification


async def follow(product: Product, collection: Collection, *, as_json: bool) -> Collection:
    """The collection at the end: as it shall be, or with the reason why it does not go on."""
    with _bar(as_json=as_json) as show:
        async with (
            worker_for(product, REINDEX if collection.next_index else REEMBED),
            watch_changes(product.app.database) as changed,
        ):
            while True:
                found = await find_collection(product.app, collection.name, tenant=collection.tenant)
                show(found)
                if found.is_stuck or (found.next_model is None and found.next_index is None):
                    return found
                await changed.wait(LOOK_EVERY)


@contextmanager
def _bar(*, as_json: bool) -> Iterator[Callable[[Collection], None]]:
    """On a terminal only."""
    if not sys.stderr.isatty() or as_json:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} of {task.total:,} chunks"))
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task("embedding", total=1)

        def show(found: Collection) -> None:
            if found.next_model is not None:
                progress.update(task, completed=found.reembedded or 0, total=max(found.to_reembed or 0, 1))
            elif found.next_index is not None:
                done, total = found.reindexed or 0, max(found.to_reindex or 0, 1)
                progress.update(task, description="indexing", completed=done, total=total)

        yield show
