"""Searches all the time and checks every answer: one version of each document, whole, never an older one."""

import asyncio
import itertools
import re
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.scenarios.product_processes import ProductProcesses

EDITION = re.compile(r"Edition (\d+)")
MODES = ("words", "hybrid", "vectors")
PAUSE = 0.02  # seconds: leave some of the machine to those who are watched


def edition(number: int, sentences: int = 150) -> bytes:
    """A text of some ten chunks. Each of them says which edition it is of; one edition is longer than another."""
    lines = [
        f"Edition {number} tells in sentence {line} of turbine {line % 97} and of gate {line % 31}."
        for line in range(sentences + 40 * (number % 3))
    ]
    return "\n".join(lines).encode()


class ContinuousSearch:
    """Asks the API all the time while the block lasts. Every document that is watched must be in every answer."""

    def __init__(self, product_processes: ProductProcesses) -> None:
        self._product_processes = product_processes
        self._watched: set[str] = set()
        self._asking: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self.answers = 0
        self.editions: dict[str, list[int]] = {}  # as they were seen, by name
        self._chunks: dict[int, set[int]] = {}  # by version
        self._seen: dict[str, int] = {}  # the newest version, by name

    async def __aenter__(self) -> Self:
        self._asking = asyncio.create_task(self._ask())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._asking is not None
        self._asking.cancel()
        with suppress(asyncio.CancelledError):
            await self._asking

    def watch(self, *names: str) -> None:
        """They are ready: from now on they must always be found."""
        self._watched |= set(names)

    async def until(self, name: str, number: int, within: float = 60) -> None:
        """Wait until this edition is found."""
        async with asyncio.timeout(within):
            while self.editions.get(name, [0])[-1] != number:
                await self._next()

    async def more(self, answers: int = 6) -> None:
        """Wait for some more answers: the state that we are in is seen in each mode."""
        wanted = self.answers + answers
        async with asyncio.timeout(30):
            while self.answers < wanted:
                await self._next()

    async def _next(self) -> None:
        """Wait for the next answer; raises what was wrong with it."""
        assert self._asking is not None
        self._looked.clear()
        looked = asyncio.create_task(self._looked.wait())
        await asyncio.wait([looked, self._asking], return_when=asyncio.FIRST_COMPLETED)
        looked.cancel()
        if self._asking.done():
            await self._asking

    async def _ask(self) -> None:
        for mode in itertools.cycle(MODES):
            watched = set(self._watched)  # before the question: what is watched later may not be in its answer
            answer = await self._product_processes.get(f"/api/search?q=turbine&collection=papers&k=100&mode={mode}")
            self._look(answer, watched, mode)
            self._looked.set()
            await asyncio.sleep(PAUSE)

    def _look(self, answer: dict[str, Any], watched: set[str], mode: str) -> None:
        assert not answer["more"], "all of it must be on one page"
        by_name: dict[str, list[dict[str, Any]]] = {}
        for hit in answer["hits"]:
            by_name.setdefault(hit["name"], []).append(hit)
        missing = watched - by_name.keys()
        assert not missing, f"{missing} not found by {mode}, answer {self.answers}"
        for name, hits in by_name.items():
            if not name.endswith(".zip"):  # which is only a list of names
                self._look_at(name, hits, mode)
        self.answers += 1

    def _look_at(self, name: str, hits: list[dict[str, Any]], mode: str) -> None:
        versions = {hit["version"] for hit in hits}
        numbers = {number for hit in hits for number in EDITION.findall(hit["text"])}
        told = f"{name} by {mode}, answer {self.answers}: versions {versions}, editions {numbers}"
        assert len(versions) == len(numbers) == 1, told
        [version], [number] = versions, map(int, numbers)
        chunks = sorted(hit["chunk"] for hit in hits)
        assert chunks == list(range(len(chunks))), f"{told}, chunks {chunks}"
        assert set(chunks) == self._chunks.setdefault(version, set(chunks)), f"{told}, chunks {chunks}"
        assert version >= self._seen.get(name, 0), f"{told}: it was {self._seen[name]} before"
        if version != self._seen.get(name):
            self._seen[name] = version
            self.editions.setdefault(name, []).append(number)

    async def counted_right(self) -> None:
        """What was seen of each version is as many chunks as it has, by its row."""
        rows = await self._product_processes.connection.fetch(
            "select id, chunks from penstock.versions where chunks is not null"
        )
        known = {row["id"]: row["chunks"] for row in rows}
        assert {version: len(chunks) for version, chunks in self._chunks.items()} == {
            version: known[version] for version in self._chunks
        }
