"""A worker of the product that one document kills: `python -m tests.scenarios.crashing_worker`."""

import os
import signal
from dataclasses import replace
from typing import Any

from penstock.cli import server
from penstock.documents import load_work
from penstock.product import Product


class Poisoned(Product):
    """Dies of every document whose name says so, as a bug in a library would make it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        kind = self.app.kinds["prepare_document"]

        async def prepare(ctx: Any, document: int, version: int) -> None:
            work = await self.app.database.pool.repeat(load_work, document, version)
            if work is not None and "poison" in work.name:
                os.kill(os.getpid(), signal.SIGKILL)
            await kind.handler(ctx, document=document, version=version)

        self.app.kinds["prepare_document"] = replace(kind, handler=prepare)


if __name__ == "__main__":
    import penstock.product

    penstock.product.Product = Poisoned  # type: ignore[misc]
    server.worker(sources="none")
