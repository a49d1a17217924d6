"""A redrive by the API or a page is a job: it survives the end of its worker, tries nothing twice, and stops in time."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.inspect.dead_letters import Selection
from penstock.errors import NothingChanged
from penstock.product import Product
from tests.application import SOURCE, Application, application
from tests.processes import Started

pytestmark = pytest.mark.slow

__all__ = ["application"]

TORN = 'raise Permanent(f"page {n} is torn")'
# Mended: the first one is read at once, the others when somebody turns the light on.
MENDED = """
    while n and not os.path.exists("light"):
        await asyncio.sleep(0.02)
    return n
"""


@pytest.fixture
async def product(application: Application, tmp_path: Path) -> AsyncIterator[Product]:
    async with Product(role="test", home=str(tmp_path), database_url=application.client.dsn, pool__size=2) as opened:
        yield opened


async def kill_fifteen(application: Application) -> Started:
    worker = await application.worker()
    for n in range(15):
        await application.enqueue("read", n=n)
    await application.until("select from penstock.jobs where state = 'dead' having count(*) = 15")
    return worker


async def redriver(application: Application) -> Started:
    """A worker of the product, which redrives; others have the jobs."""
    started = await application.worker(place="")
    await application.until("select from penstock.workers where pid = $1 and 'redrive_jobs' = any (kinds)", started.pid)
    return started


async def result_of(application: Application, job: int) -> Any:
    await application.until_state(job, "done")
    return await application.client.result(job)


async def test_it_goes_on_after_a_kill_and_tries_nothing_twice(application: Application, product: Product) -> None:
    worker = await kill_fifteen(application)
    with pytest.raises(NothingChanged):
        await product.redrive.start(Selection(kind="read"))
    started = await product.redrive.start(Selection(kind="read"), force=True)
    assert started.job is not None
    first = await redriver(application)
    stopped = await result_of(application, started.job)
    assert stopped["stopped"].startswith("the same failure has returned")
    assert (len(stopped["failed_again"]), stopped["left"]) == (1, 14)
    tries = await application.run("select attempt from penstock.jobs where state = 'dead' order by id")
    assert [row["attempt"] for row in tries] == [2] + [1] * 14, "one was tried, and the rest is as it was"

    os.kill(worker.pid, signal.SIGTERM)
    await worker.end()
    (application.folder / "shop.py").write_text("import os\n" + SOURCE.replace(TORN, MENDED.strip()))
    await application.worker()
    started = await product.redrive.start(Selection(kind="read"))
    again = await product.redrive.start(Selection(kind="read"), force=True)
    assert (started.created, again.created, again.job) == (True, False, started.job)
    assert started.job is not None
    reading = (
        "select from penstock.jobs join penstock.lanes on lanes.id = lane where kind = 'read' and state = 'running'"
    )
    await application.until(f"{reading} having count(*) = 10")  # one is done, and ten wait for the light
    code, said = await application.penstock("dead", "redrive", "--kind", "read")
    assert (code, f"Job {started.job} redrives them already" in said) == (2, True), said
    os.kill(first.pid, signal.SIGKILL)
    await redriver(application)
    await application.until(
        "select from penstock.jobs where id = $1 and state = 'running' and attempt = 2", started.job
    )
    (application.folder / "light").touch()
    done = await result_of(application, started.job)
    assert (done["done"], done["stopped"], done["left"]) == (15, "", 0)
    assert done["sentence"] == "15 jobs done."
    tries = await application.run(
        "select past.id, attempt from penstock.job_history as past join penstock.lanes on lanes.id = lane "
        "where kind = 'read' order by 1"
    )
    assert [row["attempt"] for row in tries] == [3] + [2] * 14, "each had one more"
