"""The queue and the fleet by HTTP, for who runs them: jobs of all tenants, whose documents follow."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.pipelines import Product
from tests.web.stage import WISHES, Stage, fill, staged, until


@pytest.fixture
def wishes() -> dict[str, Any]:
    return dict(WISHES)


@pytest.fixture
async def stage(product: Product) -> AsyncIterator[Stage]:
    async with staged(product) as made:
        yield made


async def status_of(stage: Stage, document: int) -> str:
    return str((await stage.ask("owner", "GET", f"/api/documents/{document}")).json["status"])


async def ask(stage: Stage, method: str, path: str, **options: Any) -> Any:
    answer = await stage.ask("fleet", method, path, **options)
    assert answer.status < 300, f"{method} {path}: {answer.body!r}"
    return answer.json


async def test_a_job_is_shown_and_cancelled(stage: Stage) -> None:
    await fill(stage)
    listed = await ask(stage, "GET", "/api/jobs?state=ready&kind=prepare_document&limit=1")
    assert [each["id"] for each in listed["items"]] == [stage.job]
    [lane] = [each for each in await ask(stage, "GET", "/api/lanes") if each["kind"] == "prepare_document"]
    assert (lane["share"], lane["depth"], lane["oldest_id"]) == ("mill/attic", 1, stage.job)

    shown = await ask(stage, "GET", f"/api/jobs/{stage.job}")
    assert (shown["state"], shown["attempts"]) == ("ready", [])
    assert shown["why"].startswith(f"Job {stage.job} ")

    assert await ask(stage, "POST", f"/api/jobs/{stage.job}/cancel") == {"jobs": [stage.job]}
    assert await status_of(stage, stage.waiting) == "failed", "a document of another tenant follows its job"
    assert (await ask(stage, "GET", f"/api/jobs/{stage.job}"))["state"] == "cancelled"
    again = await stage.ask("fleet", "POST", f"/api/jobs/{stage.job}/cancel")
    assert (again.status, again.json["type"]) == (404, "urn:penstock:not-found")


async def test_dead_letters_get_another_chance_or_are_given_up(stage: Stage) -> None:
    await fill(stage)
    [cause] = await ask(stage, "GET", "/api/dead")
    assert (cause["fingerprint"], cause["count"], cause["class"]) == (stage.cause, 1, "Permanent")
    [dead] = await ask(stage, "GET", f"/api/dead/{stage.cause}")
    assert "traceback" in dead["error"]

    wish = {"fingerprint": stage.cause, "force": True}
    started = await ask(stage, "POST", "/api/dead/redrive", json=wish)
    assert (started["jobs"], started["created"]) == (1, True)
    again = await ask(stage, "POST", "/api/dead/redrive", json=wish)
    assert again == started | {"created": False}, "two redrives of one cause are one job"
    [cause] = await ask(stage, "GET", "/api/dead")
    assert (cause["redrive"], cause["count"]) == (started["job"], 1)
    async with stage.api.working():

        async def over() -> bool:
            return bool((await ask(stage, "GET", f"/api/jobs/{started['job']}"))["finished_at"])

        await until(over)
    result = (await ask(stage, "GET", f"/api/jobs/{started['job']}"))["result"]
    assert result["failed_again"] == [dead["id"]]
    assert result["sentence"].startswith(f"Stopped: the same failure has returned (job {dead['id']})")
    assert await status_of(stage, stage.broken) == "failed"
    [cause] = [each for each in await ask(stage, "GET", "/api/dead") if each["fingerprint"] == stage.cause]
    assert cause["redrive"] is None
    nothing = await ask(stage, "POST", "/api/dead/redrive", json={"kind": "none"})
    assert nothing == {"job": None, "jobs": 0, "created": False}

    wish = {"fingerprint": stage.cause, "reason": "the original is lost"}
    assert await ask(stage, "POST", "/api/dead/discard", json=wish) == {"jobs": [dead["id"]]}
    shown = await ask(stage, "GET", f"/api/jobs/{dead['id']}")
    assert (shown["state"], shown["error"]["discarded"]) == ("discarded", "the original is lost")
    assert stage.cause not in {each["fingerprint"] for each in await ask(stage, "GET", "/api/dead")}
    assert (await stage.ask("fleet", "POST", "/api/dead/discard", json={"reason": "all"})).status == 422


async def test_nothing_has_changed_since_the_failure(stage: Stage) -> None:
    await fill(stage)
    async with stage.api.working():

        async def known() -> bool:
            return any("code" in each["load"] for each in await ask(stage, "GET", "/api/workers?gone_within=0"))

        await until(known)
        refused = await stage.ask("fleet", "POST", "/api/dead/redrive", json={"fingerprint": stage.cause})
    assert (refused.status, refused.json["type"]) == (409, "urn:penstock:wrong-state")
    assert await status_of(stage, stage.broken) == "failed"


async def test_pauses(stage: Stage) -> None:
    wish = {"what": "share", "name": "mill/attic", "reason": "moving"}
    await ask(stage, "POST", "/api/pauses", json=wish)
    [held] = await ask(stage, "GET", "/api/pauses")
    assert {name: held[name] for name in wish} == wish
    await ask(stage, "DELETE", "/api/pauses/share/mill/attic")
    assert await ask(stage, "GET", "/api/pauses") == []
    assert (await stage.ask("fleet", "DELETE", "/api/pauses/share/mill/attic")).status == 404


async def test_schedules_and_workers(stage: Stage) -> None:
    async with stage.api.working():

        async def declared() -> bool:
            return "tidy-documents" in {each["name"] for each in await ask(stage, "GET", "/api/schedules")}

        await until(declared)
        [worker] = await ask(stage, "GET", "/api/workers")
        assert (worker["status"], worker["lease_seconds"]) == ("alive", 15.0)
        assert await ask(stage, "GET", "/api/limits") == []
    assert (await ask(stage, "POST", "/api/schedules/tidy-documents/pause"))["state"] == "paused"
    job = (await ask(stage, "POST", "/api/schedules/tidy-documents/run"))["job"]
    assert (await ask(stage, "GET", f"/api/jobs/{job}"))["kind"] == "tidy_documents"
    assert (await ask(stage, "POST", "/api/schedules/tidy-documents/resume"))["state"] == "active"
    in_code = await stage.ask("fleet", "DELETE", "/api/schedules/tidy-documents")
    assert (in_code.status, "declared in code" in in_code.json["detail"]) == (422, True)
    assert (await stage.ask("fleet", "POST", "/api/schedules/nothing/run")).status == 404


async def test_failed_messages_are_tried_again(stage: Stage) -> None:
    await fill(stage)
    [message] = (await stage.ask("owner", "GET", "/api/messages?state=failed")).json["items"]
    assert (message["id"], message["error"]) == (stage.message, {"message": "no"})
    again = await stage.ask("owner", "POST", f"/api/messages/{stage.message}/retry")
    assert (again.status, again.json["state"]) == (202, "waiting")
    assert (await stage.ask("owner", "POST", f"/api/messages/{stage.message}/retry")).status == 409
    assert (await stage.ask("owner", "GET", "/api/sources")).json == []
