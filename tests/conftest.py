"""One embedded server for the whole run, and a database of its own for each test.

The controller of the run makes a throw-away server and a migrated template; every test gets a copy of it that is new, or
as good as new (databases.py). The template's clock can be moved (`clock.sql`), for all processes at once. Tests that stop,
freeze or kill a server make one of their own in `home`.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.database import Database, EmbeddedServer, open_database
from penstock.database.database import DatabaseAddress, bring_schema
from penstock.search import prepare_model
from penstock.settings import DatabaseUrl, PoolSettings, PostgresSettings, Settings
from tests.databases import Databases
from tests.slow import use_quick_examples

CLOCK = Path(__file__).with_name("clock.sql")
SERVER = pytest.StashKey[EmbeddedServer]()
URL = pytest.StashKey[str]()
SHARED = "PENSTOCK_TEST_SERVER"
DATABASES = pytest.StashKey[Databases]()


def pytest_configure(config: pytest.Config) -> None:
    """Workers of xdist get the address from the controller, which holds the server for all of them."""
    if "not slow" in config.option.markexpr:
        use_quick_examples()
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.stash[URL] = workerinput["penstock_url"]
        return
    if config.option.collectonly or config.option.help or config.option.version:
        return
    if shared := os.environ.get(SHARED):  # of `./dev prove`: many short runs on one server
        config.stash[URL] = shared
        return
    server = EmbeddedServer(make_home(), PostgresSettings(durable=False, max_connections=300))
    config.stash[SERVER] = server  # first: pytest_unconfigure stops it also when the template fails
    config.stash[URL] = asyncio.run(prepare_template(server))


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_configure_node(node: Any) -> None:
    node.workerinput["penstock_url"] = node.config.stash[URL]


def pytest_unconfigure(config: pytest.Config) -> None:
    databases = config.stash.get(DATABASES, None)
    if databases is not None:
        asyncio.run(databases.close())
    server = config.stash.get(SERVER, None)
    if server is not None:
        asyncio.run(server.leave())
        shutil.rmtree(server.home)


async def prepare_template(server: EmbeddedServer) -> str:
    joined = await server.join()
    settings = Settings(home=server.home)
    await bring_schema(settings, DatabaseAddress(settings, server, joined.url), lambda _: None)
    async with open_database(Settings(home=server.home, database_url=joined.url), role="template") as database:
        await prepare_model(database, "static", 256)  # a second for each test that needs it
    template = await asyncpg.connect(joined.url.reveal())
    await template.execute(CLOCK.read_text())
    # Each connection hashes the password 4096 times, most of what connecting takes.
    await template.execute(f"set scram_iterations = 1; alter role current_user password '{joined.url.password}'")
    await template.close()
    return joined.url.reveal()


def make_home() -> Path:
    """A folder that an unprivileged server can reach when the tests run as root; pytest's own folders are closed."""
    home = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    home.chmod(0o711)
    return home


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home; whatever runs in it at the end is stopped."""
    folder = make_home()
    yield folder
    asyncio.run(EmbeddedServer(folder, PostgresSettings()).stop(force=True))
    shutil.rmtree(folder)


@pytest.fixture
async def database_url(request: pytest.FixtureRequest) -> AsyncIterator[DatabaseUrl]:
    """A fresh, migrated database on the shared server."""
    async with fresh_database(request.config) as url:
        yield url


@asynccontextmanager
async def fresh_database(config: pytest.Config) -> AsyncIterator[DatabaseUrl]:
    databases = config.stash.setdefault(DATABASES, Databases(DatabaseUrl(config.stash[URL])))
    async with databases.lend() as url:
        yield url


@pytest.fixture
def settings(database_url: DatabaseUrl, tmp_path: Path) -> Settings:
    """Settings for the test's own database; a transaction that sits idle is an error."""
    return Settings(
        home=tmp_path, database_url=database_url, pool=PoolSettings(size=4, warm=1, hold_limit=timedelta(seconds=2))
    )


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    async with open_database(settings, role="test") as opened:
        yield opened
