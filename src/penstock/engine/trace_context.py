"""Trace context: propagates the enqueuer's trace in a reserved key of the job arguments.

Nothing is added without a trace. The claim removes it again, so that neither handlers nor scopes see it; `penstock jobs show`
does.
"""

import json
from collections.abc import Iterable

from opentelemetry import trace

from penstock.engine.kinds import Call
from penstock.telemetry import inject_trace

KEY = "penstock:trace"
HEAD = f'{{"{KEY}":'
_decode = json.JSONDecoder().raw_decode


def stamp_args(several: Iterable[str]) -> list[str]:
    """These arguments with the present trace in front, if there is one."""
    if trace.get_current_span() is trace.INVALID_SPAN or not (carrier := inject_trace()):
        return list(several)
    head = HEAD + json.dumps(carrier, separators=(",", ":"))
    return [f"{head}}}" if args == "{}" else f"{head},{args[1:]}" for args in several]


def stamp_call(call: Call) -> Call:
    """The same for one call; anything else is returned as it is, for the caller to refuse."""
    if trace.get_current_span() is trace.INVALID_SPAN or not isinstance(call, Call):
        return call
    [args] = stamp_args([call.args])
    return Call(call.kind, args)


def split_args(args: str) -> tuple[str, dict[str, str] | None]:
    """The arguments as the handler gets them, and the trace, if one was kept."""
    if not args.startswith(HEAD):
        return args, None
    carrier, end = _decode(args, len(HEAD))
    rest = args[end:].lstrip(",")
    return "{" + rest, carrier if isinstance(carrier, dict) else None
