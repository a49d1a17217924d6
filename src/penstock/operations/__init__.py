"""Running Penstock: its status, its metrics, the invariants that must always hold, and `doctor`, which finds problems."""

from penstock.operations.doctor import (
    ACKNOWLEDGED_FOR,
    MOST_UNREAD,
    ApiCheck,
    Finding,
    FixAttempt,
    WorkerCheck,
    acknowledge,
    examine,
    examine_and_fix,
    examine_session,
    fix,
    read_unread_everywhere,
)
from penstock.operations.invariants import INVARIANTS, Inspection, Verdict, verify
from penstock.operations.metrics import FleetGauges
from penstock.operations.status import read_status, read_unread
