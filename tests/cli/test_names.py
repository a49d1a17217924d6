"""Names in place of ids, names that do not exist, and documents that are only partly readable."""

from pathlib import Path

from penstock.cli.add.command import _sentence
from penstock.cli.add.progress import AddProgress, Entry
from penstock.documents import SourceMessage
from penstock.product import Product
from tests.application import Application
from tests.processes import start


async def test_a_misspelt_collection_is_refused(application: Application, tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    file.write_text("The gate is made of oak.")
    code, said = await application.penstock("add", str(file), "-c", "permits")
    assert (code, said.splitlines()[-1]) == (2, "Collection permits does not exist. `--create` makes it.")
    assert (await application.penstock("add", str(file), "-c", "permits", "--create"))[0] == 0
    code, said = await application.penstock("add", str(file), "-c", "permtis")
    sentence = "Collection permtis does not exist. Did you mean permits? `--create` makes it."
    assert (code, said.splitlines()[-1]) == (2, sentence)
    code, said = await application.penstock("packets", "add", str(file), "-c", "permtis")
    assert (code, said.splitlines()[-1]) == (2, sentence)
    assert (await application.penstock("add", str(file)))[0] == 0
    collections = (await application.ask("collections", "list"))["collections"]
    assert [each["name"] for each in collections] == ["default", "permits"], "`default` is always made"
    code, said = await application.penstock("documents", "show", "gate.txt")
    assert (code, "Document gate.txt is ambiguous: use one of permits/gate.txt, default/gate.txt." in said) == (2, True)
    assert (await application.ask("documents", "show", "permits/gate.txt"))["collection"] == "permits"


async def test_what_is_partly_readable(application: Application, tmp_path: Path) -> None:
    for name in ("gate", "mill"):
        (tmp_path / f"{name}.txt").write_text(f"The {name} is made of oak.")
    code, said = await application.penstock("add", str(tmp_path / "gate.txt"), str(tmp_path / "mill.txt"))
    assert code == 0, said
    assert await application.penstock("documents", "list", "--partial") == (0, "No document matches.\n")
    await application.run(
        "update penstock.versions set gaps = $1 where id in (select live_id from penstock.documents where name = 'mill.txt')",
        '[{"page": 1, "reason": "the scan is blank"}]',
    )
    listed = await application.ask("documents", "list", "--partial")
    assert [each["name"] for each in listed["documents"]] == ["mill.txt"]
    code, said = await application.penstock("documents", "list", "--partial", "-c", "default")
    assert (code, "partly readable: 1 page skipped" in said) == (0, True), said


def test_the_last_line_of_add() -> None:
    progress = AddProgress("default", files=2, waiting=True)
    for number in range(3):
        progress.note(Entry(f"{number}.pdf", "accepted" if number < 2 else "member", number + 1))
        progress.finish(number + 1, "ready", None, gaps=number)
    progress.note(Entry("torn.pdf", "refused", reason="it cannot be read"))
    assert (
        " 3 ready (including 1 attachment), 2 only partly readable (`penstock documents list --partial`), 1 failed, after "
        in _sentence(progress)
    )


async def test_deleted_documents_by_name(application: Application, tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    file.write_text("The gate is made of oak.")
    week = {"PENSTOCK_DOCUMENTS__RESTORE_WITHIN": "7d"}
    code, said = await application.penstock("add", str(file))
    assert code == 0, said
    [document] = (await application.ask("documents", "list"))["documents"]
    code, said = await application.penstock("delete", "gate.txt", **week)
    assert code == 0, said
    code, said = await application.penstock("restore", "default/gate.txt", **week)
    assert (code, said) == (0, f"Document {document['id']} (gate.txt) is ready again.\n")


async def test_a_key_by_name(application: Application) -> None:
    for name in ("ann", "bob", "bob"):
        assert (await application.penstock("keys", "create", name))[0] == 0
    code, said = await application.penstock("keys", "revoke", "ann")
    assert (code, said.startswith("Revoked key 1 ")) == (0, True), said
    code, said = await application.penstock("keys", "revoke", "bob")
    assert (code, said) == (2, "Several keys are called bob: use one of the ids 2, 3.\n")
    assert [each["usable"] for each in await application.ask("keys", "list")] == [False, True, True]


async def test_a_message_by_source_and_name(application: Application, tmp_path: Path) -> None:
    source = {"orders": {"type": "webhook", "secret": "s"}}
    url = application.client.settings.database_url
    async with Product(database_url=url, home=tmp_path, pool={"size": 2}, sources=source) as product:
        await product.inbox.receive("orders", [SourceMessage("a-1", {"name": "a"})])
        rows = await application.run("select job_id from penstock.inbox")
        await product.app.cancel(rows[0]["job_id"], reason="of no use")
    code, said = await application.penstock("inbox", "retry", "orders/a-2")
    assert (code, said.startswith("Message orders/a-2 does not exist.")) == (2, True), said
    code, said = await application.penstock("inbox", "retry", "orders/a-1")
    assert (code, "1 message" in said) == (0, True), said


async def test_the_first_line_comes_before_the_work(application: Application, tmp_path: Path) -> None:
    """Also where stdout is not a terminal."""
    file = tmp_path / "gate.txt"
    file.write_text("The gate is made of oak.")
    async with start("-m", "penstock", "add", str(file), environ=application.environ, cwd=tmp_path) as adding:
        printed = await adding.until("Adding 1 file to the collection default …")
        assert printed.splitlines()[0] == "Finding the files …"
        assert "Accepted" not in printed
        assert await adding.end() == 0
