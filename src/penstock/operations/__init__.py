"""Running Penstock: what is wrong, and what does it do."""

from penstock.operations.doctor import Finding, examine
from penstock.operations.gauges import FleetGauges

__all__ = ["Finding", "FleetGauges", "examine"]
