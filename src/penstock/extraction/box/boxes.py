"""The boxes of one worker: hands each task to a child that is free, and makes an error of whatever happens to it.

Two classes, so that the models of the OCR stay loaded; over both, at most `extraction.children` tasks run at once. A child
is kept for the next task only when it ended the last one by the rules, and is replaced after enough tasks, or when it has
kept too much memory. What a document does to its child is that document's failure and nobody else's.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import monotonic
from types import TracebackType
from typing import Any, BinaryIO, Self

from penstock import telemetry
from penstock.errors import Corrupt, JobFailure, ResourceLimit, TooMuch, Transient, Unreadable
from penstock.extraction.box.child import Child, Crash, Crashed, Design
from penstock.extraction.box.exchange import Progress, Request, Sink
from penstock.extraction.box.frames import Ended, Nonsense, Stale
from penstock.extraction.box.scratch import Scratch
from penstock.extraction.box.watch import memory_sentence
from penstock.settings import Settings
from penstock.telemetry import log

TASKS = {
    "read": "penstock.extraction.read:read",
    "ocr": "penstock.extraction.ocr.task:ocr",
    "members": "penstock.extraction.archive:members",
    "convert": "penstock.extraction.paper.convert:convert",
    "merge": "penstock.extraction.paper.merge:merge",
    "draw": "penstock.extraction.paper.draw:draw",
    "links": "penstock.extraction.plain.links:links",
    "sitemap": "penstock.extraction.plain.sitemap:sitemap",
}
STOPS = "The worker stops."
READER, OCR = "reader", "ocr"
START_WITHIN = 30.0  # seconds, on a machine that has other things to do
CLOSE_WITHIN = 0.5
IDLE_FOR = 60.0  # seconds, after which a child that nobody needs ends
KEPT = {READER: 0.5, OCR: 0.75}  # of the memory that a child may hold between two tasks

tasks_ended = telemetry.counter(
    "penstock_box_tasks_total",
    "Tasks of reader processes: done, unreadable, limit, cancelled, failed",
    ("task", "outcome"),
)
task_seconds = telemetry.histogram("penstock_box_task_seconds", "Seconds of a task in a reader process", ("task",))
children_ended = telemetry.counter(
    "penstock_box_ends_total", "Reader processes that ended: worn, memory, crash, limit, idle, …", ("why",)
)


class Boxes:
    """Use it as an async context manager; children are started when they are needed."""

    def __init__(
        self,
        settings: Settings,
        *,
        tasks: Mapping[str, str] = TASKS,
        paths: Sequence[str] = (),
    ) -> None:
        self._chosen = settings.extraction
        self._tasks = tasks
        self._paths = paths
        self._turns = asyncio.Semaphore(self._chosen.children)
        self._idle: dict[str, list[tuple[Child, float]]] = {READER: [], OCR: []}
        self._busy: set[Child] = set()
        self._ending: set[asyncio.Task[Crash]] = set()
        self._quiet = asyncio.Event()  # no child is at work
        self._scratch: Scratch | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False
        self.sandbox: dict[str, Any] | None = None  # what holds the children; None until there was one

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def call(
        self,
        task: str,
        file: BinaryIO,
        arguments: dict[str, Any],
        *,
        name: str = "",
        sink: Sink | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Run a task on an open file in a child: its JSON value, or why there is none (`Unreadable`, `ResourceLimit`)."""
        seconds = self._chosen.timeout.total_seconds() if timeout is None else timeout
        request = Request(task, file, arguments, seconds, sink, progress, name)
        outcome, began = "failed", monotonic()
        try:
            async with self._turns:
                began = monotonic()
                value = await self._try_twice(request)
            outcome = "done"
            return value
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Unreadable:
            outcome = "unreadable"
            raise
        except ResourceLimit:
            outcome = "limit"
            raise
        finally:
            tasks_ended.labels(task, outcome).inc()
            task_seconds.labels(task).observe(monotonic() - began)

    @asynccontextmanager
    async def lend(self, count: int) -> AsyncIterator[None]:
        """Use so many children fewer: another process on this machine uses them instead."""
        async with AsyncExitStack() as lent:
            for _ in range(count):
                await lent.enter_async_context(self._turns)
            yield

    async def inspect(self) -> dict[str, Any]:
        """Which walls stand around the children here; starts one when there was none yet."""
        if self.sandbox is None:
            async with self._turns:
                self._keep(READER, await self._start(READER))
        return self.sandbox or {}

    async def close(self) -> None:
        """End all children now; tasks under way fail with `Transient`."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for idle in self._idle.values():
            while idle:
                self._end(idle.pop()[0], "close")
        for child in self._busy:
            child.kill()
        if self._busy:  # whoever waits for one ends it, unless a sink keeps him
            with suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), CLOSE_WITHIN)
        for child in list(self._busy):
            self._end(child, "close")
        if self._ending:
            await asyncio.wait(self._ending)
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.remove)
            self._scratch = None

    async def _try_twice(self, request: Request) -> Any:
        """A crash may come from what the child did before: the second try gets a new one."""
        kind = OCR if request.task == OCR else READER
        try:
            return await self._try_warm(kind, request)
        except Crashed as crashed:
            failure = self._blame(crashed, request)
            if crashed.parts or self._closed or isinstance(failure, ResourceLimit | TooMuch):
                raise failure from None  # a second try would send the same parts again
        try:
            return await self._run(kind, await self._start(kind), request)
        except Crashed as crashed:
            raise self._blame(crashed, request) from None

    async def _try_warm(self, kind: str, request: Request) -> Any:
        while (child := self._take(kind)) is not None:
            with suppress(Stale):  # the document before is to blame, not this one
                return await self._run(kind, child, request)
        return await self._run(kind, await self._start(kind), request)

    async def _run(self, kind: str, child: Child, request: Request) -> Any:
        why = "cancelled"
        try:
            return await child.run(request)
        except Ended as ended:
            why = "crash"
            raise Crashed(await asyncio.shield(self._end(child, why)), parts=ended.args[0]) from None
        except Nonsense as nonsense:
            why = "nonsense"
            if isinstance(nonsense, Stale) and child.tasks > 1:
                raise
            log.warning(
                "a reader process broke the rules", document=request.name, task=request.task, what=str(nonsense)
            )
            raise Corrupt("The reader lost its mind over it. The file is damaged, or made to harm.") from None
        except JobFailure as failure:
            why = "limit" if isinstance(failure, ResourceLimit | TooMuch) else "failure"
            raise
        finally:
            if child.usable:
                self._keep(kind, child)
            else:
                self._end(child, why)

    def _blame(self, crashed: Crashed, request: Request) -> JobFailure:
        """What to tell the caller about a crash, should it be the last one."""
        if self._closed:
            return Transient(STOPS)
        how, said = crashed.crash.signal, crashed.crash.said[-2000:]
        log.warning("a reader process crashed", document=request.name, task=request.task, how=how, said=said)
        if how == "SIGXCPU":
            return TooMuch("Reading it needed too much processor time (extraction.timeout).")
        if how == "SIGKILL":
            return ResourceLimit("The system killed its reader, most likely because memory ran out.")
        if crashed.crash.memory > 0.8 * self._chosen.memory:  # an allocation that fails ends many libraries
            return TooMuch(memory_sentence(self._chosen.memory))
        if crashed.parts:
            return Corrupt(f"The reader crashed on it ({how}) after {crashed.parts} of the files inside.")
        return Corrupt(f"The reader crashed on it twice ({how}).")

    # Children

    def _take(self, kind: str) -> Child | None:
        while self._idle[kind]:
            child, _ = self._idle[kind].pop()  # the one that is warm
            if child.ready():
                self._work(child)
                return child
            self._end(child, "died")
        return None

    async def _start(self, kind: str) -> Child:
        if self._closed:
            raise Transient(STOPS)
        try:
            child = self._launch(kind)
        except OSError as error:
            raise Transient(f"A reader process cannot be started: {error.strerror or error}.") from error
        self._work(child)
        try:
            await asyncio.wait_for(child.greet(), START_WITHIN)
        except (Ended, Nonsense, TimeoutError):
            crash = await asyncio.shield(self._end(child, "start"))
            log.error("a reader process did not start", how=crash.signal, said=crash.said[-2000:])
            raise Transient(f"A reader process did not start ({crash.signal}).") from None
        except BaseException:
            self._end(child, "cancelled")
            raise
        if self.sandbox is None:
            self.sandbox = child.sandbox
            if child.sandbox.get("missing"):
                log.warning("reader processes are less shut in than they could be", missing=child.sandbox["missing"])
        return child

    def _launch(self, kind: str) -> Child:
        if self._scratch is None:
            self._scratch = Scratch()
        design = Design(
            tasks=self._tasks,
            scratch=self._scratch.folder,
            memory=self._chosen.memory,
            net=kind == READER,
            paths=self._paths,
        )
        return Child(design)

    def _work(self, child: Child) -> None:
        self._busy.add(child)
        self._quiet.clear()

    def _rest(self, child: Child) -> None:
        self._busy.discard(child)
        if not self._busy:
            self._quiet.set()

    def _keep(self, kind: str, child: Child) -> None:
        self._rest(child)
        if self._closed:
            self._end(child, "close")
        elif child.tasks >= self._chosen.recycle_after:
            self._end(child, "worn")
        elif child.memory() > KEPT[kind] * self._chosen.memory:
            self._end(child, "memory")
        else:
            self._idle[kind].append((child, monotonic()))
            if self._sweep is None:
                self._sweep = asyncio.get_running_loop().call_later(IDLE_FOR, self._end_idle)

    def _end(self, child: Child, why: str) -> asyncio.Task[Crash]:
        """Kill it now; reaping goes on by itself. Once is enough."""
        self._rest(child)
        if child.ending is None:
            children_ended.labels(why).inc()
            child.kill()
            child.ending = asyncio.get_running_loop().create_task(child.end())
            self._ending.add(child.ending)
            child.ending.add_done_callback(self._ending.discard)
        return child.ending

    def _end_idle(self) -> None:
        now = monotonic()
        self._sweep = None
        for kind, idle in self._idle.items():
            self._idle[kind] = [(child, since) for child, since in idle if now - since < IDLE_FOR]
            for child, since in idle:
                if now - since >= IDLE_FOR:
                    self._end(child, "idle")
        if any(self._idle.values()):
            self._sweep = asyncio.get_running_loop().call_later(IDLE_FOR / 4, self._end_idle)
