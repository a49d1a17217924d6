"""Documents are replaced while somebody searches all the time: at every moment exactly one version is seen."""

import asyncio
import signal
from typing import Any

import pytest

from penstock.pipelines import prepare
from tests.sample_documents import archive, picture
from tests.scenarios.continuous_search import ContinuousSearch, edition
from tests.scenarios.live_versions import only_live_versions_are_left, worker_in_this_process
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

BROKEN = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
SMALL = "tests.scenarios.small_batches_worker"
PLACES = [
    "after-claim",
    "step:read",
    "step:chunk",
    "step:embed@3",
    "step:index@2",
    "before-finish",
    "before-commit",
    "after-commit-before-ack",
]


async def replace(product_processes: ProductProcesses, name: str, content: bytes) -> dict[str, Any]:
    status, answer = await product_processes.put(f"{name}?replace=true", content)
    assert status == 202, answer
    return answer


async def post(product_processes: ProductProcesses, path: str) -> None:
    async with product_processes.http.post(f"{product_processes.address}{path}") as answer:
        assert answer.status == 202, await answer.text()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of this process writes as few chunks at a time as the others."""
    monkeypatch.setattr(prepare, "BATCH", 4)


async def replace_and_kill(product_processes: ProductProcesses, name: str, content: bytes, place: str) -> None:
    """The worker dies at this place; another one goes on."""
    point, _, passage = place.partition("@")
    armed = f"{point}=kill@{passage or 1}"
    victim = await product_processes.start_worker(module=SMALL, PENSTOCK_POOL__SIZE="4", PENSTOCK_TEST_FAILPOINTS=armed)
    await replace(product_processes, name, content)
    assert await victim.end(60) == -signal.SIGKILL, (place, victim.logged)
    async with worker_in_this_process(product_processes):
        await product_processes.until_over()


async def begin(product_processes: ProductProcesses, **files: bytes) -> dict[str, int]:
    """An API process, and these files ready."""
    await product_processes.start_api()
    numbers = await product_processes.add({name.replace("_", "."): content for name, content in files.items()})
    async with worker_in_this_process(product_processes):
        await product_processes.until_over()
    return numbers


async def test_one_version_is_seen_while_workers_are_killed(product_processes: ProductProcesses) -> None:
    """In every step of the new version's way, one after the other."""
    await begin(product_processes, report_txt=edition(1))
    async with ContinuousSearch(product_processes) as reader:
        reader.watch("report.txt")
        await reader.until("report.txt", 1)
        for number, place in enumerate(PLACES, 2):
            await replace_and_kill(product_processes, "report.txt", edition(number), place)
            await reader.until("report.txt", number)
        await reader.more()
    assert reader.editions == {"report.txt": list(range(1, len(PLACES) + 2))}
    assert reader.answers > 10 * len(PLACES), "it did not search all the time"
    await reader.counted_right()
    versions = await product_processes.connection.fetch("select number, dead_at from penstock.versions order by number")
    assert [row["dead_at"] is None for row in versions] == [False] * len(PLACES) + [True]
    await only_live_versions_are_left(product_processes)
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await product_processes.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"


async def test_a_scan_and_an_archive_are_replaced_while_workers_are_killed(product_processes: ProductProcesses) -> None:
    """Their own steps. What is unchanged inside stays, what is gone is not found any more."""
    old = archive(kept_txt=edition(1, 20), changed_txt=edition(1, 30), gone_txt=edition(1, 10))
    new = archive(kept_txt=edition(1, 20), changed_txt=edition(2, 30), new_txt=edition(2, 10))
    newest = archive(kept_txt=edition(1, 20), changed_txt=edition(3, 30), new_txt=edition(2, 10))
    await begin(product_processes, scan_png=picture("Turbine. Edition 1"), packed_zip=old)
    async with ContinuousSearch(product_processes) as reader:
        reader.watch("scan.png", "packed.zip!/kept.txt", "packed.zip!/changed.txt")
        await reader.until("packed.zip!/gone.txt", 1)
        await replace_and_kill(product_processes, "scan.png", picture("Turbine. Edition 2"), "step:ocr")
        await reader.until("scan.png", 2)
        await replace_and_kill(product_processes, "packed.zip", new, "step:unpack")
        await reader.until("packed.zip!/changed.txt", 2)
        await replace_and_kill(product_processes, "packed.zip", newest, "before-commit")
        await reader.until("packed.zip!/changed.txt", 3)
        await reader.more()
    assert reader.editions == {
        "scan.png": [1, 2],
        "packed.zip!/kept.txt": [1],
        "packed.zip!/changed.txt": [1, 2, 3],
        "packed.zip!/gone.txt": [1],
        "packed.zip!/new.txt": [2],
    }
    states = await product_processes.states()
    assert states.pop("packed.zip!/gone.txt") == "deleted"
    assert set(states.values()) == {"ready"}
    await reader.counted_right()
    await only_live_versions_are_left(product_processes)


async def test_ten_clients_replace_one_document(product_processes: ProductProcesses) -> None:
    """Each gets a version; the newest wins, and nobody sees a mixture or an older one after a newer one."""
    await begin(product_processes, report_txt=edition(1))
    other = await product_processes.start_worker(module=SMALL, PENSTOCK_POOL__SIZE="4")
    async with worker_in_this_process(product_processes), ContinuousSearch(product_processes) as reader:
        reader.watch("report.txt")
        await reader.until("report.txt", 1)
        for rounds in range(2):
            numbers = range(2 + 10 * rounds, 12 + 10 * rounds)
            answers = await asyncio.gather(
                *(replace(product_processes, "report.txt", edition(number)) for number in numbers)
            )
            by_version = {answer["version"]: number for answer, number in zip(answers, numbers, strict=True)}
            assert sorted(by_version) == list(numbers)
            await reader.until("report.txt", by_version[max(by_version)])
        await product_processes.until_over()
        await reader.more()
    await product_processes.until(
        "select not exists (select from penstock.jobs as job join penstock.versions on job_id = job.id)"
    )
    other.kill()
    await reader.counted_right()
    await only_live_versions_are_left(product_processes)
    assert (
        await product_processes.connection.fetchval("select count(*) from penstock.versions where dead_at is null") == 1
    )


async def test_a_broken_or_cancelled_version_leaves_the_old_one(product_processes: ProductProcesses) -> None:
    numbers = await begin(product_processes, report_txt=edition(1))
    address = f"/api/documents/{numbers['report.txt']}"

    async def failed() -> dict[str, Any]:
        await product_processes.until_over()
        shown = await product_processes.get(address)
        assert shown["status"] == "failed", shown
        return shown | {"why": (await product_processes.get(f"{address}/why"))["sentence"]}

    async with ContinuousSearch(product_processes) as reader:
        reader.watch("report.txt")
        await reader.until("report.txt", 1)
        async with worker_in_this_process(product_processes):
            assert (
                "version 1 is found until it is ready"
                in (await replace(product_processes, "report.txt", BROKEN))["message"]
            )
            shown = await failed()
            assert (shown["version"], shown["live_version"]) == (2, 1)
            assert ": version 2 failed" in shown["why"]
            assert "; version 1 is still found. " in shown["why"]
            await reader.more()
            await post(product_processes, f"{address}/retry")
            assert (await failed())["why"] == shown["why"]

            await replace(product_processes, "report.txt", edition(3))
            await reader.until("report.txt", 3)

        await replace(product_processes, "report.txt", edition(4))
        await post(product_processes, f"{address}/cancel")
        shown = await failed()
        assert (shown["version"], shown["live_version"]) == (4, 3)
        assert "version 4 failed (Cancelled)" in shown["why"]
        assert "version 3 is still found" in shown["why"]
        await reader.more()
        await post(product_processes, f"{address}/retry")
        async with worker_in_this_process(product_processes):
            await reader.until("report.txt", 4)
    assert reader.editions == {"report.txt": [1, 3, 4]}
    await only_live_versions_are_left(product_processes)


# To be appended to tests/scenarios/test_replacing.py. It fails today: see the report.
async def test_a_version_is_cancelled_after_its_first_batches_and_retried(product_processes: ProductProcesses) -> None:
    """What the ended job had staged is in nobody's way."""
    numbers = await begin(product_processes, report_txt=edition(1))
    address = f"/api/documents/{numbers['report.txt']}"
    victim = await product_processes.start_worker(
        module=SMALL, PENSTOCK_POOL__SIZE="4", PENSTOCK_TEST_FAILPOINTS="step:index=kill@3"
    )
    await replace(product_processes, "report.txt", edition(2))
    assert await victim.end(60) == -signal.SIGKILL
    await post(product_processes, f"{address}/cancel")
    async with worker_in_this_process(product_processes):
        await product_processes.until_over()
        assert (await product_processes.get(address))["error"]["class"] == "Cancelled"
        await post(product_processes, f"{address}/retry")
        await product_processes.until_over()
    assert (await product_processes.get(address))["live_version"] == 2
    failures = "select error ->> 'message' from penstock.job_history where failures > 0"
    assert [row[0] for row in await product_processes.connection.fetch(failures)] == []
