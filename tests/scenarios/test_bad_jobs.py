"""Input that cannot become a job: a clear error at the call, and nothing in the table. What nobody serves stays ready."""

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock import Context, Penstock
from penstock.errors import BadJob
from tests.scenarios import sample_jobs
from tests.scenarios.worker_processes import WorkerProcesses

circle: list[Any] = []
circle.append(circle)

ARGUMENTS = {
    "an object": object(),
    "bytes": b"x",
    "a set": {1},
    "not a number": math.nan,
    "infinity": math.inf,
    "a circle": circle,
    "a lone surrogate": "\ud800",
    "a NUL": "a\0b",
    "ten megabytes": "x" * 10_000_000,
}

OPTIONS: dict[str, dict[str, Any]] = {
    "a negative delay": {"run_in": -1},
    "a negative timedelta": {"run_in": timedelta(seconds=-1)},
    "no duration": {"run_in": "soon"},
    "a delay beyond the calendar": {"run_in": timedelta(days=400_000_000)},
    "an empty share": {"fairness_key": ""},
    "a fairness key with a line break": {"fairness_key": "a\nb"},
    "a fairness key with a NUL": {"fairness_key": "a\0b"},
    "a fairness key with a lone surrogate": {"fairness_key": "\ud800"},
    "a long share": {"fairness_key": "x" * 201},
    "a fairness key that is a number": {"fairness_key": 7},
    "a fairness key that is missing": {"fairness_key": None},
    "a priority out of range": {"priority": 101},
    "a priority in words": {"priority": "high"},
    "a priority between": {"priority": 1.5},
    "an empty key": {"unique": ""},
    "a key with a NUL": {"unique": "a\0b"},
    "a key with a lone surrogate": {"unique": "\ud800"},
    "a key that is a number": {"unique": 7},
    "a time for no key": {"unique_for": "1h"},
    "a negative time for a key": {"unique": "a", "unique_for": "-1h"},
    "a time beyond the calendar": {"unique": "a", "unique_for": timedelta(days=400_000_000)},
}


async def nothing_was_kept(worker_processes: WorkerProcesses) -> bool:
    return bool(
        await worker_processes.connection.fetchval(
            "select not exists (select from penstock.jobs) and not exists (select from penstock.job_keys)"
        )
    )


@pytest.mark.parametrize("value", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be_kept(value: Any) -> None:
    with pytest.raises(BadJob, match="make"):
        sample_jobs.make(seconds=value)


@pytest.mark.parametrize("text", ["\\u0000", "ü 🙂 '; drop table jobs; --", "\x1f", "x" * 900_000])
async def test_strange_arguments_that_can_be_kept(worker_processes: WorkerProcesses, text: Any) -> None:
    job = await worker_processes.client.enqueue(sample_jobs.make(seconds=text))
    [found] = await worker_processes.connection.fetch(
        "select args ->> 'seconds' as text from penstock.jobs where id = $1", job
    )
    assert found["text"] == text


async def test_options_that_cannot_be_kept_harm_nobody_else(worker_processes: WorkerProcesses) -> None:
    """All at once, so that they would go out together with a good one."""
    calls = {name: worker_processes.client.enqueue(sample_jobs.make(), **options) for name, options in OPTIONS.items()}
    *ends, good = await asyncio.gather(
        *calls.values(), worker_processes.client.enqueue(sample_jobs.make()), return_exceptions=True
    )
    wrong = {name: repr(end) for name, end in zip(calls, ends, strict=True) if not isinstance(end, BadJob)}
    assert wrong == {}
    assert isinstance(good, int)
    await worker_processes.client.cancel(good)
    assert await nothing_was_kept(worker_processes)


async def test_one_bad_call_keeps_all_of_many_out(worker_processes: WorkerProcesses) -> None:
    with pytest.raises(BadJob):
        await worker_processes.client.enqueue_many([sample_jobs.make(), sample_jobs.make(), "make"])  # type: ignore[list-item]
    assert await nothing_was_kept(worker_processes)


@pytest.mark.parametrize(
    "fairness_key", ["ü", "a b", "O'Neil; drop table penstock.jobs", "%_\\", "🙂" * 50, "x" * 200, "null"]
)
async def test_a_share_may_be_any_printable_text(worker_processes: WorkerProcesses, fairness_key: str) -> None:
    job = await worker_processes.client.enqueue(sample_jobs.make(), fairness_key=fairness_key)
    assert (
        await worker_processes.connection.fetchval(
            "select lane.fairness_key from penstock.jobs join penstock.lanes as lane on lane.id = lane where jobs.id = $1",
            job,
        )
        == fairness_key
    )


async def plain(ctx: Context, name: str) -> None: ...


def no_coroutine(ctx: Context) -> None: ...


async def no_context() -> None: ...


async def only_keywords(*, ctx: Context) -> None: ...


@pytest.mark.parametrize("handler", [no_coroutine, no_context, only_keywords])
def test_handlers_with_the_wrong_signature(handler: Callable[..., Any]) -> None:
    with pytest.raises(BadJob, match=handler.__name__):
        Penstock().job()(handler)


@pytest.mark.parametrize("arguments", [{}, {"nam": "x"}, {"name": "x", "more": 1}, {"name": "x", "ctx": 1}])
def test_calls_with_the_wrong_arguments(arguments: dict[str, Any]) -> None:
    kind = Penstock().job()(plain)
    with pytest.raises(BadJob, match="plain"):
        kind(**arguments)


@pytest.mark.parametrize(
    "options",
    [{"timeout": -1}, {"timeout": "soon"}, {"stall_after": 0}, {"retries": -1}, {"queue": "a b"}, {"name": "a b"}],
)
def test_kinds_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(BadJob):
        Penstock().job(**({"name": "plain"} | options))(plain)


async def test_a_kind_that_nobody_serves_stays_ready(worker_processes: WorkerProcesses) -> None:
    await worker_processes.start("--kinds", "make", "idle")
    unserved = await worker_processes.client.enqueue(sample_jobs.persist(seconds=0))
    served = await worker_processes.client.enqueue_many([sample_jobs.make() for _ in range(20)])
    await worker_processes.until("select count(*) = 20 from effects")
    record = await worker_processes.record(unserved)
    assert (record.state, record.attempt, record.outcomes) == ("ready", 0, [])
    await worker_processes.start("--kinds", "persist")
    await worker_processes.until_over()
    assert await worker_processes.effects() == dict.fromkeys([unserved, *served], 1)
