"""`./dev bench life`: what happens to documents after they were found, while others go on searching."""

from benchmarks.life import access, burst, deletion, reembedding
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {
    "deletion": deletion.measure,
    "reembedding": reembedding.measure,
    "access": access.measure,
    "burst": burst.measure,
}
