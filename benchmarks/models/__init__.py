"""`./dev bench models`: calls to models, from one worker."""

from benchmarks.models import calls, embedding, memos
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {
    "calls": calls.measure,
    "embedding": embedding.measure,
    "memos": memos.measure,
}
