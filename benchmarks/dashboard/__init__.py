"""`./dev bench dashboard`: what pages, `why`, `doctor` and a scrape cost over a million documents and finished jobs."""

from benchmarks.dashboard import pages
from benchmarks.suite import Measure

MEASURES: dict[str, Measure] = {"pages": pages.measure}
