"""Failpoints: places where a test can make a process die, freeze, fail, or lose its connection. Without the variable, no-ops.

    PENSTOCK_TEST_FAILPOINTS="after-claim=kill, before-finish=cut@2"

A name, what happens there, and at which passage (the first, unless it says otherwise); it happens once per process.
`kill` is SIGKILL and `stop` SIGSTOP, both to this very process; `raise` raises `FailpointReached`; `cut` ends the database
session at hand, as a cable would. The names are in `POINTS`; the engine reaches each of them somewhere. `step:NAME` is the
beginning of a handler's step of that name.
"""

import os
import signal
from dataclasses import dataclass

from penstock.database import Session
from penstock.errors import BadSetting, ConnectionLost
from penstock.telemetry import log

VARIABLE = "PENSTOCK_TEST_FAILPOINTS"
FAULTS = ("kill", "stop", "raise", "cut")
POINTS = (
    "after-claim",  # the jobs are ours by the table, and no handler has begun
    "before-settle",  # handlers have ended, their outcomes are in memory only
    "before-finish",  # inside a handler's own transaction, before it marks the job as done
    "before-commit",  # everything is written, nothing is committed
    "after-commit-before-ack",  # committed, and this process does not know it yet
    "mid-checkpoint",  # a step has been computed and is not kept yet
    "mid-map",  # children are written, nothing is committed
    "before-count-down",  # a child is over, its parent does not know
    "before-rescue",  # a worker was declared gone, its jobs are not taken back yet
    "before-promote",
    "cron-tick",  # the tick's job is written, nothing is committed
)
STEP = "step:"
ANSWERS = ("after-commit-before-ack",)  # what is cut off here is an answer: no later statement would notice


class FailpointReached(Exception):
    """Raised by the fault `raise`."""


@dataclass
class Failpoint:
    fault: str
    passage: int
    passed: int = 0


def parse(text: str) -> dict[str, Failpoint]:
    """`name=fault@passage, …`; a name or fault that does not exist would silently prove nothing."""
    armed: dict[str, Failpoint] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, rest = part.partition("=")
        fault, _, passage = rest.partition("@")
        known = name in POINTS or (name.startswith(STEP) and name != STEP)
        if not known or fault not in FAULTS or not (passage or "1").isdigit():
            raise BadSetting(
                f"{VARIABLE} says {part!r}: use NAME=FAULT or NAME=FAULT@PASSAGE, with the names {', '.join(POINTS)} and "
                f"the faults {', '.join(FAULTS)}."
            )
        armed[name] = Failpoint(fault, int(passage or 1))
    return armed


_armed = parse(os.environ.get(VARIABLE, ""))


def reach(name: str, session: Session | None = None) -> None:
    if _armed:
        _pass(name, session)


def _pass(name: str, session: Session | None) -> None:
    armed = _armed.get(name)
    if armed is None:
        return
    armed.passed += 1
    if armed.passed != armed.passage:
        return
    log.warning("failpoint reached", name=name, fault=armed.fault)
    if armed.fault == "raise":
        raise FailpointReached(f"at the failpoint {name}")
    if armed.fault == "cut":
        if session is not None:
            session.terminate()
        if name in ANSWERS:
            raise ConnectionLost(f"The connection to PostgreSQL was lost (at the failpoint {name}).")
        return
    os.kill(os.getpid(), signal.SIGKILL if armed.fault == "kill" else signal.SIGSTOP)
