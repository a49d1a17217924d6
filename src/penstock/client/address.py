"""Where the server is, and how a request's address is written.

What a caller gives as a name can never lead to another route: a slash is escaped where a name has none, and so is a segment
that is nothing but dots, which the HTTP library would resolve.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, urlsplit

USUAL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Address:
    """A server and the key for it."""

    url: str
    key: str | None = field(repr=False)

    @classmethod
    def of(cls, url: str | None, key: str | None) -> "Address":
        """What is not given is PENSTOCK_URL and PENSTOCK_KEY."""
        url = (url or os.environ.get("PENSTOCK_URL") or USUAL).rstrip("/")
        key = key or os.environ.get("PENSTOCK_KEY") or None
        if not _is_server(url):
            raise ValueError("The address of a server is like http://127.0.0.1:8080, without user, query and #.")
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise ValueError("This is no key: a key has only letters, digits and signs of ASCII, without spaces.")
        return cls(url, key)

    @property
    def is_loopback(self) -> bool:
        """This machine, which no proxy leads to."""
        import ipaddress

        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    @property
    def needs_certificates(self) -> bool:
        """False: no TLS can be spoken at all, and 40 ms for loading the certificates are saved."""
        return not (self.url.startswith("http://") and self.is_loopback)


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # brackets that do not match, or a port that is none
        return False
    bare = "@" not in parts.netloc and not parts.query and not parts.fragment
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0 and bare


def expand(template: str, at: Mapping[str, object]) -> str:
    """The path with its values; only a document's name may have slashes, and keeps them."""
    return template.format_map({name: _escape(str(value), "/" if name == "name" else "") for name, value in at.items()})


def _escape(value: str, safe: str) -> str:
    segments = quote(value, safe=safe).split("/")
    return "/".join(each.replace(".", "%2E") if each in {".", ".."} else each for each in segments)


def query_of(values: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """What is None is left out, a list is repeated, a mapping becomes JSON."""
    return tuple((name, _text(one)) for name, value in values.items() for one in _each(value))


def _each(value: object) -> Iterable[object]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple | set | frozenset) else (value,)


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case Mapping():
            return json.dumps(value)
    return str(value)
