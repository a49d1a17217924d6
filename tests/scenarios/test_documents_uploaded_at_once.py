"""Many clients at once: one name is one document, one content is one blob."""

import asyncio

from tests.scenarios.library import Library
from tests.scenarios.made import story


async def test_the_same_file_by_twenty_clients(library: Library) -> None:
    await library.serve()
    content = story(5_000)
    answers = await asyncio.gather(*(library.put("report.txt", content) for _ in range(20)))
    assert sorted(status for status, _ in answers) == [202] + [409] * 19
    [accepted] = [answer for status, answer in answers if status == 202]
    assert {answer["existing"] for status, answer in answers if status == 409} == {accepted["id"]}
    assert accepted["served"] is False
    assert "no worker is running" in accepted["message"]
    await library.hire()
    await library.until_over()
    assert await library.states() == {"report.txt": "ready"}
    assert await library.violations() == []


async def test_the_same_content_under_twenty_names(library: Library) -> None:
    await library.serve()
    content = story(5_000)
    answers = await asyncio.gather(*(library.put(f"copy-{number}.txt", content) for number in range(20)))
    assert {status for status, _ in answers} == {202}
    assert await library.connection.fetchval("select count(*) from penstock.blobs") == 1
    kept = [path for path in (library.home / "blobs").rglob("*") if path.is_file()]
    assert len(kept) == 1, "what was uploaded beside it is gone"
    await library.hire()
    await library.until_over()
    assert set((await library.states()).values()) == {"ready"}
    assert await library.violations() == []
