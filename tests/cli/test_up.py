"""`penstock up` as a person uses it: real processes, real signals."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import aiohttp
import psutil
import pytest

from penstock.database import EmbeddedServer
from penstock.settings import PostgresSettings
from tests.polling import until
from tests.processes import Started, penstock, start
from tests.slow import slow_but_first


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


async def fetch(port: int, path: str) -> tuple[int, dict[str, object]]:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.json()


async def until_ready(port: int, within: float = 20) -> None:
    """Its worker may need a moment longer than its API to be there, or to be there again."""
    async with asyncio.timeout(within):
        while await fetch(port, "/health/ready") != (200, {"status": "ready", "problems": []}):  # noqa: ASYNC110  over HTTP
            await asyncio.sleep(0.1)


def children(up: Started, word: str) -> list[psutil.Process]:
    return [child for child in psutil.Process(up.pid).children() if word in child.cmdline()]


def server_runs(home: Path) -> bool:
    return EmbeddedServer(home, PostgresSettings()).postmaster.running() is not None


@pytest.mark.parametrize("wish", slow_but_first([signal.SIGINT, signal.SIGTERM]))
async def test_up_answers_and_stops(home: Path, wish: signal.Signals) -> None:
    port = free_port()
    async with start("-m", "penstock", "up", "--port", str(port), environ={"PENSTOCK_HOME": str(home)}) as up:
        await up.until("Penstock is up")
        assert up.printed.splitlines()[0] == f"Starting Penstock in {home} …", "at once"
        assert "PostgreSQL made in" in up.printed
        assert await fetch(port, "/health/live") == (200, {"status": "live"})
        await until_ready(port)
        os.kill(up.pid, wish)
        assert await up.end() in ({0, 130} if wish == signal.SIGINT else {0})
    assert not server_runs(home), "the last user stops the server"


@pytest.mark.slow
async def test_a_second_up_says_who_has_the_home(home: Path) -> None:
    port = free_port()
    async with start("-m", "penstock", "up", "--port", str(port), environ={"PENSTOCK_HOME": str(home)}) as up:
        await up.until("Penstock is up")
        code, said = await penstock("up", "--port", "0", PENSTOCK_HOME=str(home))
        assert code == 2
        assert f"process {up.pid}" in said
        assert "Traceback" not in said


@pytest.mark.slow
async def test_everything_ends_when_up_is_killed(home: Path) -> None:
    async with start("-m", "penstock", "up", "--port", "0", environ={"PENSTOCK_HOME": str(home)}) as up:
        await up.until("Penstock is up")
        family = psutil.Process(up.pid).children()
        os.kill(up.pid, signal.SIGKILL)
        await until(lambda: not any(child.is_running() and child.status() != "zombie" for child in family))
        await until(lambda: not server_runs(home))
    async with start("-m", "penstock", "up", "--port", "0", environ={"PENSTOCK_HOME": str(home)}) as up:
        await up.until("Penstock is up")


@pytest.mark.slow
async def test_a_killed_child_is_started_again(home: Path) -> None:
    port = free_port()
    async with start("-m", "penstock", "up", "--port", str(port), environ={"PENSTOCK_HOME": str(home)}) as up:
        await up.until("Penstock is up")
        for word in ("api", "worker"):
            [child] = children(up, word)
            child.kill()
            await up.until(f'"process": "{word}"')
        await until(lambda: len(children(up, "api")) == len(children(up, "worker")) == 1)
        await until_ready(port)


@pytest.mark.slow
async def test_a_killed_server_is_started_again(home: Path) -> None:
    port = free_port()
    async with start("-m", "penstock", "up", "--port", str(port), environ={"PENSTOCK_HOME": str(home)}) as up:
        await up.until("Penstock is up")
        server = EmbeddedServer(home, PostgresSettings())
        running = server.postmaster.running()
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)

        def revived() -> bool:
            now = server.postmaster.running()
            return now is not None and now.ready and now.pid != running.pid

        await until(revived, within=20)
        await until_ready(port)


@pytest.mark.slow
async def test_ready_says_why_not(home: Path) -> None:
    """With an external server that has gone, nothing can be revived: 503 and the reason, and live stays live."""
    port = free_port()
    code, said = await penstock("db", "start", "--json", PENSTOCK_HOME=str(home))
    assert code == 0, said
    server = EmbeddedServer(home, PostgresSettings())
    other = home / "other"
    environ = {"PENSTOCK_HOME": str(other), "PENSTOCK_DATABASE_URL": server.url.reveal()}
    async with start("-m", "penstock", "up", "--port", str(port), environ=environ) as up:
        await up.until("Penstock is up")
        await server.stop(force=True)
        status, body = await fetch(port, "/health/ready")
        assert status == 503
        [problem] = json.loads(json.dumps(body["problems"]))
        assert "PostgreSQL" in problem
        assert (await fetch(port, "/health/live"))[0] == 200
