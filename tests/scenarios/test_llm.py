"""A language model goes away in the middle of many calls, a worker is killed meanwhile, and the model comes back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.application import Application, application
from tests.models.chat import Chat, answers, chatting, cut
from tests.polling import until

pytestmark = pytest.mark.slow

__all__ = ["application"]

ASKING = """
from penstock import Penstock
from penstock.pipelines.llm import LlmRequests

app = Penstock()
llm = LlmRequests(app)
"""
QUESTIONS = 120
IN_FLIGHT = 12
ENDED = """
select job.id, job.failures, job.result ->> 'text' as text
from penstock.job_history as job join penstock.lanes as lane on lane.id = job.lane
where lane.kind = 'llm.complete.main' and job.outcome = 'done'
"""
BEATEN = """
select 1 from penstock.workers where gone_at is null
having bool_and(heartbeat_at > penstock.now() - interval '2 seconds')
"""


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with chatting() as known:
        yield known


async def pass_time(application: Application, seconds: int) -> None:
    """In steps so small that no worker looks silent."""
    for _ in range(0, seconds, 5):
        await application.run("update penstock.test_clock set shift = shift + interval '5 seconds'")
        await application.until(BEATEN)


async def test_an_outage_and_a_kill_lose_no_question_and_spend_no_try(application: Application, chat: Chat) -> None:
    """Each question ends with its own answer, once; and none of them is charged for the time without a model."""
    away = asyncio.Event()

    async def echo(request: Any, asked: dict[str, Any]) -> Any:
        await asyncio.sleep(0.3)
        reply = cut if away.is_set() else answers(f"answer to {asked['messages'][0]['content']}")
        return await reply(request, asked)

    chat.usual = echo
    application.environ |= {
        "PENSTOCK_LLMS__MAIN__URL": chat.url,
        "PENSTOCK_LLMS__MAIN__MODEL": "gpt-tiny",
        "PENSTOCK_LLMS__MAIN__PERMITS": str(2 * IN_FLIGHT),
        "PENSTOCK_LLMS__MAIN__RETRIES": "1",
    }
    (application.folder / "asking.py").write_text(ASKING)
    first, second = [await application.worker(place="asking:app") for _ in range(2)]
    jobs = {
        await application.enqueue(
            "llm.complete.main", queue="llm", messages=[{"role": "user", "content": f"{number}"}]
        ): number
        for number in range(QUESTIONS)
    }
    await until(lambda: chat.inside >= IN_FLIGHT, within=20)
    first.process.kill()
    await until(lambda: chat.inside >= 2, within=20)
    away.set()
    await application.until("select from penstock.limits where name = 'llm-main' and opened_at is not null")
    third = await application.worker(place="asking:app")
    [(trips,)] = await application.run("select trips from penstock.limits where name = 'llm-main'")
    await pass_time(application, 30 * trips)  # somebody probes, and the model is still away
    await application.until("select from penstock.limits where name = 'llm-main' and trips > $1", trips)
    assert await application.run("select from penstock.jobs where state = 'dead' or failures > 0") == []

    away.clear()
    for _ in range(2):
        await pass_time(application, 60)
    await application.until(f"select 1 from ({ENDED}) as ended having count(*) >= {QUESTIONS}", within=60)
    ended = await application.run(ENDED)
    assert {row["id"]: row["text"] for row in ended} == {job: f"answer to {number}" for job, number in jobs.items()}
    assert (len(ended), {row["failures"] for row in ended}) == (QUESTIONS, {0})
    assert await application.run("select from penstock.limits where opened_at is not null") == []
    for worker in (second, third):
        worker.process.terminate()
        await worker.end()
