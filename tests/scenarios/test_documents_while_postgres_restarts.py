"""PostgreSQL is restarted while documents come in and are prepared: every accepted one becomes ready, once."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from penstock.database import EmbeddedServer
from penstock.settings import PostgresSettings
from tests.processes import start
from tests.sample_documents import story
from tests.scenarios.product_processes import VIOLATIONS

pytestmark = pytest.mark.slow

DOCUMENTS = 40


async def test_nothing_is_lost_and_nothing_is_twice(home: Path) -> None:
    environ = {"PENSTOCK_HOME": str(home), "PENSTOCK_LOG__FORMAT": "json", "PENSTOCK_EXTRACTION__CHILDREN": "2"}
    server = EmbeddedServer(home, PostgresSettings())
    async with start("-m", "penstock", "up", "--port", "0", environ=environ) as up, aiohttp.ClientSession() as http:
        printed = await up.until("Penstock is up on", within=60)
        address = printed.partition("Penstock is up on ")[2].split()[0]
        async with http.post(f"{address}/api/collections", json={"name": "papers"}) as answer:
            assert answer.status == 201, await answer.text()

        accepted: dict[str, int] = {}

        async def upload(number: int) -> None:
            """As a careful client does: until there is an answer, with the same key."""
            url, key = (
                f"{address}/api/collections/papers/documents/{number}.txt",
                {"Idempotency-Key": f"upload-{number}"},
            )
            while True:
                try:
                    async with http.put(url, data=story(2_000, number), headers=key) as answer:
                        if answer.status == 202:
                            accepted[f"{number}.txt"] = (await answer.json())["id"]
                            return
                        assert answer.status in (409, 503), await answer.text()  # 409: the first try is still under way
                except (aiohttp.ClientError, OSError):
                    pass
                await asyncio.sleep(0.2)

        uploads = [asyncio.create_task(upload(number)) for number in range(DOCUMENTS)]
        for restart in range(2):
            await asyncio.wait(uploads, timeout=1.0 + restart)
            running = server.postmaster.running()
            assert running is not None
            os.kill(running.pid, signal.SIGINT)  # a fast shutdown, as for an update of the server
        await asyncio.wait_for(asyncio.gather(*uploads), 60)
        await until_over(http, address)
        joined = await server.join()
        connection = await asyncpg.connect(joined.url.reveal())
        rows = await connection.fetch("select id, name, state, error from penstock.documents")
        assert {row["name"]: row["id"] for row in rows} == accepted
        assert {row["state"] for row in rows} == {"ready"}, [row["error"] for row in rows if row["error"]]
        assert [row["said"] for row in await connection.fetch(VIOLATIONS.read_text())] == []
        await connection.close()
        await server.leave()


async def until_over(http: aiohttp.ClientSession, address: str) -> None:
    async with asyncio.timeout(60):
        while True:
            async with http.get(f"{address}/api/status") as answer:
                if answer.status == 200:
                    counts: dict[str, Any] = json.loads(await answer.text())["documents"]
                    if counts["queued"] + counts["processing"] == 0:
                        return
            await asyncio.sleep(0.2)
