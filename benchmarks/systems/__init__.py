"""What is compared. Each module has one `System`: how its jobs get in, and how one worker process runs them."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable

Entered = Callable[[int, int], None]  # a job's number in the benchmark, and its attempt


class System(ABC):
    """One side, opened in a process of its own. A job is `noop`, or `sleep` which lasts until the process ends."""

    settled: str  # SQL: how many jobs are committed as finished
    empty: str  # SQL: back to no jobs
    fill: str = ""  # SQL: $1 no-op jobs at once, where the bulk call would take too long
    vacuum: str = ""  # the table of live jobs

    def __init__(self, url: str) -> None:
        self.url = url
        self.entered: Entered = lambda _number, _attempt: None

    @abstractmethod
    async def install(self) -> None:
        """Make the schema in an empty database."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def enqueue_bulk(self, count: int, kind: str = "noop") -> None: ...

    @abstractmethod
    async def enqueue_one(self, number: int) -> None: ...

    @abstractmethod
    async def enqueue_stamped(self, number: int) -> float:
        """In a transaction; the time just before COMMIT."""

    @abstractmethod
    async def work(self, concurrency: int) -> None:
        """Work until cancelled."""


def system(name: str, url: str) -> System:
    """The side of that name; imported here, because each process needs only one."""
    made: System = importlib.import_module(f"benchmarks.systems.{name}").Side(url)
    return made
