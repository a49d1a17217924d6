"""`penstock delete`, `restore` and `receipt`, as a person and as a program use them."""

from pathlib import Path

import pytest

from tests.application import Application


async def plant(application: Application, folder: Path, **texts: str) -> None:
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    code, said = await application.penstock("add", str(folder))
    assert code == 0, said


async def test_delete_waits_for_the_receipts_and_works_itself(application: Application, tmp_path: Path) -> None:
    await plant(
        application, tmp_path / "in", gate="The gate is made of oak.", mill="The mill grinds rye.", wheel="A wheel."
    )
    code, said = await application.penstock("delete", "default/gate.txt", "--wait")
    assert (code, "7 days after the deletion" in said, "add --now" in said) == (2, True, True), said
    assert len((await application.ask("documents", "list"))["documents"]) == 3, "nothing was deleted"
    answer = await application.ask("delete", "default/gate.txt", "--now", "--wait")
    [number] = answer["deleted"]
    [receipt] = answer["receipts"]
    assert (receipt["document"], receipt["name"], bool(receipt["verified_at"])) == (number, "gate.txt", True)
    assert answer["restorable_until"] is None

    code, said = await application.penstock("documents", "receipt", str(number))
    assert (code, "verified at" in said) == (0, True), said
    code, said = await application.penstock("restore", str(number))
    assert (code, "upload it again" in said) == (2, True), said
    code, said = await application.penstock("delete", "default/nothing.txt")
    assert (code, "does not exist" in said) == (2, True), said

    answer = await application.ask("delete", "--collection", "default", "--name", "m*.txt", "--yes")
    assert (len(answer["deleted"]), bool(answer["restorable_until"])) == (1, True)
    assert (await application.ask("documents", "list"))["documents"][0]["name"] == "wheel.txt"
    listed = await application.ask("documents", "receipt", "--list")
    assert [each["document"] for each in listed["receipts"]] == [number], "the other one waits for a worker"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "one of the two"),
        (("a.txt", "--collection", "default"), "one of the two"),
        (("a.txt", "--name", "*"), "need a --collection"),
        (("--collection", "default", "--yes"), "name a condition"),
        (("--collection", "default", "--where", "[1]"), "not a JSON object"),
        (("--collection", "default", "--since", "soon"), "is not a time"),
    ],
)
async def test_what_cannot_be_meant_is_refused(application: Application, arguments: tuple[str, ...], said: str) -> None:
    code, answer = await application.penstock("delete", *arguments)
    assert (code, said in answer) == (2, True), answer
