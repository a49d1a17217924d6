"""A worker is killed in every part of a document's way: another one goes on, and there is one set of everything."""

import signal

import pytest

from tests.sample_documents import archive, picture, story
from tests.scenarios.product_processes import ProductProcesses
from tests.slow import slow_but_first

FILES = {
    "long.txt": story(60_000),  # several batches of chunks
    "scan.png": picture("Turbine house"),
    "packed.zip": archive(first_txt=story(500, 1), second_txt=story(500, 2)),
}
PLACES = [
    "after-claim",
    "step:read",
    "step:ocr",
    "step:unpack",
    "step:chunk",
    "step:embed@3",
    "step:index@2",
    "before-finish",
    "before-commit",
    "after-commit-before-ack",
]


@pytest.mark.parametrize("place", slow_but_first(PLACES))
async def test_it_goes_on_after_a_kill(product_processes: ProductProcesses, place: str) -> None:
    point, _, passage = place.partition("@")
    armed = f"{point}=kill@{passage or 1}"
    victim = await product_processes.start_worker(PENSTOCK_TEST_FAILPOINTS=armed)
    await product_processes.add(FILES)
    assert await victim.end(60) == -signal.SIGKILL, victim.logged
    await product_processes.start_worker()
    await product_processes.until_over()
    assert await product_processes.states() == dict.fromkeys(
        [*FILES, "packed.zip!/first.txt", "packed.zip!/second.txt"], "ready"
    )
    assert await product_processes.violations() == []
    assert await product_processes.connection.fetchval("select count(*) from penstock.versions") == 5
    assert (
        await product_processes.connection.fetchval("select count(*) from penstock.events where event = 'ready'") == 5
    )
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await product_processes.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"
