"""`./dev bench engine`: the measures of the engine."""

from benchmarks.measures import (
    asleep,
    backlog,
    ballast,
    drain,
    enqueue,
    fanout,
    idle,
    kill,
    limiter,
    pickup,
    schedules,
    steps,
)
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {
    "drain": drain.measure,
    "enqueue": enqueue.measure,
    "pickup": pickup.measure,
    "asleep": asleep.measure,
    "backlog": backlog.measure,
    "ballast": ballast.measure,
    "kill": kill.measure,
    "idle": idle.measure,
}
FLOW: dict[str, Measure] = {  # the second half: --flow
    "fanout": fanout.measure,
    "steps": steps.measure,
    "schedules": schedules.measure,
    "limiter": limiter.measure,
}
