"""`./dev bench documents`: from files to answers."""

from benchmarks.documents import commits, memory, ocr, relevance, searching, throughput, upload
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {
    "documents": throughput.measure,
    "commits": commits.measure,
    "upload": upload.measure,
    "memory": memory.measure,
    "search": searching.measure,
    "relevance": relevance.measure,
    "ocr": ocr.measure,
}
