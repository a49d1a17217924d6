import asyncio
import json
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from penstock import Penstock
from penstock.engine import Context
from penstock.engine.kinds import Kind
from penstock.engine.trace_context import KEY, split_args, stamp_args, stamp_call
from penstock.settings import DatabaseUrl

SPAN = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1)))
PARENT = f"00-{0xABC:032x}-{0xDEF:016x}-01"


async def greet(ctx: Context, name: str = "Ada") -> None: ...


@pytest.mark.parametrize(
    "args", ["{}", '{"name":"Ada"}', '{"name":"}{\\"penstock:trace\\":{"}', '{"a":[1,{"b":2}],"c":{}}']
)
def test_arguments_come_back_as_they_were(args: str) -> None:
    assert stamp_args([args]) == [args], "nobody traces"
    with trace.use_span(SPAN):
        [stamped] = stamp_args([args])
    assert json.loads(stamped) == {KEY: {"traceparent": PARENT}, **json.loads(args)}
    assert split_args(stamped) == (args, {"traceparent": PARENT})
    assert split_args(args) == (args, None)


def test_what_is_no_call_is_left_to_others() -> None:
    with trace.use_span(SPAN):
        assert stamp_call("nonsense") == "nonsense"  # type: ignore[arg-type,comparison-overlap]
        assert KEY in stamp_call(Kind("greet", greet)(name="Bob")).args


async def test_handlers_scopes_and_children_do_not_see_it(database_url: DatabaseUrl, tmp_path: Path) -> None:
    app = Penstock(database_url=database_url, home=tmp_path, pool={"size": 4})
    traces = []

    @app.job(scope=lambda numbers: f"about {numbers}")
    async def add(ctx: Context, numbers: list[int]) -> int:
        traces.append(ctx.job.trace)
        return sum([await ctx.step("one", lambda: 1), *await ctx.map("squares", [square(number=n) for n in numbers])])

    @app.job()
    async def square(ctx: Context, number: int) -> int:
        return number * number

    stop = asyncio.Event()
    async with app, asyncio.TaskGroup() as group:
        group.create_task(app.work(concurrency=4, stop=stop))
        with trace.use_span(SPAN):
            alone = await app.enqueue(add(numbers=[1, 2]))
            many = await app.enqueue_many([add(numbers=[3])])
        untraced = await app.enqueue(add(numbers=[4]))
        assert [await app.result(job, timeout="10s") for job in (alone, *many, untraced)] == [6, 10, 17]
        stop.set()
    assert traces.count({"traceparent": PARENT}) == 4, "each is tried again after its children"
    assert traces.count(None) == 2
