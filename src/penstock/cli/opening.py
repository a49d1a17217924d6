"""As `asking`, for the commands that need more than the database: the blob store, the models, the product's kinds of jobs.

Imported where it is used: what it brings along takes a while to load.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.pipelines import Product
from penstock.settings import LogSettings
from penstock.telemetry import configure_logging

T = TypeVar("T")


def ask_product(question: Callable[[Product], Awaitable[T]]) -> T:
    """Open the product with few connections, ask, close."""
    configure_logging(LogSettings(level="error"))  # warnings are for who runs it for long

    async def main() -> T:
        async with Product(role="cli", pool__size=2, pool__step=2) as product:
            return await question(product)

    return asyncio.run(main())
