"""Running Penstock: what is wrong, what mends it, and what must always be true."""

from penstock.operations.doctor import examine
from penstock.operations.finding import Finding
from penstock.operations.fixing import Fixed, fix
from penstock.operations.gauges import FleetGauges
from penstock.operations.invariants import INVARIANTS, Inspection, Verdict, verify

__all__ = ["INVARIANTS", "Finding", "Fixed", "FleetGauges", "Inspection", "Verdict", "examine", "fix", "verify"]
