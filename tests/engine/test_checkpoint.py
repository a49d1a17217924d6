"""Steps: computed once per scope, kept under a fence, gone with their job."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine import Kind
from penstock.engine.context import Context
from penstock.engine.inspect.explain import explain_job
from penstock.engine.job import Cancelled, Dead, Done, Failure, Requeue
from penstock.engine.running import execute
from penstock.engine.steps import MOST, sql
from penstock.errors import BadJob, BadStep, LeaseLost
from tests.engine.conftest import JobQueue, do_nothing, make_kind, nothing

failure = Failure("Permanent", "ValueError", "no", "trace", "f00")


class Counter:
    """A step that knows how often it ran."""

    def __init__(self, result: Any = None) -> None:
        self.times = 0
        self.result = result

    async def __call__(self, *arguments: Any) -> Any:
        self.times += 1
        return self.result if self.result is not None else list(arguments)


def computed_again(*arguments: Any) -> Any:
    """A step whose result is kept: it must not run."""
    pytest.fail(f"computed again, of {arguments!r:.100}")


async def attempt(job_queue: JobQueue, kind: Kind = nothing, **args: Any) -> tuple[Context, int]:
    """A new job, claimed."""
    await job_queue.enqueue(kind(**args))
    worker = await job_queue.worker(kind)
    [job] = await job_queue.claim(worker)
    return job_queue.context(job, worker, kind), worker


async def again(job_queue: JobQueue, context: Context, worker: int) -> Context:
    """The same job in its next attempt."""
    await job_queue.settle(worker, (context.job, Requeue()))
    [job] = await job_queue.claim(worker)
    return job_queue.context(job, worker, context.kind)


async def kept(job_queue: JobQueue) -> list[str]:
    return [row["step"] for row in await job_queue.run("select step from penstock.checkpoints order by step")]


async def test_a_later_attempt_gets_what_was_kept(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    step = Counter()
    assert await context.step("add", step, 1, "two") == [1, "two"]
    assert await (await again(job_queue, context, worker)).step("add", step, 1, "two") == [1, "two"]
    assert step.times == 1


@pytest.mark.parametrize(
    "value",
    [None, 0, "", "text", 1.5, True, [1, [2]], {"a": {"b": None}}, b"", b"\x00\xff" * 1000, "é" * 10_000],
    ids=lambda value: repr(value)[:20],
)
async def test_every_value_comes_back_as_it_was(job_queue: JobQueue, value: Any) -> None:
    context, worker = await attempt(job_queue)
    assert await context.step("value", lambda: value) == value
    later = await again(job_queue, context, worker)
    assert await later.step("value", computed_again) == value


async def test_the_first_attempt_sees_what_a_later_one_will_see(job_queue: JobQueue) -> None:
    """A tuple becomes a list in JSON, and a number that is a key becomes a text."""
    context, _ = await attempt(job_queue)
    assert await context.step("pairs", lambda: [(1, 2), {3: 4}]) == [[1, 2], {"3": 4}]


async def test_another_input_or_version_is_computed_anew(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    step = Counter()
    await context.step("add", step, 1)
    second = await again(job_queue, context, worker)
    assert await second.step("add", step, 2) == [2]
    third = await again(job_queue, second, worker)
    assert await third.step("add", step, 1, version=2) == [1]
    fourth = await again(job_queue, third, worker)
    assert await fourth.step("add", step, 1) == [1]
    assert step.times == 3


async def test_a_plain_function_runs_beside_the_loop(job_queue: JobQueue) -> None:
    context, _ = await attempt(job_queue)
    assert await context.step("where", threading.get_ident) != threading.get_ident()


async def test_a_cheap_pure_step_is_not_kept(job_queue: JobQueue) -> None:
    context, _ = await attempt(job_queue)
    await context.step("cheap", Counter(), 1, pure=True)
    await context.step("dear", asyncio.sleep, 0.06, pure=True)
    await context.step("impure", Counter(), 1)
    assert await kept(job_queue) == ["dear", "impure"]


async def test_a_pure_step_with_a_large_result_is_computed_again(job_queue: JobQueue) -> None:
    context, _ = await attempt(job_queue)
    large = b"x" * (MOST + 1)

    async def slow() -> bytes:
        await asyncio.sleep(0.06)
        return large

    with pytest.raises(BadStep, match=r"returned 8,388,609 bytes"):
        await context.step("impure", slow)
    assert await context.step("pure", slow, pure=True) == large
    assert await kept(job_queue) == []


async def test_a_stale_attempt_keeps_nothing(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    await job_queue.lose(worker)
    with pytest.raises(LeaseLost):
        await context.step("add", Counter(), 1)
    assert await kept(job_queue) == []


async def test_a_taken_over_attempt_keeps_nothing(job_queue: JobQueue) -> None:
    """The job runs again, elsewhere: the old worker's late result must not replace what the new one has kept."""
    context, worker = await attempt(job_queue)
    await job_queue.lose(worker)
    healthy = await job_queue.worker()
    job = await job_queue.claim_quarantined(healthy)
    assert job is not None
    await job_queue.context(job, healthy).step("where", lambda: "here")
    with pytest.raises(LeaseLost):
        await context.step("where", lambda: "there")
    assert await job_queue.context(replace(job, attempt=3), healthy).step("where", computed_again) == "here"


async def test_no_rescue_comes_between_the_fence_and_the_keeping(job_queue: JobQueue) -> None:
    context, _ = await attempt(job_queue)
    async with job_queue.database.pool.transaction() as tx:
        await sql.keep_checkpoint(
            tx, id=context.job.id, attempt=1, worker_id=context.runtime.worker_id, scope="s", step="a", version=1,
            digest=b"", own=True, format="json", content=b"", seconds=0,
        )  # fmt: skip
        await job_queue.run("update penstock.workers set heartbeat_at = heartbeat_at - interval '1 hour'")
        assert await job_queue.rescue(context.runtime.worker_id) == set()


async def test_steps_go_when_the_job_is_done(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    await context.step("add", Counter(), 1)
    assert await kept(job_queue) == ["add"]
    await job_queue.settle(worker, (context.job, Done()))
    assert await kept(job_queue) == []


async def test_steps_go_with_the_handlers_own_end(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    await context.step("add", Counter(), 1)
    later = await again(job_queue, context, worker)
    await later.step("add", Counter(), 1)
    async with later.finish():
        pass
    assert await kept(job_queue) == []


async def test_a_dead_job_keeps_its_steps_for_the_redrive(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    await context.step("add", Counter(), 1)
    await job_queue.settle(worker, (context.job, Dead(failure)))
    assert await kept(job_queue) == ["add"]


scoped = Kind("scan", do_nothing, scope="document {n}")


async def test_another_job_of_the_scope_goes_on(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue, scoped, n=7)
    await context.step("read", lambda: "text")
    await job_queue.settle(worker, (context.job, Cancelled()))
    second, _ = await attempt(job_queue, scoped, n=7)
    assert await second.step("read", computed_again) == "text"
    other, _ = await attempt(job_queue, scoped, n=8)
    assert await other.step("read", lambda: "other") == "other"


async def test_a_scope_ends_with_the_job_that_completes_it(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue, scoped, n=7)
    await context.step("read", lambda: "text")
    await job_queue.settle(worker, (context.job, Done()))
    assert await kept(job_queue) == []


def test_a_scope_may_be_a_function() -> None:
    kind = Kind("scan", do_nothing, scope=lambda n: f"half {n // 2}")
    assert kind.scope_of('{"n": 5}') == kind.scope_of('{"n": 4}') == "scan half 2"
    assert Kind("scan", do_nothing, scope="{n}").scope_of("{}") == "scan 0", "the default of the argument"


@pytest.mark.parametrize("scope", ["all", "{page}", "{", "{0}"])
def test_a_scope_that_all_jobs_would_share_is_refused(scope: str) -> None:
    with pytest.raises(BadJob, match="scope"):
        make_kind(scope=scope)


@pytest.mark.parametrize("scope", [lambda n: "", lambda n: None, lambda n: "x" * 501])
def test_a_scope_that_is_no_text_is_refused(scope: Any) -> None:
    with pytest.raises(BadStep, match="scope"):
        make_kind(scope=scope).scope_of('{"n": 1}')


async def test_one_name_with_two_inputs_is_refused(job_queue: JobQueue) -> None:
    context, _ = await attempt(job_queue)
    await context.step("page", Counter(), 1)
    assert await context.step("page", Counter(), 1) == [1], "the same again is the same step"
    with pytest.raises(BadStep, match="give each its own name"):
        await context.step("page", Counter(), 2)


@pytest.mark.parametrize("result", [object(), {1, 2}, float("nan"), "\ud800"], ids=["object", "set", "nan", "half"])
async def test_what_cannot_be_kept_is_a_permanent_failure(job_queue: JobQueue, result: Any) -> None:
    context, _ = await attempt(job_queue)
    with pytest.raises(BadStep, match="cannot be kept"):
        await context.step("bad", lambda: result)
    assert await kept(job_queue) == []


@pytest.mark.parametrize(
    "result", [bytes(2**23 + 1), "x" * (2**23 + 1), ["x" * 2**22] * 3], ids=["bytes", "text", "json"]
)
async def test_what_is_too_large_says_where_to_put_it(job_queue: JobQueue, result: Any) -> None:
    context, _ = await attempt(job_queue)
    with pytest.raises(BadStep, match="return its key"):
        await context.step("large", lambda: result)


async def test_eight_megabytes_are_kept(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    assert len(await context.step("large", bytes, 2**23)) == 2**23
    later = await again(job_queue, context, worker)
    assert await later.step("large", computed_again, 2**23) == bytes(2**23)
    [size] = await job_queue.run("select length(content) from penstock.checkpoints")
    assert size[0] < 100_000, "compressed"


@pytest.mark.parametrize("argument", [object(), {1}, float("inf")], ids=["object", "set", "infinity"])
async def test_an_input_that_cannot_be_compared_is_refused(job_queue: JobQueue, argument: Any) -> None:
    context, _ = await attempt(job_queue)
    with pytest.raises(BadStep, match="input of the step"):
        await context.step("bad", Counter(), argument)


async def test_bytes_are_an_input(job_queue: JobQueue) -> None:
    context, worker = await attempt(job_queue)
    assert await context.step("size", len, b"1234") == 4
    assert await (await again(job_queue, context, worker)).step("size", computed_again, b"1234") == 4


@pytest.mark.parametrize(
    ("name", "version"), [("", 1), ("x" * 201, 1), ("a\0", 1), (7, 1), ("a", "1"), ("a", -1), ("a", 1.5)]
)
async def test_a_bad_name_or_version_is_refused(job_queue: JobQueue, name: Any, version: Any) -> None:
    context, _ = await attempt(job_queue)
    with pytest.raises(BadStep):
        await context.step(name, Counter(), version=version)


async def test_the_step_of_a_failure_is_known(job_queue: JobQueue) -> None:
    context, _ = await attempt(job_queue)
    await context.step("first", Counter())
    with pytest.raises(ZeroDivisionError):
        await context.step("second", lambda: 1 // 0)
    assert context.step_name == "second"


async def test_a_dead_letter_tells_its_step(job_queue: JobQueue) -> None:
    async def handle(ctx: Context) -> None:
        await ctx.step("read", Counter())
        await ctx.step("draw", lambda: 1 // 0)

    kind = Kind("draw", handle, retries=0)
    context, worker = await attempt(job_queue, kind)
    outcome = await execute(kind, context)
    await job_queue.settle(worker, (context.job, outcome))
    async with job_queue.database.pool.session() as session:
        why = await explain_job(session, context.job.id)
    assert why.evidence["error"]["step"] == "draw"
    assert "is dead after 1 attempt in the step draw, with ZeroDivisionError" in why.sentence


async def test_a_lasting_step_is_shown_and_a_quick_one_costs_nothing(job_queue: JobQueue) -> None:
    context, _ = await attempt(job_queue)
    began = asyncio.Event()
    go_on = asyncio.Event()

    async def last() -> None:
        began.set()
        await go_on.wait()

    running = asyncio.create_task(context.step("ocr", last))
    await began.wait()
    told = context.runtime.settler._progress
    context.report_step(context._step_since + 0.1)
    assert told == {}
    context.report_step(context._step_since + 1)
    assert '"step": "ocr"' in told[context.job.id][1]
    go_on.set()
    await running
