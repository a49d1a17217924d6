"""The findings about disks, clocks, sources, settings, schedules and statistics; what `--fix` does; and the list of all."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine import Kind
from penstock.operations import Finding, catalog, examine, fix
from penstock.operations.finding import SAFE
from penstock.operations.fixing import FIXES
from penstock.settings import Settings
from penstock.settings.arriving import SourceSettings
from tests.engine.conftest import Shop, make_kind
from tests.operations.test_doctor import found, obey, vanished
from tests.yard import Yard, anything

FOLDER = Path(catalog.__file__).parent
DOCS = Path(__file__).parents[2] / "docs/explain.md"


async def names(settings: Settings, **much: int) -> list[str]:
    return [finding.name for finding in await examine(settings, **much)]  # type: ignore[arg-type]


# -- the list -----------------------------------------------------------------------------------------------------


def test_every_finding_is_in_the_list_and_in_the_docs() -> None:
    written = r"""(?:Finding\(\s*|: )f?"([a-z]+-[a-z-]+|budget|bloat|paused|unguarded|notifications)["{]"""
    made = {name for path in FOLDER.glob("*.py") for name in re.findall(written, path.read_text())}
    known = {name for name, _, _ in catalog.KNOWN}
    assert {name for name in made if not name.startswith("documents-")} <= known
    assert known - made <= {"documents-…", "documents-repaired"}
    assert known >= SAFE
    assert FIXES.keys() == SAFE
    table = "\n".join(catalog.render_table())
    assert table in DOCS.read_text(), (
        "copy the table of penstock.operations.catalog.render_table() into docs/explain.md"
    )


# -- the machine --------------------------------------------------------------------------------------------------


async def test_a_full_disk(settings: Settings, tmp_path: Path) -> None:
    everything = 2**60
    found = {
        one.evidence["what"]: one for one in await examine(settings, least_free=everything) if one.name == "disk-full"
    }
    assert found.keys() == {"blobs", "database", "scratch"}
    assert found["blobs"].command.startswith("export PENSTOCK_BLOBS__FOLDER=")
    assert found["scratch"].command.startswith("export TMPDIR=")
    assert "MB are free at" in found["blobs"].sentence
    assert "disk-full" not in await names(settings)


async def test_a_full_disk_is_removed_by_another_folder(settings: Settings, small_disk: Path) -> None:
    """What the command says: another folder."""
    full = settings.model_copy(update={"blobs": settings.blobs.model_copy(update={"folder": small_disk})})
    [finding] = [one for one in await examine(full) if one.name == "disk-full"]
    assert finding.evidence["folder"] == str(small_disk)
    assert "disk-full" not in await names(settings)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB, where the machine lets us have one."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a disk of 4 MB cannot be made here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_clocks_that_differ(yard: Yard) -> None:
    await yard.run("update penstock.test_clock set shift = interval '1 hour'")
    finding = await found(yard, "clock-skew")
    assert "The clock of the database is 1 h ahead of that of this machine" in finding.sentence
    assert finding.command.startswith("timedatectl set-ntp true")
    await yard.run("update penstock.test_clock set shift = interval '-1 hour'")
    assert " behind that of this machine" in (await found(yard, "clock-skew")).sentence
    await yard.run("update penstock.test_clock set shift = interval '0'")
    await vanished(yard, "clock-skew")


async def test_settings_that_fight_with_the_machine(settings: Settings) -> None:
    much = settings.extraction.model_copy(update={"children": 200, "memory": 2**34})
    [finding] = [
        one for one in await examine(settings.model_copy(update={"extraction": much})) if one.name == "settings-clash"
    ]
    assert "extraction.children is 200 and extraction.memory 16,384 MB" in finding.sentence
    children = int(re.findall(r"CHILDREN=(\d+)", finding.command)[0])
    less = much.model_copy(update={"children": children, "memory": 2**30})
    assert "settings-clash" not in await names(settings.model_copy(update={"extraction": less}))


async def test_settings_that_fight_with_the_server(yard: Yard) -> None:
    [row] = await yard.run("select current_database() as name")
    await yard.run(f'alter database "{row["name"]}" set statement_timeout = 5000')
    finding = await found(yard, "settings-clash")
    assert "The server ends statements after 5 s (statement_timeout), and pool.call_timeout is 30 s" in finding.sentence
    timeout = re.findall(r"CALL_TIMEOUT=(\w+)", finding.command)[0]
    answer = await yard.ask("doctor", code=1, PENSTOCK_POOL__CALL_TIMEOUT=timeout)
    assert "settings-clash" not in [one["name"] for one in answer["findings"]]
    await yard.run(f'alter database "{row["name"]}" reset statement_timeout')


# -- the fleet ----------------------------------------------------------------------------------------------------


async def test_workers_of_different_code(yard: Yard) -> None:
    old, _ = await yard.worker(), await yard.worker()
    for worker in await yard.run("select pid from penstock.workers"):
        os.kill(worker["pid"], signal.SIGSTOP)  # or their beats would say what they really have
    await yard.run("update penstock.workers set started_at = started_at - interval '20 minutes', lease = '1 hour'")
    await yard.run("""update penstock.workers set load = load || '{"code": "0.1+old"}' where pid = $1""", old.pid)
    finding = await found(yard, "fleet-mixed")
    assert "0.1+old" in finding.sentence
    assert finding.command == f"kill -TERM {old.pid}"
    await yard.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'left' where pid = $1", old.pid)
    await vanished(yard, "fleet-mixed")


async def test_workers_that_are_lost_again_and_again(yard: Yard) -> None:
    shop = Shop(yard.client.database)
    for _ in range(4):
        await shop.worker()
    await yard.run("update penstock.workers set gone_at = penstock.now(), gone_why = 'its process ended'")
    finding = await found(yard, "workers-lost")
    assert finding.sentence.startswith("4 workers were lost in the last hour, the last one ")
    await obey(yard, finding)
    await yard.run("update penstock.workers set gone_at = gone_at - interval '2 hours'")
    await vanished(yard, "workers-lost")


async def test_a_limit_whose_permits_are_all_in_use(yard: Yard) -> None:
    worker = await Shop(yard.client.database).worker(make_kind("read"))
    await yard.run("insert into penstock.limits (name, permits) values ('scanner', 1)")
    await yard.run("insert into penstock.uses values ('read', 'scanner', 1)")
    await yard.run("insert into penstock.allotments values ('scanner', $1, 1, 1, 3, 1, 1)", worker)
    finding = await found(yard, "limit-full")
    assert finding.note
    assert "All 1 permit of scanner are in use, and 3 calls wait: read go no faster" in finding.sentence
    await obey(yard, finding)
    await yard.run("update penstock.allotments set waiting = 0")
    await vanished(yard, "limit-full")


# -- schedules ----------------------------------------------------------------------------------------------------


async def test_a_schedule_that_is_paused(yard: Yard) -> None:
    await yard.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    assert (await yard.penstock("schedule", "pause", "hourly"))[0] == 0
    finding = await found(yard, "schedule-paused")
    await obey(yard, finding)
    await vanished(yard, "schedule-paused")


async def test_a_schedule_that_nobody_declares(yard: Yard) -> None:
    await yard.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await yard.run("update penstock.schedules set retired_at = penstock.now()")
    finding = await found(yard, "schedule-retired")
    assert (finding.note, finding.fixable) == (True, True)
    await obey(yard, finding)
    await vanished(yard, "schedule-retired")


# -- sources ------------------------------------------------------------------------------------------------------


async def test_a_source_in_trouble_and_one_that_nobody_reads(settings: Settings, yard: Yard) -> None:
    chosen = {"orders": SourceSettings.model_validate({"type": "folder", "folder": str(yard.folder), "waiting": 1})}
    with_source = yard.client.settings.model_copy(update={"sources": chosen})

    async def told() -> dict[str, Finding]:
        return {one.name: one for one in await examine(with_source) if one.name.startswith("source")}

    assert (await told())["source-late"].sentence == "The source orders was never read: no worker runs it."
    await yard.run(
        "insert into penstock.sources (name, error, error_since, polled_at) "
        "values ('orders', 'no route to host', penstock.now(), penstock.now())"
    )
    trouble = (await told())["source-trouble"]
    assert "does not answer since" in trouble.sentence
    assert "no route to host" in trouble.sentence
    assert trouble.command == "penstock why orders"
    assert "no route to host" in (await yard.penstock("why", "orders"))[1]
    await yard.run("update penstock.sources set error = null, error_since = null")
    assert await told() == {}
    await yard.run(
        "insert into penstock.inbox (source, message_id, digest, payload) values ('orders', '1', sha256('1'), '{}')"
    )
    assert "is not read further: 1 message wait" in (await told())["source-full"].sentence
    await yard.run("delete from penstock.inbox")
    await yard.run("update penstock.sources set polled_at = polled_at - interval '1 hour'")
    assert "was not read for 1 h: no worker runs it." in (await told())["source-late"].sentence


# -- fixing -------------------------------------------------------------------------------------------------------


async def test_what_is_safe_is_fixed_and_the_rest_is_told(yard: Yard) -> None:
    await yard.client.add_schedule("hourly", "0 * * * *", Kind("greet", anything)())
    await yard.run("update penstock.schedules set retired_at = penstock.now()")
    await yard.run("alter table penstock.documents disable row level security")
    await yard.run("alter table penstock.jobs set (autovacuum_enabled = off)")
    await yard.client.pause(kind="greet", reason="the printer burns")
    answer = await yard.ask("doctor", "--fix", code=1)
    assert {one["name"] for one in answer["fixed"]} == {"schedule-retired", "unguarded", "autovacuum-off"}
    assert {one["name"] for one in answer["findings"]} == {"no-worker", "paused"}, "a pause is somebody's decision"
    code, said = await yard.penstock("doctor", "--fix")
    assert (code, "Fixed" in said) == (1, False), said


async def test_statistics_are_refreshed(yard: Yard) -> None:
    """A finding by a bound that a test can reach, and what removes it."""
    await yard.run("alter table penstock.lanes set (autovacuum_enabled = off)")
    await yard.run(
        "insert into penstock.lanes (queue, kind, share) select 'q', 'k', n::text from generate_series(1, 2000) n"
    )
    settings = yard.client.settings

    async def stale() -> list[Finding]:
        await yard.run("select pg_stat_force_next_flush()")
        return [one for one in await examine(settings, many_rows=1000) if one.name == "statistics-stale"]

    [finding] = await stale()
    assert (finding.evidence["name"], finding.fixable) == ("lanes", True)
    [fixed] = await fix(settings, [finding])
    assert fixed.said == "Refreshed the statistics of the table lanes."
    assert await stale() == []
    await yard.run("update penstock.lanes set share = share || 'x'")
    [finding] = await stale()
    await obey(yard, finding)
    assert await stale() == []


async def test_checks_that_nobody_ran_are_put_in_the_queue(yard: Yard) -> None:
    await yard.client.add_schedule("check-invariants", "every 10m", Kind("check_invariants", anything, "upkeep")())
    finding = Finding("invariants-stale", "", "penstock schedule run check-invariants")
    [fixed] = await fix(yard.client.settings, [finding])
    assert re.fullmatch(r"Put job \d+ of the schedule check-invariants in the queue\.", fixed.said)
    assert await yard.run("select from penstock.jobs")
