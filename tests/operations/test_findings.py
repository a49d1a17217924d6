"""The findings about disks, clocks, sources, settings, schedules and statistics; what `--fix` does; and the list of all."""

import os
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from penstock.engine import Kind
from penstock.operations import Finding, doctor, examine, fix
from penstock.operations.doctor.finding import SAFE
from penstock.operations.doctor.fixes import FIXES
from penstock.settings import Settings
from tests.application import SOURCE, Application, address_of, anything, fetch
from tests.engine.conftest import JobQueue
from tests.models.chat import chatting
from tests.operations.advice import found, obey, obey_in_a_shell, vanished
from tools.findings import KNOWN

FOLDER = Path(doctor.__file__).parent


async def names(settings: Settings, **much: int) -> list[str]:
    return [finding.name for finding in await examine(settings, **much)]  # type: ignore[arg-type]


# -- the list -----------------------------------------------------------------------------------------------------


def test_every_finding_is_in_the_list() -> None:
    written = r"""(?:Finding\(\s*|: )f?"([a-z]+-[a-z-]+|budget|bloat|paused|unguarded|notifications)["{]"""
    made = {name for path in FOLDER.glob("*.py") for name in re.findall(written, path.read_text())}
    known = {name for name, _, _ in KNOWN}
    assert {name for name in made if not name.startswith("documents-")} <= known
    assert known - made <= {"documents-…", "documents-repaired"}
    assert known >= SAFE
    assert FIXES.keys() == SAFE


# -- the machine --------------------------------------------------------------------------------------------------


async def test_a_full_disk(settings: Settings, tmp_path: Path) -> None:
    everything = 2**60
    found = {
        one.evidence["what"]: one for one in await examine(settings, least_free=everything) if one.name == "disk-full"
    }
    assert found.keys() == {"blobs", "database", "scratch"}
    assert "export PENSTOCK_BLOBS__FOLDER=/…" in found["blobs"].command
    assert found["database"].command.startswith("df -h ")
    assert found["scratch"].command.startswith("export TMPDIR=")
    assert "MB are free at" in found["blobs"].sentence
    assert "disk-full" not in await names(settings)


@pytest.mark.slow
async def test_a_full_disk_is_removed_by_moving_to_another_one(
    application: Application, small_disk: Path, tmp_path: Path
) -> None:
    (small_disk / "kept").write_text("a document")
    application.environ["PENSTOCK_BLOBS__FOLDER"] = str(small_disk)
    [finding] = await full_disks(application)
    assert finding.evidence["folder"] == str(small_disk)
    assert "Penstock does not free space" in finding.sentence
    larger = tmp_path / "larger"
    larger.mkdir()
    _, left = await obey_in_a_shell(application, finding, {"/…": str(larger)})
    assert "disk-full" not in [one["name"] for one in left]
    assert (larger / "kept").read_text() == "a document"


@pytest.mark.slow
@pytest.mark.parametrize("small_disk", [250], indirect=True)
async def test_a_full_disk_of_the_database_is_removed_by_moving_it(
    application: Application, small_disk: Path, home: Path
) -> None:
    """The server that comes along: its whole home moves, while nobody uses it."""
    del application.environ["PENSTOCK_DATABASE_URL"]
    application.environ["PENSTOCK_HOME"] = str(small_disk)
    assert (await application.penstock("db", "migrate"))[0] == 0
    [finding] = [one for one in await full_disks(application) if one.evidence["what"] == "database"]
    larger = home / "larger"
    larger.mkdir()
    _, left = await obey_in_a_shell(application, finding, {"/…": str(larger)})
    assert [one["name"] for one in left] == ["no-worker"], "the same database, with all of its schema"


async def test_a_full_disk_is_removed_by_enlarging_it(application: Application, small_disk: Path) -> None:
    application.environ["TMPDIR"] = str(small_disk)
    [finding] = await full_disks(application)
    assert finding.evidence["what"] == "scratch"
    subprocess.run(["mount", "-o", "remount,size=1g", str(small_disk)], check=True)
    assert await full_disks(application) == []


async def test_a_worker_with_a_full_disk_is_not_ready(application: Application, small_disk: Path) -> None:
    application.environ["TMPDIR"] = str(small_disk)
    worker = await application.worker("--port", "0", place="")
    await worker.until("worker started")
    status, said = await fetch(address_of(worker), "/health/ready")
    assert (status, f"free at {small_disk}" in said) == (503, True), said
    assert (await fetch(address_of(worker), "/health/live"))[0] == 200


async def full_disks(application: Application) -> list[Finding]:
    told = (await application.ask("doctor", code=1))["findings"]  # no worker runs
    return [
        Finding(one["name"], one["sentence"], one["command"], one["evidence"])
        for one in told
        if one["name"] == "disk-full"
    ]


@pytest.fixture
def small_disk(home: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk of 4 MB, or so many as are asked for, where the machine lets us have one."""
    folder = home / "small"
    folder.mkdir()
    size = getattr(request, "param", 4)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=0755", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(f"a disk of {size} MB cannot be made here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
async def test_clocks_that_differ(application: Application) -> None:
    """The command shows both; setting the wrong one is done on its machine, which is the test's own clock here."""
    await application.run("update penstock.test_clock set shift = interval '61 minutes'")
    finding = await found(application, "clock-skew")
    assert "The clock of the database is 1 h ahead of that of this machine" in finding.sentence
    assert "Penstock does not set clocks: correct the wrong one on its machine" in finding.sentence
    said, left = await obey_in_a_shell(application, finding)
    assert "clock-skew" in [one["name"] for one in left]
    ours, theirs = (datetime.fromisoformat(line).replace(tzinfo=None) for line in said.splitlines()[-2:])
    assert abs(theirs - ours - timedelta(minutes=61)) < timedelta(minutes=1)
    await application.run("update penstock.test_clock set shift = interval '-1 hour'")
    assert " behind that of this machine" in (await found(application, "clock-skew")).sentence

    await application.run("update penstock.test_clock set shift = interval '0'")  # what the sentence says
    said, left = await obey_in_a_shell(application, finding)
    ours, theirs = (datetime.fromisoformat(line).replace(tzinfo=None) for line in said.splitlines()[-2:])
    assert abs(theirs - ours) < timedelta(minutes=1)
    assert "clock-skew" not in [one["name"] for one in left]


@pytest.mark.slow
async def test_settings_that_fight_with_the_machine(application: Application) -> None:
    application.environ |= {"PENSTOCK_EXTRACTION__CHILDREN": "200", "PENSTOCK_EXTRACTION__MEMORY": "1GB"}
    [told] = [one for one in (await application.ask("doctor", code=1))["findings"] if one["name"] == "settings-clash"]
    assert "extraction.children is 200 and extraction.memory" in told["sentence"]
    _, left = await obey_in_a_shell(application, Finding(told["name"], told["sentence"], told["command"]))
    assert "settings-clash" not in [one["name"] for one in left]


@pytest.mark.slow
async def test_settings_that_fight_with_the_server(application: Application) -> None:
    [row] = await application.run("select current_database() as name")
    await application.run(f'alter database "{row["name"]}" set statement_timeout = 5000')
    finding = await found(application, "settings-clash")
    assert "The server ends statements after 5 s (statement_timeout), and pool.call_timeout is 30 s" in finding.sentence
    _, left = await obey_in_a_shell(application, finding)
    assert "settings-clash" not in [one["name"] for one in left]
    await application.run(f'alter database "{row["name"]}" reset statement_timeout')


async def test_a_folder_that_takes_no_documents(application: Application) -> None:
    (application.folder / "blobs").write_text("in the way")
    finding = await found(application, "blobs-unwritable")
    _, left = await obey_in_a_shell(application, finding, {"/…": str(application.folder / "other")})
    assert "blobs-unwritable" not in [one["name"] for one in left]


# -- the fleet ----------------------------------------------------------------------------------------------------


async def test_workers_of_different_code(application: Application) -> None:
    old = await application.worker()
    (application.folder / "shop.py").write_text(SOURCE.replace("Hello", "Good day"))
    await application.worker()
    await application.run(
        "update penstock.workers set started_at = started_at - interval '20 minutes' - id * interval '-1 s'"
    )
    finding = await found(application, "fleet-mixed")
    assert finding.command == f"kill -TERM {old.pid}"
    await obey(application, finding)
    await vanished(application, "fleet-mixed")


async def test_workers_that_are_lost_again_and_again(application: Application) -> None:
    job_queue = JobQueue(application.client.database)
    await job_queue.worker()
    lose = "update penstock.workers set gone_at = penstock.now(), gone_why = 'its process ended' where gone_at is null"
    for _ in range(3):
        await job_queue.worker()
    await application.run(lose)
    finding = await found(application, "workers-lost")
    assert finding.sentence.startswith("4 workers were lost in the last hour, the last one ")
    await obey(application, finding)
    await vanished(application, "workers-lost")
    for _ in range(4):
        await job_queue.worker()
    await application.run(lose)
    assert (await found(application, "workers-lost")).sentence.startswith("4 workers"), "only the later ones are told"


NARROW = """
import asyncio

from penstock import Penstock

app = Penstock()
app.limit("scanner", 1)


@app.job(uses={"scanner": 1})
async def read(ctx):
    await asyncio.sleep(60)
"""


async def test_a_limit_whose_permits_are_all_in_use(application: Application) -> None:
    (application.folder / "narrow.py").write_text(NARROW)
    await application.worker(place="narrow:app")
    for _ in range(2):
        await application.enqueue("read")
    finding = await found(application, "limit-full")
    assert finding.note
    assert "The only permit of scanner is in use, and 1 call waits: read goes no faster" in finding.sentence
    assert finding.command == "penstock limits set scanner 2"
    await obey(application, finding)
    await vanished(application, "limit-full")
    await application.until("select from penstock.allotments where granted = 2")
    await application.worker(place="narrow:app")
    [row] = await application.run("select permits from penstock.limits")
    assert row["permits"] == 2, "what a person has chosen is not undone by who joins"
    code, said = await application.penstock("limits", "set", "scanner", "0")
    assert code == 2, said
    assert "(set by hand)" in (await application.penstock("limits", "list"))[1]
    assert (await application.ask("limits", "reset", "scanner"))["reset"]


async def test_a_language_model_that_nobody_has(application: Application) -> None:
    async with chatting() as chat:
        await application.worker()
        job = await application.enqueue(
            "llm.complete.main", queue="llm", messages=[{"role": "user", "content": "why?"}]
        )
        finding = await found(application, "no-llm")
        assert (
            finding.command == "env 'PENSTOCK_LLMS__MAIN__URL=https://…' 'PENSTOCK_LLMS__MAIN__MODEL=…' penstock worker"
        )
        await obey(application, finding, {"https://…": chat.url, "MODEL=…": "MODEL=gpt-tiny"})
        await vanished(application, "no-llm")
        await application.until_state(job, "done")


# -- urgency and acknowledgement ----------------------------------------------------------------------------------


async def test_the_most_urgent_comes_first(application: Application) -> None:
    await application.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await application.run("update penstock.schedules set retired_at = penstock.now()")
    await application.client.pause(kind="greet", reason="the printer burns")
    found = [(one["name"], one["severity"]) for one in (await application.ask("doctor", code=1))["findings"]]
    assert found == [("no-worker", "urgent"), ("paused", "warning"), ("schedule-retired", "note")]


async def test_an_acknowledged_finding_is_not_a_problem_until_its_time_is_over(application: Application) -> None:
    await application.worker()
    await application.client.pause(kind="greet", reason="the printer burns")
    code, said = await application.penstock("doctor", "acknowledge", "pause")
    assert (code, said) == (2, "Finding pause does not exist now. Did you mean paused? `penstock doctor` shows all.\n")
    code, said = await application.penstock("doctor", "acknowledge", "paused", "--for", "2h")
    assert (code, said.startswith("1 finding paused acknowledged until ")) == (0, True), said
    answer = await application.ask("doctor")
    [finding] = answer["findings"]
    assert (answer["healthy"], finding["acknowledged_by"]) == (True, "cli")
    code, said = await application.penstock("doctor")
    assert (code, "warning: paused (acknowledged until " in said, said.endswith("\nNo problems found.\n")) == (
        0,
        True,
        True,
    )
    assert (await application.penstock("status"))[1].endswith("\nNo problems found.\n")

    await application.client.pause(kind="rest", reason="another one")
    changed = {one["subject"]: one for one in (await application.ask("doctor", code=1))["findings"]}
    assert [name for name, one in changed.items() if one["acknowledged_until"] is None] == ["kind/rest"]
    await application.client.resume(kind="rest")
    await application.run("update penstock.acknowledgements set until = penstock.now()")
    assert (await application.ask("doctor", code=1))["findings"][0]["acknowledged_until"] is None
    assert (await application.ask("doctor", "acknowledge", "paused"))["acknowledged"][0]["name"] == "paused"
    assert len(await application.run("select from penstock.acknowledgements")) == 1


async def test_more_of_an_acknowledged_finding_is_a_problem(application: Application) -> None:
    await application.worker()
    await application.until_state(await application.enqueue("read", n=1), "dead")
    await application.ask("doctor", "acknowledge", "dead-jobs")
    assert (await application.ask("doctor"))["findings"][0]["count"] == 1
    await application.until_state(await application.enqueue("read", n=2), "dead")
    assert (await application.ask("doctor", code=1))["findings"][0]["acknowledged_until"] is None


# -- schedules ----------------------------------------------------------------------------------------------------


async def test_a_schedule_that_is_paused(application: Application) -> None:
    await application.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    assert (await application.penstock("schedules", "pause", "hourly"))[0] == 0
    finding = await found(application, "schedule-paused")
    await obey(application, finding)
    await vanished(application, "schedule-paused")


async def test_a_schedule_that_nobody_declares(application: Application) -> None:
    await application.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await application.run("update penstock.schedules set retired_at = penstock.now()")
    finding = await found(application, "schedule-retired")
    assert (finding.note, finding.fixable) == (True, True)
    await obey(application, finding)
    await vanished(application, "schedule-retired")


# -- sources ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_source_in_trouble_and_one_that_nobody_reads(application: Application) -> None:
    """Not read, then read; its folder is gone, and there again; too many messages wait, and somebody takes them."""
    folder = application.folder / "orders"
    application.environ |= {
        "PENSTOCK_SOURCES__ORDERS__TYPE": "folder",
        "PENSTOCK_SOURCES__ORDERS__FOLDER": str(folder),
        "PENSTOCK_SOURCES__ORDERS__WAITING": "1",
    }

    async def told() -> dict[str, Finding]:
        findings = (await application.ask("doctor", code=1))["findings"]  # no worker runs, or it is the source itself
        named = [one for one in findings if one["name"].startswith("source")]
        return {one["name"]: Finding(one["name"], one["sentence"], one["command"], one["evidence"]) for one in named}

    late = (await told())["source-late"]
    assert late.sentence == "The source orders was never read: no worker runs it."
    code, said = await application.penstock("sources", "check", "orders")
    assert (code, "does not exist: create or mount it" in said) == (1, True), said
    worker = await obey(application, late)
    assert worker is not None
    await application.until("select from penstock.sources where error is not null")
    trouble = (await told())["source-trouble"]
    assert "does not answer since" in trouble.sentence
    assert "does not exist: create or mount it" in trouble.sentence
    assert trouble.command == "penstock sources check orders"
    assert "`penstock sources check orders`" in (await application.penstock("why", "orders"))[1]
    folder.mkdir()
    await obey(application, trouble)
    await application.until("select from penstock.sources where error is null")
    worker.process.terminate()
    await worker.end()
    assert await told() == {}

    await application.run("update penstock.sources set polled_at = polled_at - interval '1 hour'")
    late = (await told())["source-late"]
    assert "was not read for 1 h: no worker runs it." in late.sentence
    receive = (
        "insert into penstock.inbox (source, message_id, digest, payload, job_id) "
        "values ('orders', '1', sha256('1'), $1, $2)"
    )
    job = await application.enqueue("take_message.orders", queue="inbox", message=1)
    await application.run(receive, '{"name": "a.txt", "content": "aGVsbG8="}', job)
    await application.run(
        "update penstock.jobs set args = json_build_object('message', (select id from penstock.inbox))"
    )
    full = (await told())["source-full"]
    assert "is not read further: 1 message waits" in full.sentence
    assert late.command == full.command == "penstock worker"
    worker = await obey(application, full)
    assert worker is not None
    await application.until("select from penstock.inbox where state = 'taken'")
    await application.until("select from penstock.sources where polled_at > penstock.now() - interval '1 minute'")
    answer = await application.ask("doctor")
    assert [one["name"] for one in answer["findings"] if one["name"].startswith("source")] == []


# -- fixing -------------------------------------------------------------------------------------------------------


async def test_what_is_safe_is_fixed_and_the_rest_is_told(application: Application) -> None:
    await application.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await application.run("update penstock.schedules set retired_at = penstock.now()")
    await application.run("alter table penstock.documents disable row level security")
    await application.run("alter table penstock.jobs set (autovacuum_enabled = off)")
    await application.client.pause(kind="greet", reason="the printer burns")
    answer = await application.ask("doctor", "--fix", code=1)
    assert {one["name"] for one in answer["fixes"] if one["fixed"]} == {
        "schedule-retired",
        "unguarded",
        "autovacuum-off",
    }
    assert {one["name"] for one in answer["findings"]} == {"no-worker", "paused"}, "a pause is somebody's decision"
    code, said = await application.penstock("doctor", "--fix")
    assert (code, "Fixed" in said) == (1, False), said


async def test_what_could_not_be_fixed_is_not_called_fixed(application: Application) -> None:
    settings = application.client.settings
    retired = Finding("schedule-retired", "", "", {"name": "hourly", "fairness_key": "_system"})
    stale = Finding("checks-stale", "", "penstock schedules run check-documents")
    gone = Finding("bloat", "", "", {"name": "none"})
    assert [each.sentence for each in await fix(settings, [retired, stale, gone])] == [
        "Could not fix schedule-retired: The schedule hourly of the fairness key _system was removed meanwhile.",
        "Could not fix checks-stale: The schedule check-documents does not exist: start a worker that declares it.",
        "Could not fix bloat: The table none does not exist any more.",
    ]


async def test_statistics_are_refreshed(application: Application) -> None:
    """A finding by a bound that a test can reach, and what removes it."""
    await application.run("alter table penstock.lanes set (autovacuum_enabled = off)")
    await application.run(
        "insert into penstock.lanes (queue, kind, fairness_key) select 'q', 'k', n::text from generate_series(1, 2000) n"
    )
    settings = application.client.settings

    async def stale() -> list[Finding]:
        await application.run("select pg_stat_force_next_flush()")
        return [one for one in await examine(settings, many_rows=1000) if one.name == "statistics-stale"]

    [finding] = await stale()
    assert (finding.evidence["name"], finding.fixable) == ("lanes", True)
    [fixed] = await fix(settings, [finding])
    assert fixed.said == "Refreshed the statistics of the table lanes."
    assert await stale() == []
    await application.run("update penstock.lanes set fairness_key = fairness_key || 'x'")
    [finding] = await stale()
    await obey(application, finding)
    assert await stale() == []


async def test_checks_that_nobody_ran_are_put_in_the_queue(application: Application) -> None:
    await application.client.add_schedule(
        "check-invariants", "every 10m", Kind("check_invariants", anything, "upkeep")()
    )
    finding = Finding("invariants-stale", "", "penstock schedules run check-invariants")
    [fixed] = await fix(application.client.settings, [finding])
    assert re.fullmatch(r"Enqueued job \d+ of the schedule check-invariants\.", fixed.said)
    assert await application.run("select from penstock.jobs")


async def test_checks_that_did_not_look_are_removed_by_running_them(application: Application) -> None:
    worker = await application.worker(place="")
    await application.until("select from penstock.schedules where name like 'check-%' having count(*) = 2")
    await application.until(
        "select from penstock.workers where pid = $1 and 'check_invariants' = any (kinds)", worker.pid
    )
    await application.run("update penstock.workers set started_at = started_at - interval '2 hours'")
    for name in ("checks-stale", "invariants-stale"):
        await obey(application, await found(application, name))
        await vanished(application, name)
