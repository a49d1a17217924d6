"""Status, metrics and health of the API process."""

import asyncio
import re
import time
from datetime import timedelta

import pytest

from penstock.cli.operations import list_metrics
from penstock.documents.names import PREPARE
from penstock.engine.fleet import Registration, register
from penstock.web.health import Readiness, check
from tests.web.conftest import Answer, Api


async def test_status(api: Api) -> None:
    await api.make("mill")
    await api.make("other")
    await api.put("a.txt")
    told = (await api.get("/api/status")).json
    assert told["documents"] == {"queued": 1, "processing": 0, "ready": 0, "failed": 0, "deleted": 0}
    assert told["jobs"]["ready"]["count"] == 1
    assert told["workers"] == []
    assert "No worker is running" in told["problems"][0]
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


async def test_not_ready_without_a_worker_for_documents(api: Api) -> None:
    answer = await api.get("/health/ready")
    assert answer.status == 503
    assert answer.json["problems"][0].startswith("No live worker serves documents: start one")
    async with api.working():
        assert (await until_ready(api)).json == {"status": "ready", "problems": []}


async def test_one_look_is_good_for_a_second(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    database = api.product.app.database
    readiness = Readiness(database, timedelta(minutes=10))
    assert len(await readiness.find_problems(openly=True)) == 1
    async with database.pool.session() as session:
        await register(session, Registration(["documents"], [PREPARE], slots=1, lease=timedelta(minutes=1)))
    assert len(await readiness.find_problems(openly=True)) == 1, "whoever asks again gets the same answer"
    monkeypatch.setattr("penstock.web.health.FRESH", 0.0)
    assert await readiness.find_problems(openly=True) == []


async def test_strangers_are_told_no_names(api: Api) -> None:
    readiness = Readiness(api.product.app.database, timedelta(seconds=-1))
    await api.make("mill")
    await api.put("a.txt")
    async with api.product.app.database.pool.session() as session:
        await register(session, Registration(["documents"], [PREPARE], slots=1, lease=timedelta(minutes=1)))
    [openly] = await readiness.find_problems(openly=True)
    [strange] = await readiness.find_problems(openly=False)
    assert PREPARE in openly
    assert PREPARE not in strange
    assert strange.startswith("A ready job has waited for ")


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
    """A look takes a few milliseconds."""
    async with api.working():
        await until_ready(api)
        took = []
        for _ in range(5):
            began = time.monotonic()
            await check(api.product.app.database)
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
