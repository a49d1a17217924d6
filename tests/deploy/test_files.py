"""The files of deploy/: their settings exist, and their commands run as they are written, with other ports."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.settings import DatabaseUrl, load_settings
from tests.processes import penstock, start

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "docker/compose.yaml").read_text())
    return found


def manifests() -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DEPLOY / "kubernetes/penstock.yaml").read_text()) if each]


def containers() -> Iterator[dict[str, Any]]:
    for each in manifests():
        yield from each.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])


def dockerfile(word: str) -> list[str]:
    """The last JSON list behind a word of the Dockerfile."""
    text = (DEPLOY / "docker/Dockerfile").read_text()
    found: list[str] = json.loads(re.findall(rf"^\s*{word} (\[.*\])$", text, re.MULTILINE)[-1])
    return found


def unit(path: Path) -> dict[str, str]:
    lines = [line.partition("=") for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return {name: value for name, _, value in lines}


def commands() -> dict[str, list[str]]:
    """What each of them lets `penstock` do, by where it stands."""
    found = {"Dockerfile": dockerfile("CMD")}
    for name, service in compose()["services"].items():
        if service.get("image") == "penstock":
            found[f"compose {name}"] = service["command"]
    for container in containers():
        found[f"kubernetes {container['name']}"] = container["args"]
    for path in UNITS:
        found[path.name] = executed(path)
    return found


def executed(path: Path, instance: int = 1) -> list[str]:
    """The arguments that a unit gives to `penstock`; a shell of the unit is run, with `echo` in the place of the program."""
    program = "/opt/penstock/bin/penstock"
    words = shlex.split(unit(path)["ExecStart"].replace("%i", str(instance)))
    if words[:2] == ["/bin/sh", "-c"]:
        assert words[2].startswith(f"exec {program} "), "the shell must not stay between systemd and the worker"
        script = words[2].replace("$$", "$").replace(f"exec {program} ", "echo ")
        return subprocess.run(["/bin/sh", "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert words[0] == program
    return words[1:]


def test_each_worker_of_the_unit_has_a_port_of_its_own() -> None:
    path = DEPLOY / "systemd/penstock-worker@.service"
    commands = [executed(path, instance) for instance in (1, 9, 10, 100)]
    assert [words[words.index("--port") + 1] for words in commands] == ["9091", "9099", "9100", "9190"]


def test_images_are_pinned() -> None:
    for name, service in compose()["services"].items():
        tag = service["image"].partition(":")[2]
        assert service["image"] == "penstock" or (tag and tag != "latest"), name


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("where", sorted(commands()))
async def test_a_command_runs_as_it_is_written(where: str, database_url: DatabaseUrl, home: Path) -> None:
    words = [str(free_port()) if re.fullmatch(r"[89]\d{3}", word) else word for word in commands()[where]]
    environ = {"PENSTOCK_HOME": str(home), "PENSTOCK_DATABASE_URL": database_url.reveal()}
    if words[0] in {"up", "api"} and "--port" not in words:
        environ["PENSTOCK_API__PORT"] = str(free_port())
    if words[0] == "db":
        code, printed = await penstock(*words, **environ)
        assert code == 0, printed
        return
    said = {"up": "Penstock is up", "api": "listening", "worker": "worker started"}[words[0]]
    async with start("-m", "penstock", *words, environ=environ) as process:
        await process.until(said, 60)
        port = words[words.index("--port") + 1] if "--port" in words else environ["PENSTOCK_API__PORT"]
        code, printed = await penstock("health", "--port", port, **environ)
        assert (code, "live" in printed) == (0, True), printed
        os.kill(process.pid, signal.SIGTERM)
        assert await process.end(40) == 0


async def test_the_health_check_of_the_image(home: Path) -> None:
    """Nobody answers: it fails, and says so."""
    text = (DEPLOY / "docker/Dockerfile").read_text()
    words: list[str] = json.loads(re.findall(r"HEALTHCHECK .*?CMD (\[.*?\])", text, re.DOTALL)[0])
    assert words[:3] == ["python", "-m", "penstock"]
    ports = {"8080": str(free_port()), "9090": str(free_port())}
    code, printed = await penstock(*(ports.get(word, word) for word in words[3:]), PENSTOCK_HOME=str(home))
    assert (code, printed.count("no answer")) == (1, 2)


def test_settings_of_the_files_exist() -> None:
    """A variable that is misspelt would stop every process at its start."""
    variables: dict[str, str] = {}
    for service in compose()["services"].values():
        variables |= {name: str(value) for name, value in (service.get("environment") or {}).items()}
    for each in manifests():
        variables |= {**(each.get("stringData") or {}), **(each.get("data") or {})}
    for path in UNITS:
        variables |= dict(word.partition("=")[::2] for word in unit(path)["Environment"].split())
    ours = {name: re.sub(r"\$\{(\w+).*?\}", r"\1", value) for name, value in variables.items() if "PENSTOCK_" in name}
    assert len(ours) > 8
    assert load_settings(environ=ours, working_folder=DEPLOY).settings.blobs.url == "s3://penstock"


def test_what_the_files_promise() -> None:
    assert compose()["services"]["worker"]["deploy"]["replicas"] == 2
    assert compose()["services"]["worker"]["restart"] == "unless-stopped"
    kinds = [each["kind"] for each in manifests()]
    assert {"Deployment", "Secret", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Service", "Job"} <= set(kinds)
    for container in containers():
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        if container["name"] != "migrate":
            assert {"readinessProbe", "livenessProbe"} <= container.keys()
    text = (DEPLOY / "docker/Dockerfile").read_text()
    assert "USER 10001:10001" in text
    assert "--require-hashes" in text


def test_the_image_has_what_the_extras_need() -> None:
    """locks/image.lock follows pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {line.partition("==")[0] for line in (ROOT / "locks/image.lock").read_text().splitlines() if "==" in line}
    extras = ("cloud", "folder", "mysql", "rabbitmq", "servicebus", "telemetry")
    wanted = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    names = {re.split(r"[ ;<>=~!\[]", each)[0].lower() for each in wanted}
    assert names <= locked
    assert "pytest" not in locked
