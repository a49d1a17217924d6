"""`penstock limits`: what the fleet has of each limit, for people and programs; and a breaker that is closed by hand."""

from tests.application import Application, address_of, fetch

CAREFUL = """
import asyncio
from penstock import Penstock

app = Penstock()
app.limit("llm", 4)
app.limit("ocr", 1, rest="1h", breaker_after=1)


@app.job()
async def ask(ctx):
    async with ctx.limit("llm", 3):
        await asyncio.sleep(60)


@app.job(uses={"ocr": 1}, retries=0)
async def read(ctx):
    raise OSError("no route to the scanner")
"""


async def test_limits(application: Application) -> None:
    code, said = await application.penstock("limits", "list")
    assert (code, "No limit exists: an application declares one" in said) == (0, True), said
    (application.folder / "careful.py").write_text(CAREFUL)
    worker = await application.worker("--port", "0", place="careful:app")
    await application.enqueue("ask")
    await application.enqueue("ask")
    broken = await application.enqueue("read")
    await application.until_state(broken, "dead")
    await application.until("select from penstock.allotments where limit_name = 'llm' and used = 3 and waiting = 1")
    await application.until("select from penstock.limits where name = 'ocr' and opened_at is not null")

    llm, ocr = await application.ask("limits", "list")
    assert (llm["name"], llm["permits"], llm["granted"], llm["used"], llm["waiting"]) == ("llm", 4, 4, 3, 1)
    assert (llm["breaker"], llm["kinds"], len(llm["workers"])) == ("closed", [], 1)
    assert (ocr["breaker"], ocr["kinds"], ocr["reason"]) == ("open", ["read"], "OSError: no route to the scanner")
    code, said = await application.penstock("limits", "list")
    assert (code, "3/4" in said, "open since" in said, "no route to the scanner" in said) == (0, True, True, True), said

    _, metrics = await fetch(address_of(worker), "/metrics")
    assert 'penstock_limit_used{limit="llm"} 3.0' in metrics
    assert 'penstock_limit_granted{limit="llm"} 4.0' in metrics
    assert 'penstock_breaker_open{limit="ocr"} 1.0' in metrics
    assert 'penstock_breaker_open{limit="llm"} 0.0' in metrics
    assert 'penstock_limit_concurrency{limit="llm"} ' in metrics

    waiting = await application.enqueue("read")
    _, said = await application.penstock("why", str(waiting))
    assert "waits for ocr: its breaker has been open since" in said
    assert await application.ask("limits", "close", "ocr") == {"limit": "ocr", "closed": True}
    await application.until_state(waiting, "dead")  # claimed again, and as bad as before


async def test_what_cannot_be_closed(application: Application) -> None:
    code, said = await application.penstock("limits", "close", "lmm")
    assert (code, said) == (2, "Limit lmm does not exist. `penstock limits list` shows all.\n")
    await application.run("insert into penstock.limits (name, permits) values ('llm', 1)")
    code, said = await application.penstock("limits", "close", "lmm")
    assert (code, said) == (2, "Limit lmm does not exist. Did you mean llm? `penstock limits list` shows all.\n")
    code, said = await application.penstock("limits", "close", "llm")
    assert (code, said) == (0, "The breaker of llm was closed already.\n")
