"""From a name to its addresses, once: what was checked is what is connected to.

Threads of its own, because a name server that is slow on purpose would otherwise hold those that write blobs.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import FetchFailed, FetchRefused
from penstock.fetch.address import Exceptions
from penstock.fetch.target import Target

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_THREADS = ThreadPoolExecutor(8, thread_name_prefix="fetch-resolve")
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


async def look_up(host: str, port: int) -> list[str]:
    """Ask the system."""
    found = await asyncio.get_running_loop().run_in_executor(
        _THREADS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return [str(address[0]) for *_, address in found]


async def checked_addresses(target: Target, resolve: Resolve, exceptions: Exceptions, timeout: float) -> list[str]:
    """Every address of the host, all of them allowed; one that is not refuses the whole name."""
    addresses = [target.host] if target.is_address else await _resolved(target, resolve, timeout)
    for address in addresses:
        if kind := exceptions.refusal(target.host, address):
            # Not the address itself: the network inside is nobody's business.
            raise FetchRefused(
                f"{target.host} leads to {kind} address, which is not fetched from. "
                "Whoever runs Penstock can allow it in fetch.private."
            )
    return addresses


async def _resolved(target: Target, resolve: Resolve, timeout: float) -> list[str]:
    try:
        async with asyncio.timeout(timeout):
            addresses = await resolve(target.host, target.port)
    except TimeoutError:
        raise FetchFailed(f"No name server told the address of {target.host} in time.") from None
    except (OSError, UnicodeError) as error:
        if isinstance(error, UnicodeError) or error.errno in _NO_SUCH_NAME:
            raise FetchRefused(f"There is no host {target.host}: correct the URL.") from error
        raise FetchFailed(f"The address of {target.host} cannot be found just now: {error.strerror}.") from error
    if not addresses:
        raise FetchRefused(f"The host {target.host} has no address: correct the URL.")
    return list(dict.fromkeys(addresses))
