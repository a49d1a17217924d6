"""The sources of one worker: each in a task of its own, restarted after trouble, and the job that reports outcomes to them.

    sources = Sources(product, ["orders"])      # before the worker starts: it declares a kind of job
    async with sources:                         # they run next to the worker
        await worker.run(stop)

There is no leader: every worker that is started with sources runs all of them. Reporting is a job, so that a source that is
down holds up nothing else.
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from types import TracebackType
from typing import Self

from penstock.documents import Inbox, list_unreported, note_reported
from penstock.engine import Context
from penstock.errors import BadSetting, PenstockError, RateLimited, Transient
from penstock.product import Product
from penstock.sources.source import MessageOutcome, Source, SourceCheck, SourceContext, Trouble
from penstock.telemetry import log, mask

MODULES = {
    "table": "penstock.sources.table",
    "folder": "penstock.sources.folder",
    "bucket": "penstock.sources.bucket",
    "rabbitmq": "penstock.sources.rabbitmq",
    "servicebus": "penstock.sources.servicebus",
}  # each with a function open_source(context); what a type needs is imported with the first of it
FIRST_REST, LONGEST_REST = 1.0, 60.0  # seconds after trouble
TOLD_AT_ONCE = 500
QUEUE = "upkeep"
CHECKED_WITHIN = 30.0  # seconds for the answer to a check


class Sources:
    """Use it as an async context manager; `names` are those to run, all of the settings if there are none."""

    def __init__(self, product: Product, names: Iterable[str] | None = None) -> None:
        self._product = product
        self._app = product.app
        chosen = product.settings.sources
        wanted = list(chosen if names is None else names)
        for name in wanted:
            if name not in chosen:
                known = ", ".join(sorted(chosen)) or "none"
                raise BadSetting(f"Source {name} is not in the settings. Configured sources: {known}.")
        self.names = [name for name in wanted if chosen[name].type in MODULES]  # a webhook is served by the API
        self._inbox: Inbox = product.inbox
        self._open: dict[str, Source] = {}
        self._tasks: list[asyncio.Task[None]] = []
        for name in self.names:
            if chosen[name].tells:  # a kind for each: another worker may not have this source
                tell = self._app.job(name=f"tell_source.{name}", queue=QUEUE, timeout="10m", retries=10)(
                    self.tell_source
                )
                self._app.schedule(f"tell-{name}", "every 5s", tell(source=name), overlap="skip")

    async def __aenter__(self) -> Self:
        for name in self.names:
            self._tasks.append(asyncio.create_task(self._keep_running(name), name=f"source {name}"))
        if self._product.trigger is not None:
            self._tasks.append(asyncio.create_task(self._product.trigger.listen(), name="bus"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with AsyncExitStack() as closing:
            for source in self._open.values():
                closing.push_async_callback(source.close)
        self._open.clear()

    def open(self, name: str) -> Source:
        """The source of a name, opened with its first use."""
        if name not in self._open:
            context = SourceContext(
                name, self._product.settings.sources[name], self._product.settings, self._inbox, self._product.store
            )
            make: Callable[[SourceContext], Source] = import_module(MODULES[context.chosen.type]).open_source
            self._open[name] = make(context)
        return self._open[name]

    async def check(self, name: str) -> SourceCheck:
        """Read a source here and now, and change nothing: nothing is taken, and neither its position nor its state is noted."""
        if name not in self.names:
            raise BadSetting(
                f"Source {name} is a webhook: it cannot be checked, because its sender connects to the API."
            )
        try:
            async with asyncio.timeout(CHECKED_WITHIN):
                return await self.open(name).check()
        except TimeoutError:
            raise Trouble(f"Source {name} did not answer within {CHECKED_WITHIN:.0f} s.") from None
        except PenstockError:
            raise
        except Exception as error:
            raise Trouble(f"Source {name} does not answer: {mask(str(error) or type(error).__name__)}") from error
        finally:
            if name in self._open:
                await self._open.pop(name).close()

    async def _keep_running(self, name: str) -> None:
        rest = FIRST_REST
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self.open(name).run()
            except Exception as error:  # noqa: BLE001  whatever it is, the others and the worker go on
                await self._note(name, error)
            if asyncio.get_running_loop().time() - began > LONGEST_REST:
                rest = FIRST_REST
            await asyncio.sleep(rest * random.uniform(0.8, 1.2))  # noqa: S311  no secret
            rest = min(2 * rest, LONGEST_REST)

    async def _note(self, name: str, error: Exception) -> None:
        said = mask(str(error) or type(error).__name__)
        log.warning(
            "a source does not answer", source=name, error=said, exc_info=not isinstance(error, PenstockError | OSError)
        )
        try:
            await self._inbox.note_trouble(name, said)
        except PenstockError as trouble:  # our own database is away, which is reported elsewhere
            log.warning("the error of a source could not be recorded", source=name, error=str(trouble))

    # -- reporting ----------------------------------------------------------------------------------------------------

    async def tell_source(self, ctx: Context, source: str) -> int:
        """Report to a source the outcomes of its messages since the last time; how many."""
        told, after = 0, 0
        while True:
            rows = await self._app.database.pool.repeat(list_unreported, source=source, after=after, most=TOLD_AT_ONCE)
            if not rows:
                return told
            after = rows[-1]["id"]
            outcomes = [MessageOutcome(row["message_id"], row["status"], reason_of(row["error"])) for row in rows]
            try:
                await self.open(source).tell(outcomes)
            except Trouble as error:  # not charged: however long the source is down, this only waits
                raise RateLimited(str(error)) from error
            except PenstockError:
                raise
            except Exception as error:
                raise Transient(f"Outcomes cannot be reported to source {source}: {mask(str(error))}") from error
            async with ctx.write() as tx:
                await note_reported(tx, rows)
            told += len(rows)
            await ctx.progress(told)


def reason_of(error: str | Mapping[str, object] | None) -> str:
    """The sentence of a failure, as the inbox and documents keep it."""
    found = json.loads(error) if isinstance(error, str) else error
    return str((found or {}).get("message", ""))
