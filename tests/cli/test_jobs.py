"""`penstock jobs`, `dead`, `fleet`, `why`, `pause`, `resume`: for people and, with --json, for programs; no worker needed."""

import os
import signal

import pytest

from tests.application import SOURCE, Application
from tests.processes import Started


async def bury(application: Application, count: int) -> tuple[Started, list[int]]:
    """A worker, and dead jobs that it has made."""
    worker = await application.worker()
    ids = [int(await application.enqueue("read", n=n)) for n in range(count)]
    for job in ids:
        await application.until_state(job, "dead")
    return worker, ids


async def test_jobs(application: Application) -> None:
    greeting = await application.enqueue("greet", name="[bold]Ada[/bold]")
    later = await application.enqueue("rest", queue="slow", run_in="1h")
    listed = await application.ask("jobs", "list")
    assert [(job["id"], job["state"], job["kind"]) for job in listed["jobs"]] == [
        (greeting, "ready", "greet"),
        (later, "later", "rest"),
    ]
    assert [job["id"] for job in (await application.ask("jobs", "list", "--state", "later"))["jobs"]] == [later]
    assert (await application.ask("jobs", "list", "--limit", "1"))["more"] is True
    code, said = await application.penstock("jobs", "list", "--kind", "greet")
    assert (code, "greet" in said, "rest" in said) == (0, True, False), said
    assert await application.penstock("jobs", "list", "--queue", "none") == (0, "No job matches.\n")

    shown = await application.ask("jobs", "show", str(greeting))
    assert shown["args"] == {"name": "[bold]Ada[/bold]"}
    code, said = await application.penstock("jobs", "show", str(greeting))
    assert (code, "[bold]Ada[/bold]" in said, "none is running" in said) == (0, True, True), "nothing in it is markup"

    assert await application.ask("jobs", "cancel", str(greeting)) == {"cancelled": [greeting], "not_alive": []}
    code, said = await application.penstock("jobs", "cancel", str(greeting), str(later))
    assert (code, "Cancelled 1 job" in said, f"Not cancelled, because not live: {greeting}." in said) == (2, True, True)
    shown = await application.ask("jobs", "show", str(later))
    assert (shown["state"], shown["error"]["message"]) == ("cancelled", "cancelled by hand")


async def test_cancelling_a_running_job(application: Application) -> None:
    await application.worker()
    job = await application.enqueue("rest", queue="slow")
    await application.until_state(job, "running")
    await application.penstock("jobs", "cancel", str(job))
    await application.until_state(job, "cancelled")


async def test_why(application: Application) -> None:
    job = await application.enqueue("greet")
    code, said = await application.penstock("why", str(job))
    assert (code, said.startswith(f"Job {job} waits for a worker: none is running.")) == (0, True), said
    answer = await application.ask("why", str(job))
    assert (answer["state"], answer["because"], answer["evidence"]["workers"]) == ("ready", "no worker", 0)
    await application.worker()
    await application.until_state(job, "done")
    code, said = await application.penstock("why", str(job))
    assert "is done: greet ended at" in said


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("why", "404"), "404 does not exist: no job, document or message has this id."),
        (("jobs", "show", "404"), "Job 404 does not exist"),
        (("jobs", "list", "--state", "done"), "State done does not exist"),
        (("jobs", "cancel", "404"), "not live"),
        (("dead", "show", "404"), "Job 404 does not exist"),
        (("dead", "redrive"), "No dead jobs are selected: name them"),
        (("dead", "discard", "--reason", "x"), "No dead jobs are selected: name them"),
        (("dead", "discard", "4", "--reason", " "), "needs a reason"),
        (("dead", "discard", "4"), "--reason"),
        (("dead", "redrive", "4", "--patience", "long"), "--patience: 'long' is not a duration"),
        (("pause",), "Name exactly one"),
        (("pause", "--queue", "a", "--kind", "b"), "Name exactly one"),
        (("pause", "--queue", "slow"), "Queue slow does not exist. No worker has declared any yet."),
        (("resume",), "Name exactly one"),
        (("fleet", "--gone", "never"), "--gone"),
        (("doctor", "--old-after", "x"), "--old-after"),
    ],
    ids=" ".join,
)
async def test_what_cannot_be_done_is_one_sentence(
    application: Application, command: tuple[str, ...], sentence: str
) -> None:
    code, said = await application.penstock(*command)
    assert (code, sentence in said, "Traceback" in said) == (2, True, False), said


async def test_pause_and_resume(application: Application) -> None:
    await application.worker()
    code, said = await application.penstock("pause", "--kind", "greet", "--reason", "the printer burns")
    assert (code, said) == (0, "The kind greet is paused.\n"), "it has had no job, but a worker has it"
    job = await application.enqueue("greet")
    assert "the printer burns" in (await application.penstock("why", str(job)))[1]
    assert await application.penstock("resume", "--kind", "greet") == (0, "The kind greet is resumed.\n")
    await application.until_state(job, "done")
    assert await application.ask("resume", "--kind", "greet") == {"resumed": False, "what": "kind", "name": "greet"}
    code, said = await application.penstock("pause", "--queue", "slwo")
    assert (code, said) == (2, "Queue slwo does not exist. Did you mean slow?\n")
    code, said = await application.penstock("pause", "--kind", "print")
    assert (code, "Kind print does not exist. Known: block, greet, hog, read, rest." in said) == (2, True), said
    assert (await application.ask("doctor"))["findings"] == [], "nothing is paused"
    code, said = await application.penstock("pause", "--fairness-key", "defualt")
    assert (code, said) == (2, "Fairness key defualt has never had a job or a schedule. Did you mean default?\n")
    assert (await application.ask("pause", "--fairness-key", "default"))["paused"]["name"] == "default"


async def test_fleet(application: Application) -> None:
    code, said = await application.penstock("fleet")
    assert (code, said) == (0, "No worker is running: start one with `penstock worker module:app`.\n")
    worker = await application.worker("--concurrency", "7")
    await application.until("select from penstock.workers where load ? 'code'")
    [member] = await application.ask("fleet")
    assert (member["pid"], member["status"], member["slots"]) == (worker.pid, "alive", 7 * 3)
    assert member["load"]["pool_size"] == 4
    assert member["load"]["notified"] is True
    os.kill(worker.pid, signal.SIGTERM)
    await worker.end()
    code, said = await application.penstock("fleet")
    assert "gone: left" in said


async def test_dead(application: Application) -> None:
    assert await application.penstock("dead", "list") == (0, "No job is dead.\n")
    _, ids = await bury(application, 3)
    [cause] = (await application.ask("dead", "list"))["causes"]
    assert (cause["count"], cause["kind"], cause["class"]) == (3, "read", "Permanent")
    listed = await application.ask("dead", "list", "--fingerprint", cause["fingerprint"])
    assert [job["id"] for job in listed["jobs"]] == ids
    assert await application.penstock("jobs", "list") == (0, "No job matches.\n"), "a dead job is not live"
    code, said = await application.penstock("dead", "list", "--kind", "read")
    assert (code, "page 2 is torn" in said) == (0, True), said
    code, said = await application.penstock("dead", "show", str(ids[0]))
    assert (code, "page 0 is torn" in said, "Traceback (most recent call last)" in said) == (0, True, True), said

    code, said = await application.penstock("dead", "discard", str(ids[0]), "--reason", "a test print")
    assert (code, said) == (0, "Discarded 1 job.\n")
    shown = await application.ask("jobs", "show", str(ids[0]))
    assert (shown["state"], shown["error"]["discarded"]) == ("discarded", "a test print")
    code, said = await application.penstock("dead", "show", str(ids[0]))
    assert (code, "is not dead" in said) == (2, True)


async def test_redrive_notices_that_nothing_has_changed_and_that_something_has(application: Application) -> None:
    """The cause is mended in the code, as people do it: edit, restart, redrive."""
    worker, _ = await bury(application, 13)
    code, said = await application.penstock("dead", "redrive", "--kind", "read")
    assert (code, "Nothing has changed since the failure" in said) == (2, True), said
    assert len((await application.ask("jobs", "list", "--state", "dead"))["jobs"]) == 13

    code, said = await application.penstock("dead", "redrive", "--kind", "read", "--force")
    assert (code, "the same failure has returned" in said, "12 left as they were" in said) == (1, True, True), said

    os.kill(worker.pid, signal.SIGTERM)
    await worker.end()
    (application.folder / "shop.py").write_text(SOURCE.replace('raise Permanent(f"page {n} is torn")', "return n"))
    await application.worker()
    await application.until("select from penstock.workers where gone_at is null and load ? 'code'")
    code, said = await application.penstock("dead", "redrive", "--kind", "read")
    assert code == 0, said
    stages = [line for line in said.splitlines() if line.startswith("Redriving")]
    assert stages == ["Redriving 1 job, 12 to go", "Redriving 10 jobs, 2 to go", "Redriving 2 jobs, 0 to go"]
    assert said.endswith("13 jobs done.\n")
    assert await application.ask("dead", "list") == {"causes": []}
