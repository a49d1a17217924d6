"""Each finding of the doctor: a test that causes it, and one in which the advised command removes it.

The commands are run as they are advised, in a real process, with `module:app` and the dots filled in.
"""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.database import Database
from penstock.database.migrations import FOLDER, migrate
from penstock.engine import Kind
from penstock.operations import Finding, examine
from penstock.settings import DatabaseUrl, Settings
from tests.processes import Started, clean_environ
from tests.yard import SHOP, Yard, anything


async def findings(yard: Yard, name: str) -> list[Finding]:
    return [finding for finding in await examine(yard.client.settings) if finding.name == name]


async def found(yard: Yard, name: str, within: float = 15) -> Finding:
    """Wait for the finding: what workers report comes with their beats."""
    async with asyncio.timeout(within):
        while not (seen := await findings(yard, name)):  # noqa: ASYNC110  it is another process
            await asyncio.sleep(0.05)
    assert len(seen) == 1, seen
    return seen[0]


async def vanished(yard: Yard, name: str, within: float = 15) -> None:
    async with asyncio.timeout(within):
        while await findings(yard, name):  # noqa: ASYNC110  it is another process
            await asyncio.sleep(0.05)


def fill(finding: Finding, places: Mapping[str, str]) -> str:
    """The command, with what is the reader's to choose in place of the dots."""
    command = finding.command
    for dots, chosen in places.items():
        assert dots in command, finding
        command = command.replace(dots, chosen)
    assert "…" not in command, command
    return command


async def obey(yard: Yard, finding: Finding, places: Mapping[str, str] | None = None) -> Started | None:
    """Run what is advised; a worker goes on running."""
    words = [word for word in shlex.split(fill(finding, places or {})) if word != "env"]
    environ = dict(word.split("=", 1) for word in words if word.startswith("PENSTOCK_"))
    words = [word for word in words if not word.startswith("PENSTOCK_")]
    assert words[0] in {"penstock", "kill"}, finding
    if words[0] == "kill":
        subprocess.run(words, check=True)
        return None
    if words[1] == "worker":
        place = {"module:app": "shop:app"}[words[2]] if words[2:] else ""  # nothing: the worker of documents
        return await yard.worker(*words[3:], place=place, **environ)
    code, said = await yard.penstock(*words[1:], **environ)
    assert code == 0, said
    return None


async def obey_in_a_shell(
    yard: Yard, finding: Finding, places: Mapping[str, str] | None = None
) -> tuple[str, list[dict[str, Any]]]:
    """Run it as a person does, then ask doctor in the same shell: what the command printed, and what is found then."""
    script = f"{fill(finding, places or {})}\npenstock doctor --json > doctor.json"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        script,
        env=clean_environ(yard.environ | {"PATH": path}),
        cwd=yard.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    answer = json.loads((yard.folder / "doctor.json").read_text())
    return said.decode(), answer["findings"]


async def test_nothing_is_wrong(yard: Yard) -> None:
    await yard.worker()
    assert await examine(yard.client.settings) == []
    assert await yard.penstock("doctor") == (0, "Nothing is wrong.\n")
    assert await yard.ask("doctor") == {"healthy": True, "findings": []}


async def test_no_worker(yard: Yard) -> None:
    finding = await found(yard, "no-worker")
    assert finding.command == "penstock worker module:app"
    answer = await yard.ask("doctor", code=1)
    assert [one["name"] for one in answer["findings"]] == ["no-worker"]
    code, said = await yard.penstock("doctor")
    assert (code, "No worker is alive" in said, "\n    penstock worker module:app\n" in said) == (1, True, True), said


async def test_no_worker_is_removed_by_a_worker(yard: Yard) -> None:
    await obey(yard, await found(yard, "no-worker"))
    await vanished(yard, "no-worker")


async def test_a_silent_worker(yard: Yard) -> None:
    await yard.worker()
    hanging = await yard.worker()
    os.kill(hanging.pid, signal.SIGSTOP)
    finding = await found(yard, "silent-worker")
    assert finding.command == f"kill -KILL {hanging.pid}"
    os.kill(hanging.pid, signal.SIGCONT)


async def test_a_silent_worker_is_removed_by_ending_it(yard: Yard) -> None:
    await yard.worker()
    hanging = await yard.worker()
    os.kill(hanging.pid, signal.SIGSTOP)
    await obey(yard, await found(yard, "silent-worker"))
    await vanished(yard, "silent-worker", within=5)


async def test_the_last_worker_that_died_is_removed_by_a_new_one(yard: Yard) -> None:
    """Nobody was left who could have noticed."""
    dead = await yard.worker()
    os.kill(dead.pid, signal.SIGKILL)
    await dead.end()
    await yard.run("update penstock.test_clock set shift = shift + interval '1 minute'")
    finding = await found(yard, "silent-worker")
    assert finding.command == "penstock worker module:app"
    await obey(yard, finding)
    await vanished(yard, "silent-worker")


async def exhaust(yard: Yard) -> Started:
    worker = await yard.worker(PENSTOCK_POOL__SIZE="2")
    for _ in range(3):
        await yard.enqueue("hog", queue="hog")
    return worker


async def test_an_exhausted_pool(yard: Yard) -> None:
    worker = await exhaust(yard)
    finding = await found(yard, "pool-full")
    assert "all 2 connections are in use" in finding.sentence
    assert finding.command == "PENSTOCK_POOL__SIZE=4 penstock worker module:app"
    os.kill(worker.pid, signal.SIGKILL)


async def test_an_exhausted_pool_is_removed_by_a_larger_one(yard: Yard) -> None:
    worker = await exhaust(yard)
    finding = await found(yard, "pool-full")
    os.kill(worker.pid, signal.SIGKILL)
    await yard.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'its process ended'")
    await yard.run("update penstock.jobs set state = 'ready', worker_id = null, claimed_at = null")
    await obey(yard, finding)
    await yard.until("select from penstock.jobs where state = 'running' having count(*) = 3")
    await yard.until("select from penstock.workers where gone_at is null and (load ->> 'pool')::int >= 3")
    await vanished(yard, "pool-full")


async def take_back_schema(settings: Settings, folder: Path) -> None:
    """The database as an earlier release left it: one migration less."""
    (folder / "schema").mkdir()
    for file in sorted(FOLDER.glob("*.sql"))[:-1]:
        (folder / "schema" / file.name).write_text(file.read_text())
    assert settings.database_url is not None
    connection = await asyncpg.connect(settings.database_url.reveal())
    await connection.execute("drop schema penstock cascade")
    await migrate(connection, folder=folder / "schema")  # type: ignore[arg-type]
    await connection.close()


async def test_a_schema_that_is_behind(settings: Settings, tmp_path: Path) -> None:
    await take_back_schema(settings, tmp_path)
    [finding] = await examine(settings)
    assert (finding.name, finding.command) == ("schema-behind", "penstock db migrate")
    assert "is missing" in finding.sentence


async def test_a_schema_that_is_behind_is_removed_by_migrating(yard: Yard, tmp_path: Path) -> None:
    await take_back_schema(yard.client.settings, tmp_path)
    await obey(yard, await found(yard, "schema-behind"))
    await vanished(yard, "schema-behind")


async def test_a_schema_that_is_ahead(settings: Settings, database: Database) -> None:
    """Removed by another release, which no test can install."""
    async with database.pool.session() as session:
        for step in (1, 2):
            known = len(list(FOLDER.glob("*.sql")))
            await session.execute("insert into penstock.migrations values ($1, 'new', 'x')", known + step)
            names = [finding.name for finding in await examine(settings)]
            assert ("schema-ahead" in names) == (step == 2), "one step ahead is a rolling deploy"


async def test_notifications_that_do_not_arrive(settings: Settings, database_url: DatabaseUrl) -> None:
    # A direct way that leads to another database: notifications stay in their own.
    astray = settings.model_copy(update={"database_direct_url": database_url.with_database("postgres")})
    finding = next(finding for finding in await examine(astray) if finding.name == "notifications")
    assert finding.command.startswith("export PENSTOCK_DATABASE_DIRECT_URL='postgresql://…'")


async def test_notifications_arrive_by_the_right_way(yard: Yard, database_url: DatabaseUrl) -> None:
    await yard.worker()
    yard.environ["PENSTOCK_DATABASE_DIRECT_URL"] = database_url.with_database("postgres").reveal()
    [told] = (await yard.ask("doctor", code=1))["findings"]
    assert told["name"] == "notifications"
    finding = Finding(told["name"], told["sentence"], told["command"])
    _, left = await obey_in_a_shell(yard, finding, {"postgresql://…": database_url.reveal()})
    assert left == []


async def test_notifications_that_a_worker_misses(yard: Yard) -> None:
    worker = await yard.worker()
    os.kill(worker.pid, signal.SIGSTOP)  # or its next beat would correct what is put into its mouth
    await yard.run("""update penstock.workers set load = load || '{"notified": false}'""")
    finding = await found(yard, "notifications")
    assert "Notifications do not arrive at 1 worker" in finding.sentence
    os.kill(worker.pid, signal.SIGCONT)
    await vanished(yard, "notifications")


async def age(yard: Yard) -> None:
    """One slot, taken for long, and a job behind it that came ten minutes ago."""
    await yard.worker("--queues", "slow=1")
    await yard.until_state(await yard.enqueue("rest", queue="slow"), "running")
    waiting = await yard.enqueue("rest", queue="slow", seconds=0.1)
    await yard.run("update penstock.jobs set enqueued_at = enqueued_at - interval '10 min' where id = $1", waiting)


async def test_an_old_job(yard: Yard) -> None:
    await age(yard)
    finding = await found(yard, "old-job")
    assert "of the kind rest" in finding.sentence
    assert "1 of 1 slots are in use" in finding.sentence
    assert not [
        one for one in await examine(yard.client.settings, old_after=timedelta(hours=1)) if one.name == "old-job"
    ]


async def test_an_old_job_is_removed_by_another_worker(yard: Yard) -> None:
    await age(yard)
    await obey(yard, await found(yard, "old-job"))
    await vanished(yard, "old-job")


async def test_an_unserved_kind(yard: Yard) -> None:
    await yard.worker("--queues", "default=1")
    await yard.enqueue("rest", queue="slow")
    await yard.enqueue("rest", queue="slow")
    finding = await found(yard, "unserved-kind")
    assert "No live worker serves the kind rest in the queue slow: 2 ready jobs" in finding.sentence


async def test_an_unserved_kind_is_removed_by_a_worker_that_serves_it(yard: Yard) -> None:
    await yard.worker("--queues", "default=1")
    await yard.enqueue("rest", queue="slow")
    await obey(yard, await found(yard, "unserved-kind"))
    await vanished(yard, "unserved-kind")


async def kill_three(yard: Yard) -> Started:
    worker = await yard.worker()
    for n in range(3):
        await yard.until_state(await yard.enqueue("read", n=n), "dead")
    return worker


async def test_dead_jobs(yard: Yard) -> None:
    await kill_three(yard)
    finding = await found(yard, "dead-jobs")
    assert "3 read jobs have died of the same cause, Permanent: page" in finding.sentence
    assert finding.evidence["count"] == 3


async def test_dead_jobs_are_removed_by_a_redrive_of_the_mended_code(yard: Yard) -> None:
    worker = await kill_three(yard)
    finding = await found(yard, "dead-jobs")
    os.kill(worker.pid, signal.SIGTERM)
    await worker.end()
    (yard.folder / "shop.py").write_text(SHOP.replace('raise Permanent(f"page {n} is torn")', "return n"))
    await yard.worker()
    await yard.until("select from penstock.workers where gone_at is null and load ? 'code'")
    await obey(yard, finding)
    await vanished(yard, "dead-jobs")


async def test_dead_children_of_a_parent_that_is_over_are_given_up(yard: Yard) -> None:
    await kill_three(yard)
    await yard.run("update penstock.jobs set fanout = 1, turn = id")  # of a fan-out that went with its parent
    finding = await found(yard, "dead-jobs")
    assert "nobody waits for them" in finding.sentence
    await obey(yard, finding)
    await vanished(yard, "dead-jobs")


@pytest.mark.parametrize("option", [("--queue", "slow"), ("--kind", "rest"), ("--share", "Müller & Söhne")])
async def test_a_pause(yard: Yard, option: tuple[str, str]) -> None:
    await yard.penstock("pause", *option, "--reason", "maintenance")
    finding = await found(yard, "paused")
    assert finding.sentence.startswith(f"The {option[0].removeprefix('--')} {option[1]} has been paused since")
    await obey(yard, finding)
    await vanished(yard, "paused")


async def oversleep(yard: Yard) -> None:
    """An hourly schedule whose tick was two hours ago, and nobody was there."""
    await yard.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await yard.run("update penstock.schedules set next_at = next_at - interval '3 hours'")


async def test_an_overdue_schedule(yard: Yard) -> None:
    await oversleep(yard)
    finding = await found(yard, "schedule-overdue")
    assert finding.sentence.startswith("1 schedule should have ticked and did not (hourly); hourly is ")
    assert finding.evidence["schedules"][0]["share"] == "_system"


async def test_an_overdue_schedule_is_removed_by_a_worker(yard: Yard) -> None:
    await oversleep(yard)
    await obey(yard, await found(yard, "schedule-overdue"))
    await vanished(yard, "schedule-overdue")
    await yard.until("select from penstock.job_history")


# -- limits -------------------------------------------------------------------------------------------------------

BRITTLE = """
from penstock import Penstock

app = Penstock()
app.limit("scanner", 1, rest="1h", breaker_after=1)


@app.job(uses={"scanner": 1}, retries=0)
async def read(ctx, broken=False):
    if broken:
        raise OSError("no route")
"""


async def test_an_open_breaker_is_removed_by_closing_it(yard: Yard) -> None:
    (yard.folder / "brittle.py").write_text(BRITTLE)
    await yard.worker(place="brittle:app")
    await yard.enqueue("read", broken=True)
    finding = await found(yard, "breaker-open")
    assert finding.sentence.startswith("The breaker of scanner is open since")
    assert "(OSError: no route), until" in finding.sentence
    waiting = await yard.enqueue("read")
    assert await findings(yard, "unserved-kind") == [], "somebody serves it; only the scanner rests"
    assert finding.command == "penstock limits close scanner"
    await obey(yard, finding)
    await vanished(yard, "breaker-open")
    await yard.until_state(waiting, "done")


async def test_tenants_are_kept_apart_by_the_application_alone(yard: Yard) -> None:
    """As on a server whose user may not create roles, until somebody has made them."""
    await vanished(yard, "unguarded")
    await yard.run("alter table penstock.documents disable row level security")
    finding = await found(yard, "unguarded")
    assert "Row-level security is off" in finding.sentence
    await obey(yard, finding)
    await vanished(yard, "unguarded")
