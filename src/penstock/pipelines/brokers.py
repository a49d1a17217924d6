"""The way to a broker: RabbitMQ by aio-pika, Service Bus by Azure's library, both of them extras.

A connection is a block; whatever goes wrong in it with the broker is `BrokerAway`, a sentence without the password.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.errors import BadSetting, PenstockError
from penstock.telemetry import mask

if TYPE_CHECKING:
    from aio_pika.abc import AbstractConnection
    from azure.servicebus.aio import ServiceBusClient

CONNECT = 15.0  # seconds for the whole way to the broker
CLOSE = 5.0  # seconds to say goodbye


class BrokerAway(PenstockError):
    """The broker cannot be used as things are."""


def need_aio_pika(who: str) -> None:
    """Refuse to start without it."""
    try:
        import aio_pika  # noqa: F401
    except ImportError:
        raise BadSetting(_missing(who, "aio-pika", "rabbitmq")) from None


def need_azure(who: str) -> None:
    """Refuse to start without it."""
    try:
        import azure.servicebus  # noqa: F401
    except ImportError:
        raise BadSetting(_missing(who, "azure-servicebus", "servicebus")) from None


def _missing(who: str, package: str, extra: str) -> str:
    return f"{who[0].upper()}{who[1:]} needs {package}, which is not installed: pip install 'penstock[{extra}]'."


@asynccontextmanager
async def rabbit(url: str, who: str) -> AsyncIterator["AbstractConnection"]:
    """A connection until the end of the block; all that goes wrong with it is BrokerAway."""
    import aio_pika
    from aiormq.exceptions import AMQPError

    connection: AbstractConnection | None = None
    try:
        async with asyncio.timeout(CONNECT):
            connection = await aio_pika.connect(url, client_properties={"connection_name": f"penstock {who}"})
        yield connection
    except PenstockError:
        raise
    except (AMQPError, OSError, RuntimeError) as error:  # RuntimeError: of a connection that has just been closed
        said = mask(str(error)) or type(error).__name__
        raise BrokerAway(
            f"RabbitMQ cannot be used for {who}: {said}. Look whether it runs, and whether the url is right."
        ) from error
    finally:
        if connection is not None:
            with contextlib.suppress(AMQPError, OSError, RuntimeError):
                async with asyncio.timeout(CLOSE):
                    await connection.close()


@asynccontextmanager
async def service_bus(url: str, who: str) -> AsyncIterator["ServiceBusClient"]:
    """A client until the end of the block; all that goes wrong with it is BrokerAway."""
    from azure.core.exceptions import AzureError
    from azure.servicebus.aio import ServiceBusClient

    logging.getLogger("azure").setLevel(logging.ERROR)  # it tells of each try, and we tell of the end
    client: ServiceBusClient | None = None
    try:
        client = ServiceBusClient.from_connection_string(url, retry_total=1, retry_backoff_factor=0.2)
        yield client
    except PenstockError:
        raise
    except (
        AzureError,
        OSError,
        ValueError,
    ) as error:  # ValueError: of a string that is none, or a client that is closed
        said = mask(str(error)) or type(error).__name__
        raise BrokerAway(
            f"Service Bus cannot be used for {who}: {said}. Look whether the url is a connection string of it, and whether "
            "the queue is there."
        ) from error
    finally:
        if client is not None:
            with contextlib.suppress(AzureError, OSError, ValueError):
                async with asyncio.timeout(CLOSE):
                    await client.close()
