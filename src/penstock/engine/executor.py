"""Runs one handler, and turns whatever happens into an `Outcome`. Nothing is written here."""

import asyncio
import json
import random
from typing import Any

from penstock.engine.allotment import WENT_WELL, read_end
from penstock.engine.backoff import FREE_TRIES, outage_pause, retry_after, tries_for
from penstock.engine.context import Context
from penstock.engine.fanout import Suspended
from penstock.engine.kinds import Kind
from penstock.engine.outcome import (
    Bury,
    Cancelled,
    Done,
    Finished,
    Outcome,
    Release,
    Retry,
    Snooze,
    Waits,
    describe_failure,
    encode_result,
)
from penstock.engine.stop import Stop
from penstock.errors import (
    DatabaseTrouble,
    DatabaseUnreachable,
    HeldTooLong,
    LeaseLost,
    Permanent,
    RateLimited,
    ResourceLimit,
    Unavailable,
    WorkerMustStop,
)
from penstock.telemetry import current_job, extract_trace, is_traced, log, span


async def execute(kind: Kind, context: Context) -> Outcome:
    """Run the handler to its end. Raises only LeaseLost: then nothing here is ours to settle."""
    job = context.job
    current_job.set((job.id, job.kind))
    try:
        result = await _call(kind, context)
        if context.suspended:
            return Waits()
        outcome = Finished() if context.finished else Done(encode_result(job.kind, result))
        context.ending = WENT_WELL
        return outcome
    except Suspended:
        return Waits()
    except LeaseLost:
        raise
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  whatever a handler raises is its outcome
        if context.suspended:
            return Waits()
        if context.finished:  # the end was written; what comes after it is only worth a line
            log.warning("raised after finish", error=repr(error))
            return Finished()
        context.ending = read_end(error, context.stop)
        if isinstance(error, Unavailable) and kind.uses:
            context.excused = context.desk.allotments.excuses(job)
        return judge(kind, context, error)


async def _call(kind: Kind, context: Context) -> Any:
    """The handler itself; for who traces, in a span below that of whoever put the job in."""
    job = context.job
    args = json.loads(job.args)
    if not is_traced():
        return await kind.handler(context, **args)
    with extract_trace(job.trace or {}), span(f"attempt {job.kind}", job=job.id, attempt=job.attempt, queue=job.queue):
        try:
            return await kind.handler(context, **args)
        finally:
            context.end_part()


def judge(kind: Kind, context: Context, error: BaseException) -> Outcome:
    """What an exception means for its job. The one retry authority."""
    if context.stop is Stop.CANCEL:
        return Cancelled()
    if context.stop is Stop.RELEASE or isinstance(error, WorkerMustStop):
        return Release(str(error) or "the worker stopped")
    if context.stop is Stop.LOST:
        raise LeaseLost(f"Job {context.job.id} is no longer ours.")
    return _judge_failure(kind, context, _named(kind, context, error))


def _judge_failure(kind: Kind, context: Context, error: BaseException) -> Outcome:
    error_class = next(
        (cls.__name__ for cls in (RateLimited, ResourceLimit, Permanent) if isinstance(error, cls)), "Transient"
    )
    failure = describe_failure(context.job.kind, error, error_class, context.code, context.step_name)
    jitter = random.uniform(-1, 1)  # noqa: S311  not a secret
    if isinstance(error, RateLimited):
        return Snooze(failure, error.retry_after)
    if isinstance(error, DatabaseTrouble | DatabaseUnreachable) and not isinstance(error, HeldTooLong):
        # Not its fault, and the database's troubles end.
        return Snooze(failure, retry_after(1, jitter))
    if isinstance(error, Unavailable) and context.excused and context.job.attempt <= FREE_TRIES:
        return Snooze(failure, outage_pause(context.job.attempt, jitter))
    limited = isinstance(error, ResourceLimit)
    if isinstance(error, Permanent) or context.job.failures >= tries_for(kind.retries, resource_limit=limited):
        return Bury(failure)
    return Retry(failure, retry_after(context.job.failures + 1, jitter), alone=limited)


def _named(kind: Kind, context: Context, error: BaseException) -> BaseException:
    """A cancellation by the watch, as the error that it stands for, with the place where the handler was."""
    if context.stop is Stop.TIMEOUT:
        return ResourceLimit(f"It took longer than its timeout of {kind.timeout}.").with_traceback(error.__traceback__)
    if context.stop is Stop.STALL:
        return TimeoutError(f"It reported no progress for {kind.stall_after}.").with_traceback(error.__traceback__)
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError("Something inside the handler cancelled it.").with_traceback(error.__traceback__)
    return error
