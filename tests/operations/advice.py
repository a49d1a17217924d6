"""Findings of the doctor, and the commands that it advises, run as they are written."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.engine.connection_budget import connections_needed
from penstock.operations import Finding, examine
from tests.application import Application
from tests.processes import Started, clean_environ


async def findings(application: Application, name: str) -> list[Finding]:
    return [finding for finding in await examine(application.client.settings) if finding.name == name]


async def found(application: Application, name: str, within: float = 15) -> Finding:
    """Wait for the finding: what workers report comes with their heartbeats."""
    async with asyncio.timeout(within):
        while not (seen := await findings(application, name)):  # noqa: ASYNC110  it is another process
            await asyncio.sleep(0.05)
    assert len(seen) == 1, seen
    return seen[0]


async def vanished(application: Application, name: str, within: float = 15) -> None:
    async with asyncio.timeout(within):
        while await findings(application, name):  # noqa: ASYNC110  it is another process
            await asyncio.sleep(0.05)


def fill(finding: Finding, places: Mapping[str, str]) -> str:
    """The command, with what is the reader's to choose in place of the dots."""
    command = finding.command
    for dots, chosen in places.items():
        assert dots in command, finding
        command = command.replace(dots, chosen)
    assert "…" not in command, command
    return command


async def obey(application: Application, finding: Finding, places: Mapping[str, str] | None = None) -> Started | None:
    """Run what is advised; a worker goes on running."""
    words = [word for word in shlex.split(fill(finding, places or {})) if word != "env"]
    environ = dict(word.split("=", 1) for word in words if word.startswith("PENSTOCK_"))
    words = [word for word in words if not word.startswith("PENSTOCK_")]
    assert words[0] in {"penstock", "kill"}, finding
    if words[0] == "kill":
        subprocess.run(words, check=True)
        return None
    if words[1] == "worker":
        place = {"module:app": "shop:app"}[words[2]] if words[2:] else ""  # nothing: the worker of documents
        return await application.worker(*words[3:], place=place, **environ)
    code, said = await application.penstock(*words[1:], **environ)
    assert code == 0, said
    return None


async def obey_in_a_shell(
    application: Application, finding: Finding, places: Mapping[str, str] | None = None
) -> tuple[str, list[dict[str, Any]]]:
    """Run it as a person does, then ask doctor in the same shell: what the command printed, and what is found then."""
    script = f"{fill(finding, places or {})}\npenstock doctor --json > doctor.json"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        script,
        env=clean_environ(application.environ | {"PATH": path}),
        cwd=application.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    answer = json.loads((application.folder / "doctor.json").read_text())
    return said.decode(), answer["findings"]


BRITTLE = """
from penstock import Penstock

app = Penstock()
app.limit("scanner", 1, rest="1h", breaker_after=1)


@app.job(uses={"scanner": 1}, retries=0)
async def read(ctx, broken=False):
    if broken:
        raise OSError("no route")
"""


EACH = connections_needed(4, pooled=False)  # of the application's workers
