"""`penstock schedules`: what is declared and fired, and what people do to it."""

import pytest

from penstock.engine import Kind
from tests.application import SOURCE, Application, address_of, anything
from tests.metrics_samples import metrics

DECLARED = (
    SOURCE
    + """

app.schedule("nightly", "0 2 * * *", greet(name="night"), timezone="Europe/Berlin", overlap="skip")
app.schedule("often", "every 1s", greet(name="often"))
"""
)


async def add(application: Application, name: str, rule: str = "0 0 1 1 *", fairness_key: str = "_system") -> None:
    await application.client.add_schedule(name, rule, Kind("greet", anything)(name="Ada"), fairness_key=fairness_key)


async def test_what_a_worker_declares_is_listed_fired_and_counted(application: Application) -> None:
    (application.folder / "shop.py").write_text(DECLARED)
    worker = await application.worker("--port", "0")
    await application.until("select from penstock.schedules where name = 'often' and fired >= 2")
    nightly, often = (await application.ask("schedules", "list"))["schedules"]
    assert (nightly["rule"], nightly["timezone"], nightly["kind"]) == ("0 2 * * *", "Europe/Berlin", "greet")
    assert (nightly["state"], nightly["origin"], nightly["fired"], nightly["last_job"]) == ("active", "code", 0, None)
    assert (often["rule"], often["skipped"], often["args"]) == ("every 1s", 0, {"name": "often"})
    assert often["last_job"] is not None
    code, said = await application.penstock("schedules", "list")
    first, line, _ = said.splitlines()
    assert first.split() == [
        "name",
        "fairness_key",
        "rule",
        "zone",
        "kind",
        "declared",
        "next",
        "last",
        "fired",
        "skipped",
        "state",
    ]
    assert (code, line.split()[:3] == ["nightly", "_system", "0"], "code, " in line, ", in " in line) == (
        0,
        True,
        True,
        True,
    )

    code, said = await application.penstock("schedules", "remove", "often")
    assert (code, "is declared in code: remove it there" in said) == (2, True), said
    samples = await metrics(address_of(worker))
    assert samples["penstock_schedule_ticks_total outcome=fired"] >= 2
    assert samples["penstock_schedules state=active"] == 2
    assert samples["penstock_schedules state=overdue"] == 0


async def test_run_pause_resume_remove(application: Application) -> None:
    await add(application, "report")
    job = (await application.ask("schedules", "run", "report"))["job"]
    [row] = await application.run("select state::text, args from penstock.jobs where id = $1", job)
    assert (row["state"], row["args"]) == ("ready", '{"name":"Ada"}')
    said = "The schedule report of the fairness key _system"
    assert await application.penstock("schedules", "pause", "report") == (0, f"{said} is paused.\n")
    assert await application.ask("schedules", "pause", "report") == {
        "schedule": "report",
        "fairness_key": "_system",
        "paused": False,
    }
    assert await application.run("select from penstock.schedules where paused_at is not null")
    assert await application.penstock("schedules", "resume", "report") == (0, f"{said} is resumed.\n")
    assert await application.penstock("schedules", "remove", "report") == (0, f"{said} is removed.\n")
    assert await application.penstock("schedules", "list") == (0, "No schedule exists.\n")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            ("run", "raport"),
            "Schedule raport does not exist. Did you mean report? `penstock schedules list` shows all.",
        ),
        (("pause", "nothing"), "Schedule nothing does not exist. `penstock schedules list` shows all."),
        (("resume", "report"), "Schedule report exists for several fairness keys (acme, zeta): add --fairness-key."),
        (
            ("remove", "report", "--fairness-key", "beta"),
            "Schedule report does not exist for the fairness key beta, but for acme, zeta.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_a_name_that_is_not_there(application: Application, command: tuple[str, ...], sentence: str) -> None:
    await add(application, "report", fairness_key="acme")
    await add(application, "report", fairness_key="zeta")
    code, said = await application.penstock("schedules", *command)
    assert (code, sentence in said, "Traceback" in said) == (2, True, False), said
