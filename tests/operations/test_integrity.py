"""What `doctor` and the metrics say about the checks of documents."""

from penstock.engine import Kind
from penstock.operations import Finding, FleetGauges, examine
from tests.application import Application, anything

OPEN = """
insert into penstock.findings (check_name, subject, document_id, sentence, advice)
select 'blobs', n, n, 'The bytes of document ' || n || ' are not there.', 'penstock delete ' || n
from generate_series(7, 9) as n
"""
REPAIR = "update penstock.findings set repair = 'They were put back.', repaired_at = penstock.now(), ended_at = penstock.now()"


async def findings(application: Application) -> list[Finding]:
    seen = await examine(application.client.settings)
    return [finding for finding in seen if finding.name.startswith(("documents-", "checks-"))]


async def test_open_findings_are_a_problem_until_they_are_ended(application: Application) -> None:
    await application.worker()
    await application.run("insert into penstock.checks (name, found) values ('blobs', 3)")
    await application.run(OPEN)
    [finding] = await findings(application)
    assert finding.name == "documents-blobs"
    assert finding.sentence == "The bytes of document 7 are not there. 2 more findings of this check."
    assert finding.command == "penstock delete 7"
    assert finding.evidence["open"] == 3
    assert [each["document"] for each in finding.evidence["findings"]] == [7, 8, 9]
    assert (await application.ask("doctor", code=1))["healthy"] is False
    await application.run("update penstock.findings set ended_at = penstock.now()")
    assert await findings(application) == []


async def test_what_was_repaired_is_a_note(application: Application) -> None:
    await application.worker()
    await application.run(OPEN)
    await application.run(REPAIR)
    answer = await application.ask("doctor")
    assert answer["healthy"] is True
    [note] = answer["findings"]
    assert (note["name"], note["severity"], note["evidence"]) == (
        "documents-repaired",
        "note",
        {"repaired": {"blobs": 3}},
    )
    assert "3 findings about documents were repaired in the last day (3 by blobs)." in note["sentence"]
    assert note["sentence"].endswith("They were put back.")
    code, said = await application.penstock("doctor")
    assert (code, said.count("\n"), said.endswith("No problems found.\n")) == (0, 2, True), said
    await application.run("update penstock.findings set repaired_at = repaired_at - interval '25 hours'")
    assert await findings(application) == []


async def test_a_check_that_does_not_look(application: Application) -> None:
    """Only while somebody is there who could."""
    late = "penstock.now() - interval '2 hours'"
    await application.run(
        f"insert into penstock.checks (name, looked_at) values ('versions', {late}), ('live', penstock.now())"
    )
    assert await findings(application) == []
    await serve(application)
    assert await findings(application) == [], "it has just come"
    await application.run(f"update penstock.workers set started_at = {late}")
    [finding] = await findings(application)
    assert (finding.name, finding.command) == ("checks-stale", "penstock schedules run check-documents")
    assert finding.evidence["checks"] == ["versions"]
    assert "1 check of documents (versions) was not run for 2 h." in finding.sentence
    await application.run("update penstock.checks set looked_at = penstock.now()")
    assert await findings(application) == []
    await application.run("delete from penstock.checks")
    assert [finding.evidence["checks"] for finding in await findings(application)] == [["all"]], "none ever did"


async def serve(application: Application) -> None:
    """A worker that serves the checks, as a row."""
    from tests.engine.conftest import JobQueue

    await JobQueue(application.client.database).worker(Kind("check_documents", anything, "upkeep"))


async def test_findings_are_counted_in_the_metrics(application: Application) -> None:
    await application.run("insert into penstock.checks (name, found) values ('blobs', 5), ('live', 0)")
    await application.run(OPEN)
    text = (await FleetGauges(application.client.database).render()).decode()
    assert 'penstock_findings_total{check="blobs"} 5.0' in text
    assert 'penstock_findings_open{check="blobs"} 3.0' in text
    assert 'penstock_findings_open{check="live"} 0.0' in text
