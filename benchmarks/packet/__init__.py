"""`./dev bench packet`: messages of other systems, and what becomes of them."""

from benchmarks.packet import intake, scans, transactions
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {
    "intake": intake.measure,
    "packet": scans.measure,
    "transactions": transactions.measure,
}
