"""Each finding of the doctor: a test that causes it, and one in which the advised command removes it.

The commands are run as they are advised, in a real process, with `module:app` and the dots filled in.
"""

import os
import signal
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from penstock.database import Database
from penstock.database.migrations import FOLDER, migrate
from penstock.engine import Kind
from penstock.operations import Finding, examine
from penstock.settings import DatabaseUrl, Settings
from tests.application import SOURCE, Application, anything
from tests.operations.advice import BRITTLE, findings, found, obey, obey_in_a_shell, vanished
from tests.processes import Started


async def test_nothing_is_wrong(application: Application) -> None:
    await application.worker()
    assert await examine(application.client.settings) == []
    assert await application.penstock("doctor") == (0, "No problems found.\n")
    assert await application.ask("doctor") == {"healthy": True, "findings": [], "unread": [], "unread_count": 0}


async def test_no_worker(application: Application) -> None:
    finding = await found(application, "no-worker")
    assert finding.command == "penstock worker module:app"
    answer = await application.ask("doctor", code=1)
    assert [one["name"] for one in answer["findings"]] == ["no-worker"]
    code, said = await application.penstock("doctor")
    assert (code, "No worker is running" in said, "\n    penstock worker module:app\n" in said) == (1, True, True), said


async def test_no_worker_is_removed_by_a_worker(application: Application) -> None:
    await obey(application, await found(application, "no-worker"))
    await vanished(application, "no-worker")


async def test_a_silent_worker(application: Application) -> None:
    await application.worker()
    hanging = await application.worker()
    os.kill(hanging.pid, signal.SIGSTOP)
    finding = await found(application, "silent-worker")
    assert finding.command == f"kill -KILL {hanging.pid}"
    os.kill(hanging.pid, signal.SIGCONT)


async def test_a_silent_worker_is_removed_by_ending_it(application: Application) -> None:
    await application.worker()
    hanging = await application.worker()
    os.kill(hanging.pid, signal.SIGSTOP)
    await obey(application, await found(application, "silent-worker"))
    await vanished(application, "silent-worker", within=5)


async def test_the_last_worker_that_died_is_removed_by_a_new_one(application: Application) -> None:
    """Nobody was left who could have noticed."""
    dead = await application.worker()
    os.kill(dead.pid, signal.SIGKILL)
    await dead.end()
    await application.run("update penstock.test_clock set shift = shift + interval '1 minute'")
    finding = await found(application, "silent-worker")
    assert finding.command == "penstock worker module:app"
    await obey(application, finding)
    await vanished(application, "silent-worker")


async def exhaust(application: Application) -> Started:
    worker = await application.worker(PENSTOCK_POOL__SIZE="2")
    for _ in range(3):
        await application.enqueue("hog", queue="hog")
    return worker


async def test_an_exhausted_pool(application: Application) -> None:
    worker = await exhaust(application)
    finding = await found(application, "pool-full")
    assert "all 2 connections are in use" in finding.sentence
    assert finding.command == "PENSTOCK_POOL__SIZE=4 penstock worker module:app"
    os.kill(worker.pid, signal.SIGKILL)


async def test_an_exhausted_pool_is_removed_by_a_larger_one(application: Application) -> None:
    worker = await exhaust(application)
    finding = await found(application, "pool-full")
    os.kill(worker.pid, signal.SIGKILL)
    await application.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'its process ended'")
    await application.run("update penstock.jobs set state = 'ready', worker_id = null, claimed_at = null")
    await obey(application, finding)
    await application.until("select from penstock.jobs where state = 'running' having count(*) = 3")
    await application.until("select from penstock.workers where gone_at is null and (load ->> 'pool')::int >= 3")
    await vanished(application, "pool-full")


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


async def test_a_schema_that_is_behind_is_removed_by_migrating(application: Application, tmp_path: Path) -> None:
    await take_back_schema(application.client.settings, tmp_path)
    await obey(application, await found(application, "schema-behind"))
    await vanished(application, "schema-behind")


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


@pytest.mark.slow
async def test_notifications_arrive_by_the_right_way(application: Application, database_url: DatabaseUrl) -> None:
    await application.worker()
    application.environ["PENSTOCK_DATABASE_DIRECT_URL"] = database_url.with_database("postgres").reveal()
    [told] = (await application.ask("doctor", code=1))["findings"]
    assert told["name"] == "notifications"
    finding = Finding(told["name"], told["sentence"], told["command"])
    _, left = await obey_in_a_shell(application, finding, {"postgresql://…": database_url.reveal()})
    assert left == []


async def test_notifications_that_a_worker_misses(application: Application) -> None:
    worker = await application.worker()
    os.kill(worker.pid, signal.SIGSTOP)  # or its next heartbeat would correct what is put into its mouth
    await application.run("""update penstock.workers set load = load || '{"notified": false}'""")
    finding = await found(application, "notifications")
    assert "Notifications do not reach 1 worker" in finding.sentence
    os.kill(worker.pid, signal.SIGCONT)
    await vanished(application, "notifications")


async def age(application: Application) -> None:
    """One slot, taken for long, and a job behind it that came ten minutes ago."""
    await application.worker("--queues", "slow=1")
    await application.until_state(await application.enqueue("rest", queue="slow"), "running")
    waiting = await application.enqueue("rest", queue="slow", seconds=0.1)
    await application.run(
        "update penstock.jobs set enqueued_at = enqueued_at - interval '10 min' where id = $1", waiting
    )


async def test_an_old_job(application: Application) -> None:
    await age(application)
    finding = await found(application, "old-job")
    assert "of the kind rest" in finding.sentence
    assert "1 of 1 slots are in use" in finding.sentence
    assert not [
        one for one in await examine(application.client.settings, old_after=timedelta(hours=1)) if one.name == "old-job"
    ]


async def test_an_old_job_is_removed_by_another_worker(application: Application) -> None:
    await age(application)
    await obey(application, await found(application, "old-job"))
    await vanished(application, "old-job")


async def test_an_unserved_kind(application: Application) -> None:
    await application.worker("--queues", "default=1")
    await application.enqueue("rest", queue="slow")
    await application.enqueue("rest", queue="slow")
    finding = await found(application, "unserved-kind")
    assert "No running worker serves the kind rest in the queue slow: 2 ready jobs" in finding.sentence


async def test_an_unserved_kind_is_removed_by_a_worker_that_serves_it(application: Application) -> None:
    await application.worker("--queues", "default=1")
    await application.enqueue("rest", queue="slow")
    await obey(application, await found(application, "unserved-kind"))
    await vanished(application, "unserved-kind")


async def kill_three(application: Application) -> Started:
    worker = await application.worker()
    for n in range(3):
        await application.until_state(await application.enqueue("read", n=n), "dead")
    return worker


async def test_dead_jobs(application: Application) -> None:
    await kill_three(application)
    finding = await found(application, "dead-jobs")
    assert "3 read jobs have failed permanently for the same reason, Permanent: page" in finding.sentence
    assert finding.evidence["count"] == 3


async def test_dead_jobs_are_removed_by_a_redrive_of_the_fixed_code(application: Application) -> None:
    worker = await kill_three(application)
    finding = await found(application, "dead-jobs")
    os.kill(worker.pid, signal.SIGTERM)
    await worker.end()
    (application.folder / "shop.py").write_text(SOURCE.replace('raise Permanent(f"page {n} is torn")', "return n"))
    await application.worker()
    await application.until("select from penstock.workers where gone_at is null and load ? 'code'")
    await obey(application, finding)
    await vanished(application, "dead-jobs")


async def test_dead_children_of_a_parent_that_is_over_are_given_up(application: Application) -> None:
    await kill_three(application)
    await application.run("update penstock.jobs set fanout = 1, turn = id")  # of a fan-out that went with its parent
    finding = await found(application, "dead-jobs")
    assert "no job waits for them" in finding.sentence
    await obey(application, finding)
    await vanished(application, "dead-jobs")


@pytest.mark.parametrize("option", [("--queue", "slow"), ("--kind", "rest"), ("--fairness-key", "Müller & Söhne")])
async def test_a_pause(application: Application, option: tuple[str, str]) -> None:
    await application.client.enqueue(Kind("rest", anything, "slow")(), fairness_key="Müller & Söhne")
    await application.penstock("pause", *option, "--reason", "maintenance")
    finding = await found(application, "paused")
    assert finding.sentence.startswith(
        f"The {option[0].removeprefix('--').replace('-', ' ')} {option[1]} has been paused since"
    )
    await obey(application, finding)
    await vanished(application, "paused")


async def oversleep(application: Application) -> None:
    """An hourly schedule whose tick was two hours ago, and nobody was there."""
    await application.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await application.run("update penstock.schedules set next_at = next_at - interval '3 hours'")


async def test_an_overdue_schedule(application: Application) -> None:
    await oversleep(application)
    finding = await found(application, "schedule-overdue")
    assert finding.sentence.startswith("1 schedule should have fired and did not (hourly); hourly is ")
    assert finding.evidence["schedules"][0]["fairness_key"] == "_system"


async def test_an_overdue_schedule_is_removed_by_a_worker(application: Application) -> None:
    await oversleep(application)
    await obey(application, await found(application, "schedule-overdue"))
    await vanished(application, "schedule-overdue")
    await application.until("select from penstock.job_history")


# -- limits -------------------------------------------------------------------------------------------------------


async def test_an_open_breaker_is_removed_by_closing_it(application: Application) -> None:
    (application.folder / "brittle.py").write_text(BRITTLE)
    await application.worker(place="brittle:app")
    await application.enqueue("read", broken=True)
    finding = await found(application, "breaker-open")
    assert finding.sentence.startswith("The breaker of scanner is open since")
    assert "(OSError: no route), until" in finding.sentence
    waiting = await application.enqueue("read")
    assert await findings(application, "unserved-kind") == [], "somebody serves it; only the scanner rests"
    assert finding.command == "penstock limits close scanner"
    await obey(application, finding)
    await vanished(application, "breaker-open")
    await application.until_state(waiting, "done")


async def test_tenants_are_kept_apart_by_the_application_alone(application: Application) -> None:
    """As on a server whose user may not create roles, until somebody has made them."""
    await vanished(application, "unguarded")
    await application.run("alter table penstock.documents disable row level security")
    finding = await found(application, "unguarded")
    assert "Row-level security is off" in finding.sentence
    await obey(application, finding)
    await vanished(application, "unguarded")
