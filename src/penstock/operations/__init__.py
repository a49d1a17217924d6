"""Running Penstock: what is wrong, and what does it do."""

from penstock.operations.doctor import examine
from penstock.operations.finding import Finding
from penstock.operations.gauges import FleetGauges
from penstock.operations.invariants import Inspection

__all__ = ["Finding", "FleetGauges", "Inspection", "examine"]
