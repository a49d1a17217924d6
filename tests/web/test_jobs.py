"""The queue and the fleet by HTTP, for operators: jobs of all tenants, whose documents follow."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.product import Product
from tests.web.two_tenants import SETTING_OVERRIDES, TwoTenants, fill, staged, until


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    return dict(SETTING_OVERRIDES)


@pytest.fixture
async def two_tenants(product: Product) -> AsyncIterator[TwoTenants]:
    async with staged(product) as made:
        yield made


async def status_of(two_tenants: TwoTenants, document: int) -> str:
    return str((await two_tenants.ask("owner", "GET", f"/api/documents/{document}")).json["status"])


async def ask(two_tenants: TwoTenants, method: str, path: str, **options: Any) -> Any:
    answer = await two_tenants.ask("fleet", method, path, **options)
    assert answer.status < 300, f"{method} {path}: {answer.body!r}"
    return answer.json


async def test_a_job_is_shown_and_cancelled(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    listed = await ask(two_tenants, "GET", "/api/jobs?state=ready&kind=prepare_document&limit=1")
    assert [each["id"] for each in listed["items"]] == [two_tenants.job]
    [lane] = [each for each in await ask(two_tenants, "GET", "/api/lanes") if each["kind"] == "prepare_document"]
    assert (lane["fairness_key"], lane["ready"], lane["oldest_id"]) == ("mill/attic", 1, two_tenants.job)

    shown = await ask(two_tenants, "GET", f"/api/jobs/{two_tenants.job}")
    assert (shown["state"], shown["attempts"]) == ("ready", [])
    assert shown["why"].startswith(f"Job {two_tenants.job} ")

    assert await ask(two_tenants, "POST", f"/api/jobs/{two_tenants.job}/cancel") == {"jobs": [two_tenants.job]}
    assert await status_of(two_tenants, two_tenants.waiting) == "failed", "a document of another tenant follows its job"
    assert (await ask(two_tenants, "GET", f"/api/jobs/{two_tenants.job}"))["state"] == "cancelled"
    again = await two_tenants.ask("fleet", "POST", f"/api/jobs/{two_tenants.job}/cancel")
    assert (again.status, again.json["type"]) == (404, "urn:penstock:not-found")


async def test_dead_letters_get_another_chance_or_are_given_up(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    [cause] = await ask(two_tenants, "GET", "/api/dead")
    assert (cause["fingerprint"], cause["count"], cause["class"]) == (two_tenants.cause, 1, "Permanent")
    [dead] = await ask(two_tenants, "GET", f"/api/dead/{two_tenants.cause}")
    assert "traceback" in dead["error"]

    body = {"fingerprint": two_tenants.cause, "force": True}
    started = await ask(two_tenants, "POST", "/api/dead/redrive", json=body)
    assert (started["jobs"], started["created"]) == (1, True)
    again = await ask(two_tenants, "POST", "/api/dead/redrive", json=body)
    assert again == started | {"created": False}, "two redrives of one cause are one job"
    [cause] = await ask(two_tenants, "GET", "/api/dead")
    assert (cause["redrive"], cause["count"]) == (started["job"], 1)
    async with two_tenants.api.working():

        async def over() -> bool:
            return bool((await ask(two_tenants, "GET", f"/api/jobs/{started['job']}"))["finished_at"])

        await until(over)
    result = (await ask(two_tenants, "GET", f"/api/jobs/{started['job']}"))["result"]
    assert result["failed_again"] == [dead["id"]]
    assert result["sentence"].startswith(f"Stopped: the same failure has returned (job {dead['id']})")
    assert await status_of(two_tenants, two_tenants.broken) == "failed"
    [cause] = [each for each in await ask(two_tenants, "GET", "/api/dead") if each["fingerprint"] == two_tenants.cause]
    assert cause["redrive"] is None
    nothing = await ask(two_tenants, "POST", "/api/dead/redrive", json={"kind": "none"})
    assert nothing == {"job": None, "jobs": 0, "created": False}

    body = {"fingerprint": two_tenants.cause, "reason": "the original is lost"}
    assert await ask(two_tenants, "POST", "/api/dead/discard", json=body) == {"jobs": [dead["id"]]}
    shown = await ask(two_tenants, "GET", f"/api/jobs/{dead['id']}")
    assert (shown["state"], shown["error"]["discarded"]) == ("discarded", "the original is lost")
    assert two_tenants.cause not in {each["fingerprint"] for each in await ask(two_tenants, "GET", "/api/dead")}
    assert (await two_tenants.ask("fleet", "POST", "/api/dead/discard", json={"reason": "all"})).status == 422


async def test_nothing_has_changed_since_the_failure(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    async with two_tenants.api.working():

        async def known() -> bool:
            return any("code" in each["load"] for each in await ask(two_tenants, "GET", "/api/workers?gone_within=0"))

        await until(known)
        refused = await two_tenants.ask("fleet", "POST", "/api/dead/redrive", json={"fingerprint": two_tenants.cause})
    assert (refused.status, refused.json["type"]) == (409, "urn:penstock:wrong-state")
    assert await status_of(two_tenants, two_tenants.broken) == "failed"


async def test_pauses(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    body = {"what": "fairness_key", "name": "mill/attic", "reason": "moving"}
    await ask(two_tenants, "POST", "/api/pauses", json=body)
    [held] = await ask(two_tenants, "GET", "/api/pauses")
    assert {name: held[name] for name in body} == body
    await ask(two_tenants, "DELETE", "/api/pauses/fairness_key/mill/attic")
    assert await ask(two_tenants, "GET", "/api/pauses") == []
    assert (await two_tenants.ask("fleet", "DELETE", "/api/pauses/fairness_key/mill/attic")).status == 404
    refused = await two_tenants.ask("fleet", "POST", "/api/pauses", json={"what": "queue", "name": "documnts"})
    assert (refused.status, refused.json["detail"]) == (
        404,
        "Queue documnts does not exist. Did you mean documents?",
    )


async def test_schedules_and_workers(two_tenants: TwoTenants) -> None:
    async with two_tenants.api.working():

        async def declared() -> bool:
            return "tidy-documents" in {each["name"] for each in await ask(two_tenants, "GET", "/api/schedules")}

        await until(declared)
        [worker] = await ask(two_tenants, "GET", "/api/workers")
        assert (worker["status"], worker["lease_seconds"]) == ("alive", 15.0)
        assert await ask(two_tenants, "GET", "/api/limits") == []
    assert (await ask(two_tenants, "POST", "/api/schedules/tidy-documents/pause"))["state"] == "paused"
    job = (await ask(two_tenants, "POST", "/api/schedules/tidy-documents/run"))["job"]
    assert (await ask(two_tenants, "GET", f"/api/jobs/{job}"))["kind"] == "tidy_documents"
    assert (await ask(two_tenants, "POST", "/api/schedules/tidy-documents/resume"))["state"] == "active"
    in_code = await two_tenants.ask("fleet", "DELETE", "/api/schedules/tidy-documents")
    assert (in_code.status, "declared in code" in in_code.json["detail"]) == (422, True)
    assert (await two_tenants.ask("fleet", "POST", "/api/schedules/nothing/run")).status == 404


async def test_failed_messages_are_tried_again(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    [message] = (await two_tenants.ask("owner", "GET", "/api/messages?state=failed")).json["items"]
    assert (message["id"], message["error"]) == (two_tenants.message, {"message": "no"})
    again = await two_tenants.ask("owner", "POST", f"/api/messages/{two_tenants.message}/retry")
    assert (again.status, again.json["state"]) == (202, "waiting")
    assert (await two_tenants.ask("owner", "POST", f"/api/messages/{two_tenants.message}/retry")).status == 409
    assert (await two_tenants.ask("owner", "GET", "/api/sources")).json == []
