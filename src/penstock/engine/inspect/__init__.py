"""Questions about jobs and lanes, why a job waits, and dead letters. For operators, `doctor` and the metrics."""

from penstock.engine.inspect.dead_letters import (
    RedrivePlan,
    RedriveResult,
    Selection,
    Stage,
    dead_by_cause,
    dead_jobs,
    describe_stage,
    discard,
    make_ready,
    plan_redrive,
    redrive,
    redrives_of,
    run_stages,
    try_stage,
    watch_stage,
)
from penstock.engine.inspect.explain import Explanation, advise, explain_job, joined
from penstock.engine.inspect.history import (
    OUTCOMES,
    FinishedJob,
    KeptStep,
    KindDurations,
    QueueHistory,
    StageLoad,
    durations_by_kind,
    ended_by_queue,
    list_finished,
    list_steps,
    running_by_stage,
)
from penstock.engine.inspect.queries import (
    LATELY,
    MOST_COUNTED,
    JobFilter,
    LaneWait,
    WaitingLane,
    count_jobs,
    count_states,
    count_workers,
    estimate_of,
    list_jobs,
    served_waits,
    waiting_lanes,
)
