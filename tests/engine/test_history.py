"""The history is kept by day."""

from penstock.engine.history import make_partitions
from penstock.engine.outcome import Done
from tests.engine.conftest import Shop


async def make(shop: Shop) -> int:
    session = await shop.database.direct("test")
    try:
        return await make_partitions(session)
    finally:
        session.terminate()


async def test_partitions_are_made_ahead_and_once(shop: Shop) -> None:
    assert await make(shop) == 3
    assert await make(shop) == 0
    await shop.advance(24 * 3600)
    assert await make(shop) == 1


async def test_a_finished_job_is_found_in_its_day(shop: Shop) -> None:
    await make(shop)
    [number] = await shop.enqueue()
    worker = await shop.worker()
    [job] = await shop.claim(worker)
    await shop.settle(worker, (job, Done()))
    [row] = await shop.run("select tableoid::regclass::text as place from penstock.job_history")
    assert "job_history_2" in row["place"]
    assert await shop.state(number) == "done"


async def test_a_day_that_began_in_the_rest_stays_there(shop: Shop) -> None:
    [number] = await shop.enqueue()
    worker = await shop.worker()
    [job] = await shop.claim(worker)
    await shop.settle(worker, (job, Done()))
    assert await make(shop) == 2, "only the days to come"
    assert await shop.state(number) == "done"
