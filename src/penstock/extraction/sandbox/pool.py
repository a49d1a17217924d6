"""The sandbox processes of one worker: each task goes to a free child, and whatever happens to that child becomes an error.

Readers and OCR have separate children, so that the OCR models stay loaded; together at most `extraction.children` tasks run
at once. A child is kept for the next task only when it ended the last one by the protocol; it is replaced after enough tasks,
or when it holds too much memory. A document that crashes its child fails alone.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import monotonic
from types import TracebackType
from typing import Any, BinaryIO, Self

from penstock import telemetry
from penstock.errors import Corrupt, JobFailure, ResourceLimit, TooMuch, Transient, Unreadable
from penstock.extraction.sandbox.exchange import Progress, ProtocolBroken, SandboxEnded, Sink, StaleFrame, TaskRequest
from penstock.extraction.sandbox.monitor import memory_sentence
from penstock.extraction.sandbox.process import Crash, SandboxCrashed, SandboxProcess, SandboxSpec, ScratchFolder
from penstock.settings import Settings
from penstock.telemetry import log

TASKS = {
    "read": "penstock.extraction.dispatch:read",
    "ocr": "penstock.extraction.ocr.task:ocr",
    "members": "penstock.extraction.archive:members",
    "convert": "penstock.extraction.to_pdf.convert:convert",
    "merge": "penstock.extraction.to_pdf.merge:merge",
    "draw": "penstock.extraction.pdf.draw:draw",
    "links": "penstock.extraction.text_formats.web:links",
    "sitemap": "penstock.extraction.text_formats.web:sitemap",
}
STOPS = "The worker is stopping."
READER, OCR = "reader", "ocr"
START_WITHIN = 30.0  # seconds, on a busy machine
CLOSE_WITHIN = 0.5
IDLE_FOR = 60.0  # seconds after which an unused child ends
KEPT = {READER: 0.5, OCR: 0.75}  # share of `extraction.memory` that a child may hold between two tasks

tasks_ended = telemetry.counter(
    "penstock_sandbox_tasks_total",
    "Tasks of sandbox processes: done, unreadable, limit, cancelled, failed",
    ("task", "outcome"),
)
task_seconds = telemetry.histogram("penstock_sandbox_task_seconds", "Seconds of a task in a sandbox process", ("task",))
children_ended = telemetry.counter(
    "penstock_sandbox_ends_total", "Sandbox processes that ended: worn, memory, crash, limit, idle, …", ("why",)
)


class SandboxPool:
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
        self._idle: dict[str, list[tuple[SandboxProcess, float]]] = {READER: [], OCR: []}
        self._busy: set[SandboxProcess] = set()
        self._ending: set[asyncio.Task[Crash]] = set()
        self._quiet = asyncio.Event()  # no child is at work
        self._scratch: ScratchFolder | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False
        self.confinement: dict[str, Any] | None = None  # of the children; None until the first one has started

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
        """Run a task on an open file in a child and return its JSON value, or raise `Unreadable` or `ResourceLimit`."""
        seconds = self._chosen.timeout.total_seconds() if timeout is None else timeout
        request = TaskRequest(task, file, arguments, seconds, sink, progress, name)
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
        """Use `count` children fewer, because another process on this machine uses them instead."""
        async with AsyncExitStack() as lent:
            for _ in range(count):
                await lent.enter_async_context(self._turns)
            yield

    async def inspect(self) -> dict[str, Any]:
        """Return the confinement of the children on this machine; starts one if none has run yet."""
        if self.confinement is None:
            async with self._turns:
                self._keep(READER, await self._start(READER))
        return self.confinement or {}

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
        if self._busy:  # each caller ends its own child, unless its sink blocks
            with suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), CLOSE_WITHIN)
        for child in list(self._busy):
            self._end(child, "close")
        if self._ending:
            await asyncio.wait(self._ending)
        if self._scratch is not None:
            await asyncio.to_thread(self._scratch.remove)
            self._scratch = None

    async def _try_twice(self, request: TaskRequest) -> Any:
        """Retry once in a new child: a crash may come from an earlier task."""
        kind = OCR if request.task == OCR else READER
        try:
            return await self._try_warm(kind, request)
        except SandboxCrashed as crashed:
            failure = self._blame(crashed, request)
            if crashed.parts or self._closed or isinstance(failure, ResourceLimit | TooMuch):
                raise failure from None  # a second try would send the same parts again
        try:
            return await self._run(kind, await self._start(kind), request)
        except SandboxCrashed as crashed:
            raise self._blame(crashed, request) from None

    async def _try_warm(self, kind: str, request: TaskRequest) -> Any:
        while (child := self._take(kind)) is not None:
            with suppress(StaleFrame):  # caused by the document before
                return await self._run(kind, child, request)
        return await self._run(kind, await self._start(kind), request)

    async def _run(self, kind: str, child: SandboxProcess, request: TaskRequest) -> Any:
        why = "cancelled"
        try:
            return await child.run(request)
        except SandboxEnded as ended:
            why = "crash"
            raise SandboxCrashed(await asyncio.shield(self._end(child, why)), parts=ended.args[0]) from None
        except ProtocolBroken as nonsense:
            why = "nonsense"
            if isinstance(nonsense, StaleFrame) and child.tasks > 1:
                raise
            log.warning(
                "a sandbox process broke the protocol", document=request.name, task=request.task, what=str(nonsense)
            )
            raise Corrupt("The reader broke its protocol on this file: the file is damaged or malicious.") from None
        except JobFailure as failure:
            why = "limit" if isinstance(failure, ResourceLimit | TooMuch) else "failure"
            raise
        finally:
            if child.usable:
                self._keep(kind, child)
            else:
                self._end(child, why)

    def _blame(self, crashed: SandboxCrashed, request: TaskRequest) -> JobFailure:
        """The error for the caller, if this crash is the last one."""
        if self._closed:
            return Transient(STOPS)
        how, said = crashed.crash.signal, crashed.crash.stderr[-2000:]
        log.warning("a sandbox process crashed", document=request.name, task=request.task, how=how, said=said)
        if how == "SIGXCPU":
            return TooMuch("Reading the file needed too much processor time (extraction.timeout).")
        if how == "SIGKILL":
            return ResourceLimit("The system killed the reader of the file, most likely because memory ran out.")
        if crashed.crash.memory > 0.8 * self._chosen.memory:  # an allocation that fails ends many libraries
            return TooMuch(memory_sentence(self._chosen.memory))
        if crashed.parts:
            return Corrupt(f"The reader crashed on this file ({how}) after {crashed.parts} of the files inside.")
        return Corrupt(f"The reader crashed on this file twice ({how}).")

    # -- children ---------------------------------------------------------------------------------------------------

    def _take(self, kind: str) -> SandboxProcess | None:
        while self._idle[kind]:
            child, _ = self._idle[kind].pop()  # the one that is warm
            if child.ready():
                self._work(child)
                return child
            self._end(child, "died")
        return None

    async def _start(self, kind: str) -> SandboxProcess:
        if self._closed:
            raise Transient(STOPS)
        try:
            child = self._launch(kind)
        except OSError as error:
            raise Transient(f"A sandbox process cannot be started: {error.strerror or error}.") from error
        self._work(child)
        try:
            await asyncio.wait_for(child.greet(), START_WITHIN)
        except (SandboxEnded, ProtocolBroken, TimeoutError):
            crash = await asyncio.shield(self._end(child, "start"))
            log.error("a sandbox process did not start", how=crash.signal, said=crash.stderr[-2000:])
            raise Transient(f"A sandbox process did not start ({crash.signal}).") from None
        except BaseException:
            self._end(child, "cancelled")
            raise
        if self.confinement is None:
            self.confinement = child.confinement
            if child.confinement.get("missing"):
                log.warning(
                    "sandbox processes are less confined than they could be", missing=child.confinement["missing"]
                )
        return child

    def _launch(self, kind: str) -> SandboxProcess:
        if self._scratch is None:
            self._scratch = ScratchFolder()
        spec = SandboxSpec(
            tasks=self._tasks,
            scratch=self._scratch.folder,
            memory=self._chosen.memory,
            net=kind == READER,
            paths=self._paths,
        )
        return SandboxProcess(spec)

    def _work(self, child: SandboxProcess) -> None:
        self._busy.add(child)
        self._quiet.clear()

    def _rest(self, child: SandboxProcess) -> None:
        self._busy.discard(child)
        if not self._busy:
            self._quiet.set()

    def _keep(self, kind: str, child: SandboxProcess) -> None:
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

    def _end(self, child: SandboxProcess, why: str) -> asyncio.Task[Crash]:
        """Kill it now and reap it in a task. Idempotent."""
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
