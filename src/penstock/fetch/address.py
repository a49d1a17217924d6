"""Resolves a host and checks its addresses: only public ones may be reached, and those that `fetch.private` allows.

A name is resolved once, so that the addresses that were checked are those that are connected to. `ipaddress.is_global` is not
used: it calls multicast, IPv4 inside IPv6 (64:ff9b::/96, 2002::/16) and the relays of 6to4 global, and differs between versions
of Python. For IPv6 only 2000::/3 is public at all, less the parts that are listed.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from penstock.errors import FetchFailed, FetchRefused
from penstock.fetch.target import Target

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_THREADS = ThreadPoolExecutor(8, thread_name_prefix="fetch-resolve")
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_SPECIAL: dict[str, tuple[str, ...]] = {
    "an unspecified": ("0.0.0.0/8", "::/128"),
    "a loopback": ("127.0.0.0/8", "::1/128"),
    "a private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "a shared": ("100.64.0.0/10",),  # of carriers and clouds; some serve their metadata there
    "a link-local": ("169.254.0.0/16", "fe80::/10"),  # the metadata of most clouds
    "a multicast": ("224.0.0.0/4", "ff00::/8"),
    "a cloud's own": ("168.63.129.16/32",),  # Azure answers its virtual machines there, though it looks public
    "a translated": (  # they carry an IPv4 address, which may be any
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "192.88.99.0/24",
    ),
    "a reserved": (
        "192.0.0.0/24",
        "192.0.2.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
    ),
}
SPECIAL: list[tuple[Network, str]] = [(ip_network(text), kind) for kind, texts in _SPECIAL.items() for text in texts]
PUBLIC_V6 = IPv6Network("2000::/3")


def special_kind(address: Address) -> str | None:
    """The kind of a special address, such as `a private`; None for a public one."""
    for network, kind in SPECIAL:
        if address in network:
            return kind
    return "a reserved" if address.version == 6 and address not in PUBLIC_V6 else None


@dataclass(frozen=True)
class PrivateAllowlist:
    """The entries of `fetch.private`: hosts with any address, and networks of any host."""

    hosts: frozenset[str]
    networks: tuple[Network, ...]

    @classmethod
    def read(cls, entries: Iterable[str]) -> Self:
        """Sort the entries into networks (an address is a small one) and names."""
        hosts, networks = set(), []
        for entry in entries:
            try:
                networks.append(ip_network(entry, strict=False))
            except ValueError:
                hosts.add(entry.rstrip(".").lower())
        return cls(frozenset(hosts), tuple(networks))

    def refusal(self, host: str, address: str) -> str | None:
        """The kind of a special address that is not allowed; None when it may be reached."""
        found = ip_address(address)
        kind = special_kind(found)
        if kind is None or host in self.hosts or any(found in network for network in self.networks):
            return None
        return kind


async def look_up(host: str, port: int) -> list[str]:
    """Resolve by the system, in threads of its own."""
    found = await asyncio.get_running_loop().run_in_executor(
        _THREADS, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return [str(address[0]) for *_, address in found]


async def checked_addresses(target: Target, resolve: Resolve, allowlist: PrivateAllowlist, timeout: float) -> list[str]:
    """Every address of the host, all of them allowed; one that is not refuses the whole name."""
    addresses = [target.host] if target.is_address else await _resolved(target, resolve, timeout)
    for address in addresses:
        if kind := allowlist.refusal(target.host, address):
            # Without the address: clients must not learn about the internal network.
            raise FetchRefused(
                f"{target.host} leads to {kind} address, which is not fetched from. "
                "The operator of Penstock can allow it in fetch.private."
            )
    return addresses


async def _resolved(target: Target, resolve: Resolve, timeout: float) -> list[str]:
    try:
        async with asyncio.timeout(timeout):
            addresses = await resolve(target.host, target.port)
    except TimeoutError:
        raise FetchFailed(f"The address of {target.host} was not resolved in time.") from None
    except (OSError, UnicodeError) as error:
        if isinstance(error, UnicodeError) or error.errno in _NO_SUCH_NAME:
            raise FetchRefused(f"Host {target.host} does not exist: correct the URL.") from error
        raise FetchFailed(f"The address of {target.host} cannot be found just now: {error.strerror}.") from error
    if not addresses:
        raise FetchRefused(f"The host {target.host} has no address: correct the URL.")
    return list(dict.fromkeys(addresses))
