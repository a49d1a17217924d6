"""Brokers for tests: a RabbitMQ node of our own, and the stand-in for Service Bus. Each is started once for a run."""

import asyncio
import atexit
import functools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.product import Product
from penstock.settings import DatabaseUrl
from penstock.sources import Sources
from tests.real.conftest import missing, need_program

STAND_IN = Path(__file__).with_name("broker.py")
PATIENCE = 60.0  # seconds until a node of Erlang answers on a busy machine


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def until_open(port: int, process: subprocess.Popen[bytes], log: Path, within: float) -> None:
    """Until somebody listens there, which is when the broker is ready to speak."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the broker has ended:\n{log.read_text()[-2000:]}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"no broker within {within} s:\n{log.read_text()[-2000:]}")


class Broker:
    """A server in a process of its own, which can be stopped, killed and started again with what it keeps."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-broker-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    type = ""  # of the source

    @property
    def url(self) -> str:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def environ(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                env=self.environ(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until_open(self.port, self._process, self.log, PATIENCE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """With all that it has started."""
        if self._process is None:
            return
        for sent in (number, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, sent)
                self._process.wait(20)
            except ProcessLookupError:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                continue
            break
        self._process = None

    async def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        await asyncio.to_thread(self.stop, number)
        await asyncio.to_thread(self.start)

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Rabbit(Broker):
    """A node with its own name, ports and folders; it needs no epmd of the machine and no user of Debian."""

    type = "rabbitmq"

    def __init__(self) -> None:
        super().__init__()
        self._program = need_program("rabbitmq-server", "rabbitmq-server", "/usr/lib/rabbitmq/bin")
        own = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's in the path becomes another user
        self._program = str(own) if own.exists() else self._program
        self._name = f"penstock-{secrets.token_hex(4)}@localhost"
        self._ports = [free_port(), free_port()]
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\nlog.file = false\n"
            "vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 50MB\n"
        )
        (self.folder / "plugins").write_text("[].")

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def command(self) -> list[str]:
        return [self._program]

    def environ(self) -> dict[str, str]:
        epmd, peers = self._ports
        return {
            **os.environ,
            "HOME": str(self.folder),  # where its cookie is
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "kept"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_DIST_PORT": str(peers),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",  # so that it may be ended while it believes that a node lives
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }

    def close(self) -> None:
        super().close()
        epmd = shutil.which("epmd")
        if epmd is not None:  # the one of our port, which goes into the background by itself
            subprocess.run([epmd, "-kill"], env=self.environ(), capture_output=True, check=False)


class ServiceBus(Broker):
    """The stand-in, by the Python that has proton."""

    type = "servicebus"

    def __init__(self, lock_seconds: float = 60) -> None:
        super().__init__()
        self._lock_seconds = lock_seconds
        found = os.environ.get("PENSTOCK_TEST_BROKER_PYTHON", "")
        if not found:
            missing("PENSTOCK_TEST_BROKER_PYTHON", "./dev test --real makes it")
        self._python = found

    @property
    def url(self) -> str:
        return f"Endpoint=sb://localhost:{self.port};SharedAccessKeyName=any;SharedAccessKey=eA==;UseDevelopmentEmulator=true;"

    def command(self) -> list[str]:
        return [self._python, str(STAND_IN), str(self.port), str(self.folder / "kept.db"), str(self._lock_seconds)]


@functools.cache
def shared_rabbit() -> Rabbit:
    """The node of this test process, for tests that leave it running."""
    node = Rabbit()
    atexit.register(node.close)
    node.start()
    return node


@functools.cache
def shared_service_bus() -> ServiceBus:
    """The stand-in of this test process, for tests that leave it running."""
    broker = ServiceBus()
    atexit.register(broker.close)
    broker.start()
    return broker


# -- what has come ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def receiving(
    database_url: DatabaseUrl, home: Path, broker: Broker, queue: str, **source: Any
) -> AsyncIterator[Product]:
    """The product with a source `orders`, whose messages stay in the inbox: no worker runs."""
    chosen = {"type": broker.type, "url": broker.url, "queue": queue, "dead_letters": f"{queue}.dead"} | source
    async with (
        Product(database_url=database_url, home=home, pool={"size": 4}, sources={"orders": chosen}) as product,
        Sources(product),
    ):
        yield product


async def inbox(product: Product) -> list[Any]:
    """All messages, in the order in which they came."""
    query = "select * from penstock.inbox order by id"
    return await product.app.database.pool.repeat(lambda session: session.fetch(query))


async def until_there(product: Product, count: int, repeats: int = 0) -> list[Any]:
    """The inbox, when so many messages have come, and so many of them again."""
    async with asyncio.timeout(30):
        while True:
            rows = await inbox(product)
            if len(rows) >= count and sum(row["repeats"] for row in rows) >= repeats:
                return rows
            await asyncio.sleep(0.02)


async def trouble_of(product: Product) -> str | None:
    """Why the source does not answer."""
    query = "select error from penstock.sources"
    rows = await product.app.database.pool.repeat(lambda session: session.fetch(query))
    return rows[0]["error"] if rows else None


async def until_trouble(product: Product) -> str:
    """The same, when it does not."""
    async with asyncio.timeout(30):
        while True:
            if error := await trouble_of(product):
                return error
            await asyncio.sleep(0.05)
