"""Running Penstock: its status, its metrics, the invariants that must always hold, and `doctor`, which finds problems."""

from penstock.operations.doctor import AppliedFix, Finding, examine, examine_session, fix
from penstock.operations.invariants import INVARIANTS, Inspection, Verdict, verify
from penstock.operations.metrics import FleetGauges, count_serving
from penstock.operations.status import read_status
