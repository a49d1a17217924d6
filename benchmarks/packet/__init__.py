"""`./dev bench packet`: many documents as one, from their message to ready."""

from benchmarks.packet import scans, transactions
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {
    "packet": scans.measure,
    "transactions": transactions.measure,
}
