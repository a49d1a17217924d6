"""The commands work on the documents of one tenant, whichever the settings name."""

from pathlib import Path

from tests.application import Application

MILL = "mill"


async def test_commands_see_one_tenant(application: Application, tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    file.write_text("The gate is made of oak.")
    code, said = await application.penstock("add", str(file), PENSTOCK_TENANT=MILL)
    assert code == 0, said
    [shown] = (await application.ask("documents", "list", PENSTOCK_TENANT=MILL))["documents"]
    assert (shown["name"], shown["status"]) == ("gate.txt", "ready")
    assert (await application.ask("search", "oak", PENSTOCK_TENANT=MILL))["hits"][0]["name"] == "gate.txt"
    assert (await application.ask("status", PENSTOCK_TENANT=MILL))["documents"]["ready"] == 1
    code, said = await application.penstock("why", str(shown["id"]), PENSTOCK_TENANT=MILL)
    assert (code, "is ready" in said) == (0, True), said

    assert (await application.ask("documents", "list"))["documents"] == []
    assert (await application.ask("search", "oak"))["hits"] == []
    for command in (("why", str(shown["id"])), ("documents", "text", "gate.txt"), ("delete", str(shown["id"]))):
        code, said = await application.penstock(*command)
        assert (code, "no document" in said or "does not exist" in said) == (2, True), said

    assert (await application.ask("delete", "default/gate.txt", "--now", "--wait", PENSTOCK_TENANT=MILL))["receipts"][
        0
    ]["name"] == "gate.txt"


async def test_a_tenant_has_a_name_of_a_certain_form(application: Application) -> None:
    code, said = await application.penstock("documents", "list", PENSTOCK_TENANT="The Mill")
    assert (code, "PENSTOCK_TENANT" in said) == (2, True), said
