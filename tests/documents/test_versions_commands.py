"""`penstock add --replace` with a file that cannot be read: the command, `why` and `documents show` say what is still found."""

import json
from pathlib import Path
from typing import Any

from tests.application import Application, application

__all__ = ["application"]

BROKEN = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"


async def add(application: Application, *arguments: object, code: int = 0) -> dict[str, Any]:
    """What it says as JSON; a sentence on stderr may be before it."""
    ended, said = await application.penstock("add", *map(str, arguments), "--json")
    assert ended == code, said
    answer: dict[str, Any] = json.loads(said[said.index("{\n") :])
    return answer


async def test_a_broken_file_in_the_place_of_a_good_one(application: Application, tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    file.write_text("The sluice gate is made of oak.")
    await add(application, file)
    file.write_bytes(BROKEN)

    [entry] = (await add(application, file, "--replace", code=1))["documents"]
    assert (entry["added"], entry["status"]) == ("accepted", "failed")
    assert entry["reason"].startswith("version 2 failed: ")
    assert entry["reason"].endswith("; version 1 is still found")
    _, said = await application.penstock("why", "gate.txt")
    assert "(gate.txt): version 2 failed in the step read (Corrupt): " in said
    assert "; version 1 is still found. Add an intact copy with `--replace`." in said
    shown = await application.ask("documents", "show", "gate.txt")
    assert (shown["status"], shown["version"], shown["live_version"]) == ("failed", 2, 1)
    assert shown["why"] == said.splitlines()[0], "the evidence follows"
    [hit] = (await application.ask("search", "oak", "--mode", "words"))["hits"]
    assert "oak" in hit["text"]

    code, said = await application.penstock("add", str(file))
    assert code == 1
    assert "version 2 failed: failed before: " in said
    assert "; version 1 is still found" in said

    file.write_text("The sluice gate is made of steel.")
    [entry] = (await add(application, file, "--replace"))["documents"]
    assert (entry["status"], "reason" in entry) == ("ready", False)
    assert (await application.ask("search", "oak", "--mode", "words"))["hits"] == []
