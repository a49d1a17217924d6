"""What `doctor` and the metrics say about the checks of documents."""

from penstock.engine import Kind
from penstock.operations import Finding, FleetGauges, examine
from penstock.operations.checking import KIND
from tests.yard import Yard, anything

OPEN = """
insert into penstock.findings (check_name, subject, document_id, sentence, advice)
select 'blobs', n, n, 'The bytes of document ' || n || ' are not there.', 'penstock delete ' || n
from generate_series(7, 9) as n
"""
REPAIR = "update penstock.findings set repair = 'They were put back.', repaired_at = penstock.now(), ended_at = penstock.now()"


async def findings(yard: Yard) -> list[Finding]:
    seen = await examine(yard.client.settings)
    return [finding for finding in seen if finding.name.startswith(("documents-", "checks-"))]


async def test_open_findings_are_a_problem_until_they_are_ended(yard: Yard) -> None:
    await yard.worker()
    await yard.run("insert into penstock.checks (name, found) values ('blobs', 3)")
    await yard.run(OPEN)
    [finding] = await findings(yard)
    assert finding.name == "documents-blobs"
    assert finding.sentence == "The bytes of document 7 are not there. 2 more findings of this check."
    assert finding.command == "penstock delete 7"
    assert finding.evidence["open"] == 3
    assert [each["document"] for each in finding.evidence["findings"]] == [7, 8, 9]
    assert (await yard.ask("doctor", code=1))["healthy"] is False
    await yard.run("update penstock.findings set ended_at = penstock.now()")
    assert await findings(yard) == []


async def test_what_was_repaired_is_a_note(yard: Yard) -> None:
    await yard.worker()
    await yard.run(OPEN)
    await yard.run(REPAIR)
    answer = await yard.ask("doctor")
    assert answer["healthy"] is True
    [note] = answer["findings"]
    assert (note["name"], note["note"], note["evidence"]) == ("documents-repaired", True, {"repaired": {"blobs": 3}})
    assert "3 findings about documents were repaired in the last day (3 by blobs)." in note["sentence"]
    assert note["sentence"].endswith("They were put back.")
    code, said = await yard.penstock("doctor")
    assert (code, said.count("\n")) == (0, 1), said
    await yard.run("update penstock.findings set repaired_at = repaired_at - interval '25 hours'")
    assert await findings(yard) == []


async def test_a_check_that_does_not_look(yard: Yard) -> None:
    """Only while somebody is there who could."""
    late = "penstock.now() - interval '2 hours'"
    await yard.run(
        f"insert into penstock.checks (name, looked_at) values ('versions', {late}), ('live', penstock.now())"
    )
    assert await findings(yard) == []
    await serve(yard)
    assert await findings(yard) == [], "it has just come"
    await yard.run(f"update penstock.workers set started_at = {late}")
    [finding] = await findings(yard)
    assert (finding.name, finding.command) == ("checks-stale", "penstock schedule run check-documents")
    assert finding.evidence["checks"] == ["versions"]
    assert "1 check of documents (versions) did not look for 2 h." in finding.sentence
    await yard.run("update penstock.checks set looked_at = penstock.now()")
    assert await findings(yard) == []
    await yard.run("delete from penstock.checks")
    assert [finding.evidence["checks"] for finding in await findings(yard)] == [["all"]], "none ever did"


async def serve(yard: Yard) -> None:
    """A worker that serves the checks, as a row."""
    from tests.engine.conftest import Shop

    await Shop(yard.client.database).worker(Kind(KIND, anything, "upkeep"))


async def test_findings_are_counted_in_the_metrics(yard: Yard) -> None:
    await yard.run("insert into penstock.checks (name, found) values ('blobs', 5), ('live', 0)")
    await yard.run(OPEN)
    text = (await FleetGauges(yard.client.database).render()).decode()
    assert 'penstock_findings_total{check="blobs"} 5.0' in text
    assert 'penstock_findings_open{check="blobs"} 3.0' in text
    assert 'penstock_findings_open{check="live"} 0.0' in text
