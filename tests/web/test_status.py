"""Status, metrics and health of the API process."""

from tests.web.conftest import Api


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
    assert (await api.get("/health/ready")).json == {"status": "ready", "problems": []}
