"""Hostile files among good ones, in the running product: each ends as ready or failed with a reason, and nobody else notices.

A run of the tests takes a tenth of the files, another one each day (`PENSTOCK_TEST_TENTH=0` … `9` chooses); `./dev test --real`
takes all of them, those of the shared corpus too.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from yarl import URL

from tests.hostile.file import ANY, File
from tests.hostile.files import hostile_files
from tests.hostile.names import DOCUMENT, NAMES, Name
from tests.hostile.verdict import INNER, LONGEST_SENTENCE
from tests.sample_documents import story
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

CORPUS = Path(__file__).parents[2].parent / "shared/corpus/hostile"
TENTH = int(os.environ.get("PENSTOCK_TEST_TENTH", time.localtime().tm_yday % 10))
GOOD = {f"good-{number}.txt": story(200, number) for number in range(20)}
WITHIN = 60.0  # seconds from the first claim to the end, retries included
MEMORY_MOST = 1.5 * 2**30  # of the worker itself: its children have limits of their own
ENDS = """
select document.name, document.parent_id is null as sent, document.state,
  coalesce(document.error ->> 'type', document.error ->> 'class') as kind,
  document.error ->> 'message' as said, cardinality(job.attempts) as tries,
  extract(epoch from ended.at - job.attempts[1].started_at)::float8 as seconds
from penstock.documents as document
join (
  select id, attempts from penstock.jobs union all select id, attempts from penstock.job_history
) as job on job.id = document.job_id
left join lateral (
  select max(at) as at from penstock.events where document_id = document.id and event in ('ready', 'failed')
) as ended on true
"""


@dataclass(frozen=True)
class End:
    """What became of one document."""

    name: str
    sent: bool  # and not found inside of another one
    state: str
    kind: str | None
    said: str | None
    tries: int
    seconds: float | None


@pytest.mark.timeout(300)
async def test_hostile_documents_of_today(product_processes: ProductProcesses) -> None:
    files = {file.name: file for file in hostile_files()[TENTH::10]}
    assert len(files) > 50
    await send_and_judge(product_processes, files, within=200)


@pytest.mark.real
@pytest.mark.timeout(1200)
async def test_all_hostile_documents(product_processes: ProductProcesses) -> None:
    files = {file.name: file for file in hostile_files()}
    if CORPUS.exists():
        files |= {path.name: File(path.name, path.read_bytes, "either") for path in CORPUS.iterdir()}
    await send_and_judge(product_processes, files, within=1000)


async def send_and_judge(product_processes: ProductProcesses, files: Mapping[str, File], within: float) -> None:
    await product_processes.start_api()
    hand = await product_processes.start_worker()
    async with watched_memory(hand.pid) as largest:
        statuses = {name: (await product_processes.put(name, file.content()))[0] for name, file in files.items()}
        statuses |= {name: (await product_processes.put(name, content))[0] for name, content in GOOD.items()}
        assert {name: status for name, status in statuses.items() if status != 202} == {}
        await product_processes.until_over(within=within)
    assert hand.running, hand.logged[-3000:]
    assert max(largest) < MEMORY_MOST
    ends = [End(**dict(row)) for row in await product_processes.connection.fetch(ENDS)]
    found = [complaint for end in ends for complaint in complaints(end, files.get(end.name) if end.sent else None)]
    assert not found, f"the tenth was {TENTH}:\n" + "\n".join(found)
    states = {end.name: end.state for end in ends}
    assert [name for name in GOOD if states[name] != "ready"] == []
    assert set(files) <= set(states)
    assert await product_processes.violations() == []
    hits = await product_processes.get("/api/search?q=turbine+gate&collection=papers&k=5")
    assert hits["hits"]


def complaints(end: End, file: File | None) -> list[str]:
    found = []
    if end.state not in {"ready", "failed"} or end.seconds is None:
        return [f"{end.name}: it is {end.state}"]
    if end.seconds > WITHIN:
        found.append(f"took {end.seconds:.0f} s from its first claim, in {end.tries} tries")
    if end.state == "failed":
        found += _of_failure(end, {kind.__name__ for kind in _all_kinds(file.errors if file else ANY)})
    if file is not None and {"ready": "failed", "failed": "ready"}.get(file.expect) == end.state:
        found.append(f"is {end.state}: {end.said}")
    return [f"{end.name}: {complaint}" for complaint in found]


def _of_failure(end: End, kinds: set[str]) -> list[str]:
    found = []
    if end.kind not in kinds:
        found.append(f"failed as {end.kind}: {end.said}")
    if end.tries > 1 and end.kind != "ResourceLimit":
        found.append(f"{end.kind} after {end.tries} tries")
    said = end.said or ""
    if len(said) > LONGEST_SENTENCE or len(said.split()) < 3 or INNER.search(said):
        found.append(f"no sentence for a person: {said!r}")
    return found


def _all_kinds(kinds: tuple[type, ...]) -> list[type]:
    return [*kinds, *(below for kind in kinds for below in _all_kinds(tuple(kind.__subclasses__())))]


@asynccontextmanager
async def watched_memory(pid: int) -> AsyncIterator[list[int]]:
    seen, process = [0], psutil.Process(pid)

    async def watch() -> None:
        while True:
            with suppress(psutil.NoSuchProcess):
                seen[0] = max(seen[0], process.memory_info().rss)
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()


async def test_hostile_names_are_kept_or_refused_with_a_sentence(product_processes: ProductProcesses) -> None:
    await product_processes.start_api()
    answers = {name.what: await send_named(product_processes, name) for name in NAMES}
    wrong = []
    for name in NAMES:
        status, answer = answers[name.what]
        if name.kept is None and not (400 <= status < 500 and len(answer.get("detail", "").split()) > 2):
            wrong.append(f"{name.what}: {status} {answer}")
        if name.kept is not None and (status, answer.get("name")) != (202, name.kept):
            wrong.append(f"{name.what}: {status} {answer}")
    assert not wrong, "\n".join(wrong)
    hand = await product_processes.start_worker()
    await product_processes.until_over()
    assert hand.running
    assert await product_processes.states() == {name.kept: "ready" for name in NAMES if name.kept is not None}
    for path in product_processes.home.rglob("*"):  # no name of a document is ever one of a file
        assert not {"con", "nul.txt", "passwd", ".env"} & set(path.parts)


async def send_named(product_processes: ProductProcesses, name: Name) -> tuple[int, dict[str, Any]]:
    """Each byte as the client would have to write it."""
    address = f"{product_processes.address}/api/collections/papers/documents/{quote(name.raw, safe='')}"
    async with product_processes.http.put(URL(address, encoded=True), data=DOCUMENT) as answer:
        return answer.status, await answer.json(content_type=None)
