"""A server with few connections: workers wait for each other in a deploy, and one that can never fit says what would."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from penstock.engine.connection_budget import connections_needed
from penstock.settings import DatabaseUrl
from tests.engine.limited_role import make_limited_role
from tests.processes import penstock
from tests.scenarios.worker_processes import WorkerProcess, WorkerProcesses

pytestmark = pytest.mark.slow

EACH = connections_needed(4, pooled=False)  # of these workers


async def test_a_rolling_deploy_waits_for_room(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, tmp_path: Path
) -> None:
    async with make_limited_role(database_url, tmp_path) as tenant:
        await tenant.admin.execute(f"grant all on all tables in schema public to {tenant.role}")
        await tenant.limit(EACH + 5)  # a waiting one has a few open, too
        room = {"PENSTOCK_DATABASE_URL": tenant.url.reveal()}
        old = await worker_processes.start(ready=True, **room)
        new = await hire_waiting(worker_processes, room)
        assert (
            await worker_processes.connection.fetchval("select count(*) from penstock.workers where gone_at is null")
            == 1
        )
        old.signal(signal.SIGTERM)
        assert await old.end() == 0
        await new.until("worker started")
        new.kill()
        await new.end()
        third = await worker_processes.start(
            ready=True, **room
        )  # nobody was left who could have noticed the end of the second
        assert "waiting for connections" in third.logged
        waiting = await hire_waiting(worker_processes, room)
        waiting.signal(signal.SIGTERM)
        assert await waiting.end(5) == 0, "a stop ends the waiting"
        third.signal(signal.SIGINT)
        await third.end()


async def hire_waiting(worker_processes: WorkerProcesses, environ: dict[str, str]) -> WorkerProcess:
    hand = await worker_processes.start(ready=False, **environ)
    await worker_processes.until(
        "select count(*) > 0 from pg_stat_activity where application_name like $1", f"%:{hand.pid}"
    )
    await hand.until("waiting for connections")
    return hand


async def test_one_that_can_never_fit_says_what_would(
    worker_processes: WorkerProcesses, database_url: DatabaseUrl, tmp_path: Path
) -> None:
    module = tmp_path / "app"
    module.mkdir()
    (module / "small.py").write_text(
        "from penstock import Penstock\napp = Penstock()\n@app.job()\nasync def nothing(ctx): ...\n"
    )
    async with make_limited_role(database_url, tmp_path) as tenant:
        await tenant.limit(connections_needed(3, pooled=False))
        environ = {
            "PENSTOCK_HOME": str(tmp_path),
            "PENSTOCK_DATABASE_URL": tenant.url.reveal(),
            "PYTHONPATH": os.pathsep.join([str(module), os.environ.get("PYTHONPATH", "")]),
        }
        code, said = await penstock("worker", "small:app", PENSTOCK_POOL__SIZE="4", **environ)
        assert code == 2, said
        assert "Set pool.size to 3 or less, or raise the limit." in said
        assert "Traceback" not in said
        async with asyncio.timeout(20):
            hand = await worker_processes.start(ready=True, **environ, PENSTOCK_POOL__SIZE="3")
        hand.signal(signal.SIGTERM)
        assert await hand.end() == 0
