"""Durable jobs in PostgreSQL. Knows nothing of documents."""

from penstock.engine.admission import Admission
from penstock.engine.app import Penstock
from penstock.engine.children import Gap, cancel_trees
from penstock.engine.claim import Lanes, lane_id, wake_queues
from penstock.engine.connection_budget import ConnectionBudget, connections_needed, read_budget
from penstock.engine.context import Context
from penstock.engine.failpoint import STEP, reach
from penstock.engine.fleet import WorkerState, acknowledge_lost, count_serving, is_served, list_workers, membership
from penstock.engine.heartbeat import FENCE_AT
from penstock.engine.job import JobId
from penstock.engine.kinds import NUL, Call, Handler, Kind
from penstock.engine.maintenance import HOT_TABLES
from penstock.engine.metrics import tally
from penstock.engine.queue import (
    Order,
    enqueue_orders,
    find_job,
    insert_alone,
    insert_jobs,
    insert_reserved,
    pauses,
    reserve_ids,
)
from penstock.engine.schedules import (
    ScheduleState,
    count_schedules,
    find_schedules,
    overdue_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
    schedule_names,
)
from penstock.engine.trace_context import stamp_args
from penstock.engine.worker import Worker
