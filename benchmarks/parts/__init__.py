"""`./dev bench parts`: which pages of a packet are its cover sheet, its part A and its part B?"""

from benchmarks.parts import accuracy
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {
    "parts-seen": accuracy.measure_seen,
    "parts-unseen": accuracy.measure_unseen,
    "parts-strange": accuracy.measure_strange,
    "parts-fresh": accuracy.measure_fresh,
    "parts-last": accuracy.measure_last,
}
