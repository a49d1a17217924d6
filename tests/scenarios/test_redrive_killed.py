"""A redrive by the API or a page is a job: it survives the end of its worker, tries nothing twice, and stops in time."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.redrive import Selection
from penstock.errors import NothingChanged
from penstock.pipelines import Product
from tests.processes import Started
from tests.yard import SHOP, Yard, yard

__all__ = ["yard"]

TORN = 'raise Permanent(f"page {n} is torn")'
# Mended: the first one is read at once, the others when somebody turns the light on.
MENDED = """
    while n and not os.path.exists("light"):
        await asyncio.sleep(0.02)
    return n
"""


@pytest.fixture
async def product(yard: Yard, tmp_path: Path) -> AsyncIterator[Product]:
    async with Product(role="test", home=str(tmp_path), database_url=yard.client.dsn, pool__size=2) as opened:
        yield opened


async def kill_fifteen(yard: Yard) -> Started:
    worker = await yard.worker()
    for n in range(15):
        await yard.enqueue("read", n=n)
    await yard.until("select from penstock.jobs where state = 'dead' having count(*) = 15")
    return worker


async def redriver(yard: Yard) -> Started:
    """A worker of the product, which redrives; others have the jobs."""
    started = await yard.worker(place="")
    await yard.until("select from penstock.workers where pid = $1 and 'redrive_jobs' = any (kinds)", started.pid)
    return started


async def result_of(yard: Yard, job: int) -> Any:
    await yard.until_state(job, "done")
    return await yard.client.result(job)


async def test_it_goes_on_after_a_kill_and_tries_nothing_twice(yard: Yard, product: Product) -> None:
    worker = await kill_fifteen(yard)
    with pytest.raises(NothingChanged):
        await product.redriving.start(Selection(kind="read"))
    started = await product.redriving.start(Selection(kind="read"), force=True)
    assert started.job is not None
    first = await redriver(yard)
    stopped = await result_of(yard, started.job)
    assert stopped["stopped"].startswith("the same failure has returned")
    assert (len(stopped["failed_again"]), stopped["left"]) == (1, 14)
    tries = await yard.run("select attempt from penstock.jobs where state = 'dead' order by id")
    assert [row["attempt"] for row in tries] == [2] + [1] * 14, "one was tried, and the rest is as it was"

    os.kill(worker.pid, signal.SIGTERM)
    await worker.end()
    (yard.folder / "shop.py").write_text("import os\n" + SHOP.replace(TORN, MENDED.strip()))
    await yard.worker()
    started = await product.redriving.start(Selection(kind="read"))
    again = await product.redriving.start(Selection(kind="read"), force=True)
    assert (started.created, again.created, again.job) == (True, False, started.job)
    assert started.job is not None
    reading = (
        "select from penstock.jobs join penstock.lanes on lanes.id = lane where kind = 'read' and state = 'running'"
    )
    await yard.until(f"{reading} having count(*) = 10")  # one is done, and ten wait for the light
    code, said = await yard.penstock("dead", "redrive", "--kind", "read")
    assert (code, f"Job {started.job} redrives them already" in said) == (2, True), said
    os.kill(first.pid, signal.SIGKILL)
    await redriver(yard)
    await yard.until("select from penstock.jobs where id = $1 and state = 'running' and attempt = 2", started.job)
    (yard.folder / "light").touch()
    done = await result_of(yard, started.job)
    assert (done["done"], done["stopped"], done["left"]) == (15, "", 0)
    assert done["sentence"] == "15 jobs done."
    tries = await yard.run(
        "select past.id, attempt from penstock.job_history as past join penstock.lanes on lanes.id = lane "
        "where kind = 'read' order by 1"
    )
    assert [row["attempt"] for row in tries] == [3] + [2] * 14, "each had one more"
