"""Checks URLs: http or https, an allowed port, no password, and a host in one spelling only.

Programs parse odd hosts in different ways (0x7f.1, 2130706433, 0177.0.0.1 are all 127.0.0.1 to some). So a host that ends in
a number must be an IPv4 address in its usual form, IDNA is applied before every check, and a trailing dot is dropped.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address

from yarl import URL

from penstock.errors import FetchRefused

LONGEST = 8_000
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff\\]")


@dataclass(frozen=True)
class Target:
    url: URL
    host: str  # ASCII, small letters; an IPv6 address without brackets
    port: int

    @cached_property
    def shown(self) -> str:
        """For an error: without the query, which may hold a token."""
        text = f"{self.url.origin()}{self.url.raw_path}"
        return text if len(text) <= 200 else f"{text[:199]}…"

    @property
    def is_address(self) -> bool:
        """Whether there is nothing to resolve."""
        return ":" in self.host or bool(_NUMBER.fullmatch(self.host.rpartition(".")[2]))


def read_target(text: str, ports: frozenset[int]) -> Target:
    """Check the URL; FetchRefused says what is wrong without quoting what may be secret."""
    if len(text) > LONGEST:
        raise FetchRefused(f"The URL has {len(text):,} characters: use one of at most {LONGEST:,}.")
    text = text.strip(" ")
    if found := _UNSEEN.search(text):
        raise FetchRefused(f"The URL has the character U+{ord(found[0]):04X} in it: write it percent-encoded.")
    try:
        url = URL(text).with_fragment(None)
        port = url.port
    except ValueError:
        raise FetchRefused("This is not a URL: use one like https://example.org/report.pdf.") from None
    if url.scheme not in {"http", "https"}:
        raise FetchRefused("The URL must begin with http:// or https://.")
    if url.user is not None or url.password is not None:
        raise FetchRefused("The URL has a user or password in it: use one without.")
    host = _read_host(url.raw_host or "")
    if port is None or port not in ports:
        raise FetchRefused(
            f"Port {port} is not allowed: use one of {', '.join(map(str, sorted(ports)))} (fetch.ports)."
        )
    return Target(url if host == url.raw_host else url.with_host(host), host, port)


def _read_host(raw: str) -> str:
    host = raw.lower().removesuffix(".")
    try:
        if ":" in host:
            if "%" in host:
                raise FetchRefused("The URL has an address with a zone (%) in it, which only this machine knows.")
            return str(IPv6Address(host))
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            return str(IPv4Address(host))
    except ValueError:
        raise FetchRefused("The URL has a malformed address: write it like 192.0.2.1 or [2001:db8::1].") from None
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise FetchRefused("The URL has no usable host: use one like https://example.org/report.pdf.")
    return host
