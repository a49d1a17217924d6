"""A worker is killed in every part of a document's way: another one goes on, and there is one set of everything."""

import signal

import pytest

from tests.scenarios.library import Library
from tests.scenarios.made import archive, picture, story

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


@pytest.mark.parametrize("place", PLACES)
async def test_it_goes_on_after_a_kill(library: Library, place: str) -> None:
    point, _, passage = place.partition("@")
    armed = f"{point}=kill@{passage or 1}"
    victim = await library.hire(PENSTOCK_TEST_FAILPOINTS=armed)
    await library.add(FILES)
    assert await victim.end(60) == -signal.SIGKILL, victim.logged
    await library.hire()
    await library.until_over()
    assert await library.states() == dict.fromkeys([*FILES, "packed.zip!/first.txt", "packed.zip!/second.txt"], "ready")
    assert await library.violations() == []
    assert await library.connection.fetchval("select count(*) from penstock.versions") == 5
    assert await library.connection.fetchval("select count(*) from penstock.events where event = 'ready'") == 5
    charged = "select count(*) from penstock.job_history where failures > 0"
    assert await library.connection.fetchval(charged) == 0, "a lost worker is nobody's fault"
