"""Vectors for what a job writes: by any model, with permits for remote ones.

A collection that is about to change its model wants the vectors of the next one, too. That one may be away, or not installed
here: it must not keep a document from becoming ready by the present one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.engine import Context, Penstock
from penstock.errors import CannotStart, JobFailure
from penstock.models import Models
from penstock.search import prepare_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TROUBLE = (JobFailure, CannotStart, TimeoutError)  # of a model: away, wrong, not installed


class Embedding:
    def __init__(self, app: Penstock, models: Models) -> None:
        self._app = app
        self._models = models

    def is_remote(self, name: str) -> bool:
        return name in self._app.settings.models

    async def prepare(self, name: str) -> None:
        """Make the tables of a model, unless they are there."""
        model = self._models.open(name)
        await prepare_model(self._app.database, model.name, model.dimensions)

    async def vectors(self, ctx: Context, name: str, texts: Sequence[str]) -> "NDArray[np.float32]":
        """A remote model has permits, and a breaker for when it is away; one of this process needs neither."""
        model = self._models.open(name)
        if not self.is_remote(name):
            return await model.embed(texts)
        async with ctx.limit(model_limit(name)):
            return await model.embed(texts)

    async def is_usable(self, ctx: Context, name: str) -> bool:
        """Whether vectors by a next model can be staged here."""
        try:
            await self.prepare(name)
        except TROUBLE as error:
            ctx.log.info("the next model is left to its job", model=name, error=str(error))
            return False
        return True

    async def vectors_if_possible(self, ctx: Context, name: str, texts: Sequence[str]) -> "NDArray[np.float32] | None":
        """None when the model does not give them now."""
        try:
            return await self.vectors(ctx, name, texts)
        except TROUBLE as error:
            ctx.log.info("the next model is left to its job", model=name, error=str(error))
            return None


def model_limit(name: str) -> str:
    return f"model-{name}"
