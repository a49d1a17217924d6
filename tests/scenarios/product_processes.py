"""The product as its users run it: an API process and workers on the test's own database, and what they have made there."""

import asyncio
import io
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from penstock.operations import verify
from penstock.product import Product
from penstock.settings import DatabaseUrl
from tests.processes import Started, start
from tests.scenarios.worker_processes import WorkerProcess, until_ready

# What must be true of every version that search sees; each row is a violation.
VIOLATIONS = Path(__file__).with_name("product_processes.sql")
WORK = "import os, runpy, sys; log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600); "
WORK += (
    "os.dup2(log, 1); os.dup2(log, 2); sys.argv[0] = 'penstock'; runpy.run_module(sys.argv.pop(1), run_name='__main__')"
)


class ProductProcesses:
    """Processes of the product, a client of its API, and a look past all of them."""

    def __init__(self, product: Product, connection: "asyncpg.Connection[asyncpg.Record]", url: DatabaseUrl) -> None:
        self.product = product
        self.connection = connection
        self.home = product.settings.home
        self._environ = {
            "PENSTOCK_DATABASE_URL": url.reveal(),
            "PENSTOCK_HOME": str(self.home),
            "PENSTOCK_LOG__FORMAT": "json",
            "PENSTOCK_EXTRACTION__CHILDREN": "2",
        }
        self._stack = AsyncExitStack()
        self._workers = 0
        self.address = ""
        self.http = aiohttp.ClientSession()

    async def start_worker(self, *, ready: bool = True, module: str = "penstock", **environ: str) -> WorkerProcess:
        """Start a worker process; `ready`: wait until it claims."""
        self._workers += 1
        log = self.home / f"worker-{self._workers}.log"
        arguments = ("-c", WORK, str(log), module, *(["worker"] if module == "penstock" else []))
        started = await self._stack.enter_async_context(start(*arguments, environ=self._environ | environ))
        worker = WorkerProcess(started, log)
        if ready:
            await until_ready(worker, log)
        return worker

    async def start_api(self, **environ: str) -> Started:
        """Start an API process on any free port."""
        started = await self._stack.enter_async_context(
            start("-m", "penstock", "api", "--port", "0", environ=self._environ | environ)
        )
        printed = await started.until('"url"')
        line = next(json.loads(line) for line in printed.splitlines() if '"url"' in line)
        self.address = line["url"]
        return started

    async def put(self, name: str, content: bytes, collection: str = "papers") -> tuple[int, dict[str, Any]]:
        """Upload by the API: status and answer."""
        url = f"{self.address}/api/collections/{collection}/documents/{name}"
        async with self.http.put(url, data=io.BytesIO(content)) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str) -> dict[str, Any]:
        async with self.http.get(f"{self.address}{path}") as answer:
            assert answer.status == 200, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    async def add(self, files: Mapping[str, bytes], collection: str = "papers") -> dict[str, int]:
        """Accept files past the API: numbers by name."""
        from penstock.documents import Upload

        async def pieces(content: bytes) -> Any:
            yield content

        return {
            name: (await self.product.intake.accept(Upload(collection, name, pieces(content), len(content)))).id
            for name, content in files.items()
        }

    async def until(self, question: str, *arguments: Any, within: float = 30) -> None:
        """Ask the database until the answer is true."""
        try:
            async with asyncio.timeout(within):
                while not await self.connection.fetchval(question, *arguments):  # noqa: ASYNC110  no event for SQL
                    await asyncio.sleep(0.05)
        except TimeoutError:
            live = await self.connection.fetch(
                "select id, name, state, error from penstock.documents order by id limit 9"
            )
            raise AssertionError(f"not true in {within} s: {question}; documents: {live}") from None

    async def until_over(self, within: float = 60) -> None:
        """No document is under way."""
        await self.until("select not exists (select from penstock.documents where state = 'queued')", within=within)

    async def states(self) -> dict[str, str]:
        return {
            row["name"]: row["state"]
            for row in await self.connection.fetch("select name, state from penstock.documents")
        }

    async def violations(self) -> list[str]:
        """What is wrong, in words: the invariants of production, and what only a test may ask of everything at once."""
        said = [row["said"] for row in await self.connection.fetch(VIOLATIONS.read_text())]
        return said + [each for verdict in await verify(self.product.app.database) for each in verdict.shown]

    async def close(self) -> None:
        await self.http.close()
        await self._stack.aclose()
