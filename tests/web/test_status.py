"""Status, metrics and health of the API process."""

import asyncio
import re
import shutil
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.cli.operations import list_metrics
from penstock.documents.names import PREPARE
from penstock.engine.fleet import Registration, register
from penstock.operations import ApiCheck
from penstock.operations.doctor import disk, process
from penstock.web.health import PUBLIC, Readiness
from penstock.web.server import request_seconds
from tests.web.conftest import Answer, Api


async def test_status(api: Api) -> None:
    await api.make("mill")
    await api.make("other")
    await api.put("a.txt")
    told = (await api.get("/api/status")).json
    assert told["documents"] == {"queued": 1, "processing": 0, "ready": 0, "failed": 0, "deleted": 0}
    assert told["jobs"]["ready"]["count"] == 1
    assert told["workers"] == []
    assert (told["findings"][0]["name"], told["findings"][0]["severity"]) == ("no-worker", "urgent")
    assert (told["unread"], told["unread_count"]) == ([], 0)
    assert (await api.get("/api/status?collection=other")).json["documents"]["queued"] == 0
    assert (await api.get("/api/status?collection=none")).status == 404


async def test_metrics_and_health(api: Api) -> None:
    metrics = await api.get("/metrics")
    assert metrics.status == 200
    assert b"penstock_workers_alive 0.0" in metrics.body
    assert (await api.get("/health/live")).json == {"status": "live"}


async def test_every_metric_that_is_described_is_told(api: Api) -> None:
    """And no other, so that the page, the alerts and the dashboard know them all."""
    await api.make("mill")
    async with api.working():
        accepted = (await api.put("a.txt", b"A mill by the river.")).json
        assert (await api.over(accepted["id"]))["status"] == "ready"
    text = (await api.get("/metrics")).body.decode()
    told = dict(re.findall(r"^# TYPE (penstock_\w+) (\w+)$", text, re.MULTILINE))
    made = {name: kind for name, kind in told.items() if not name.endswith("_created")}
    assert made == {each.name: each.type for each in list_metrics()}
    assert 'penstock_documents_prepared_total{outcome="ready"}' in text
    assert 'penstock_documents_accepted_total{outcome="new"}' in text
    assert float(re.findall(r"^penstock_document_seconds_count (\S+)$", text, re.MULTILINE)[0]) >= 1


async def test_requests_are_timed_by_route(api: Api) -> None:
    """By the template of the route: the paths of documents would have no end."""
    await api.make("mill")
    samples = prometheus_samples()
    assert (await api.get("/api/collections/mill")).status == 200
    assert (await api.get("/api/collections/none")).status == 404
    assert (await api.get("/api/no/such/route")).status == 404
    route = "/api/collections/{collection}"
    changed = {labels: count - samples.get(labels, 0) for labels, count in prometheus_samples().items()}
    assert {labels: count for labels, count in changed.items() if count} == {
        (route, "GET", "2xx"): 1,
        (route, "GET", "4xx"): 1,
        ("other", "GET", "4xx"): 1,
    }


def prometheus_samples() -> dict[tuple[str, str, str], float]:
    """The number of timed requests by route, method and status."""
    [family] = request_seconds.collect()
    return {
        (each.labels["route"], each.labels["method"], each.labels["status"]): each.value
        for each in family.samples
        if each.name.endswith("_count")
    }


async def test_not_ready_without_a_worker_for_documents(api: Api) -> None:
    answer = await api.get("/health/ready")
    assert answer.status == 503
    assert answer.json["problems"][0].startswith("No worker is running: nothing that is enqueued will run. Start one")
    async with api.working():
        assert (await until_ready(api)).json == {"status": "ready", "problems": []}


async def test_one_look_is_good_for_a_second(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    database = api.product.app.database
    readiness = Readiness(ApiCheck(database, stale_after=timedelta(minutes=10)))
    assert len(await readiness.find_problems(openly=True)) == 1
    async with database.pool.session() as session:
        await register(session, Registration(["documents"], [PREPARE], slots=1, lease=timedelta(minutes=1)))
    assert len(await readiness.find_problems(openly=True)) == 1, "the same answer for a second"
    monkeypatch.setattr(ApiCheck, "fresh", 0.0)
    assert await readiness.find_problems(openly=True) == []


async def test_strangers_are_told_no_names(api: Api) -> None:
    readiness = Readiness(ApiCheck(api.product.app.database, stale_after=timedelta(seconds=-1)))
    await api.make("mill")
    await api.put("a.txt")
    async with api.product.app.database.pool.session() as session:
        await register(session, Registration(["documents"], [PREPARE], slots=1, lease=timedelta(minutes=1)))
    [openly] = await readiness.find_problems(openly=True)
    [strange] = await readiness.find_problems(openly=False)
    assert PREPARE in openly
    assert PREPARE not in strange
    assert strange == "A ready job has waited for too long."


async def test_not_ready_with_a_full_disk(api: Api) -> None:
    """By the threshold of doctor. Clients without a key do not learn of folders."""
    async with api.product.app.database.pool.session() as session:
        await register(session, Registration(["documents"], [PREPARE], slots=1, lease=timedelta(minutes=1)))
    check = ApiCheck(api.product.app.database, stale_after=timedelta(minutes=10), least_free=2**60)
    assert {(each.name, each.subject) for each in await check.findings()} == {
        ("disk-full", "blobs"),
        ("disk-full", "database"),
        ("disk-full", "scratch"),
    }
    readiness = Readiness(check)
    assert "MB are free at" in (await readiness.find_problems(openly=True))[0]
    assert set(await readiness.find_problems(openly=False)) == {"A disk is nearly full."}


async def test_not_ready_when_documents_cannot_be_stored(api: Api) -> None:
    folder = api.product.settings.home / "blobs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("in the way")
    problems = (await api.get("/health/ready")).json["problems"]
    assert f"Documents cannot be stored: {folder} is not a folder." in problems


async def test_a_disk_that_does_not_answer_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.operations.doctor.process.DISKS_WITHIN", 0.1)
    answered = threading.Event()
    monkeypatch.setattr("shutil.disk_usage", lambda _: answered.wait(10) and (0, 0, 0))
    check = ApiCheck(api.product.app.database, stale_after=timedelta(minutes=10))
    try:
        assert "storage-away" in [each.name for each in await check.findings()]
    finally:
        answered.set()


def test_every_reason_has_a_sentence_without_names() -> None:
    """Those of a worker are only told on its own port."""
    made = r'Finding\(\s*"([a-z-]+)"'
    names = set(re.findall(made, Path(process.__file__).read_text() + Path(disk.__file__).read_text()))
    assert names - {"lease-lost"} <= PUBLIC.keys()
    assert {"no-worker", "no-document-worker", "old-job"} <= PUBLIC.keys()


async def test_not_ready_when_something_waits_for_too_long(api: Api) -> None:
    await api.make("mill")
    async with api.working():
        await until_ready(api)
        async with api.product.app.transaction() as tx:
            # A worker that serves the kind and never comes to it: it has no free slot.
            await tx.execute(
                "update penstock.workers set queues = queues || array['busy'], kinds = kinds || array['print']"
            )
            await tx.execute(
                "insert into penstock.lanes (queue, kind, fairness_key) values ('busy', 'print', 'default')"
            )
            await tx.execute(
                "insert into penstock.jobs (lane, args, enqueued_at) "
                "select id, '{}', penstock.now() - interval '11 minutes' from penstock.lanes where kind = 'print'"
            )
        answer = await until_ready(api, status=503)
        assert answer.json["problems"][0].startswith(
            "A ready job of the kind print has waited for 11 min, longer than 10 min (api.stale_after)"
        )
        async with (
            api.product.app.transaction() as tx
        ):  # one that was tried before is not new, and one that is paused is wanted
            await tx.execute("update penstock.jobs set attempt = 1 where args::text = '{}'")
        assert (await until_ready(api)).json["problems"] == []


async def test_not_ready_after_the_loop_was_blocked(api: Api) -> None:
    async with api.working():
        await until_ready(api)
        time.sleep(1.3)  # noqa: ASYNC251  that is what is tested
        answer = await api.get("/health/ready")
        assert answer.status == 503
        assert answer.json["problems"][0].startswith("The event loop was blocked for 1.")
        assert (await api.get("/health/live")).status == 200


async def test_readiness_is_cheap(api: Api) -> None:
    """A check takes a few milliseconds."""
    async with api.working():
        await until_ready(api)
        took = []
        for _ in range(5):
            began = time.monotonic()
            await ApiCheck(api.product.app.database, stale_after=timedelta(minutes=10)).findings()
            took.append(time.monotonic() - began)
        assert min(took) < 0.05, "5 ms on an idle machine"


async def until_ready(api: Api, *, status: int = 200, within: float = 30) -> Answer:
    """An answer is good for a second, and a loop that a busy machine has blocked is told for ten."""
    async with asyncio.timeout(within):
        while True:
            answer = await api.get("/health/ready")
            if answer.status == status:
                return answer
            await asyncio.sleep(0.1)


async def test_findings_are_acknowledged(api: Api) -> None:
    [finding] = (await api.get("/api/findings")).json
    assert (finding["name"], finding["acknowledged_until"]) == ("no-worker", None)
    answer = await api.ask("POST", "/api/findings/no-worker/acknowledge?seconds=60")
    assert (answer.status, answer.json[0]["acknowledged_until"] is not None) == (200, True)
    assert (await api.get("/api/status")).json["findings"][0]["acknowledged_until"] is not None
    answer = await api.ask("POST", "/api/findings/no-work/acknowledge")
    assert (answer.status, "Did you mean no-worker?" in answer.json["detail"]) == (404, True)
