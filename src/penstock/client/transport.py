"""The half of the transport that both flavours share: the address of the server, timeouts, retries, and lines of events.

A name from the caller can never lead to another route: a slash is escaped where a name has none, and so is a segment that is
nothing but dots, which the HTTP library would resolve.

A request is sent again only if that cannot do its work twice: GET, HEAD and DELETE, and requests that carry an Idempotency-Key
and a body that can be sent again. And only after an error that may pass: a connection that failed, and 429, 502, 503 and 504.
One more answer counts as such: 409 for a key that is in flight, when it belongs to an earlier attempt of this call
whose end the server has not noticed. The connections are in _async/transport.py.
"""

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ParamSpec, TypeVar
from urllib.parse import quote, urlsplit

from penstock.client.errors import ClientError, KeyInFlight, Unreachable

USUAL = "http://127.0.0.1:8080"
FIRST = 0.2  # seconds to wait before the second attempt
LONGEST = 5.0  # seconds between two attempts

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Address:
    """A server and the key for it."""

    url: str
    key: str | None = field(repr=False)

    @classmethod
    def of(cls, url: str | None, key: str | None) -> "Address":
        """The given server and key, or those of PENSTOCK_URL and PENSTOCK_KEY."""
        url = (url or os.environ.get("PENSTOCK_URL") or USUAL).rstrip("/")
        key = key or os.environ.get("PENSTOCK_KEY") or None
        if not _is_server(url):
            raise ValueError("The address of a server is like http://127.0.0.1:8080, without user, query and #.")
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise ValueError("The key is not valid: a key has only letters, digits and signs of ASCII, without spaces.")
        return cls(url, key)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, which is reached without a proxy."""
        import ipaddress

        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    @property
    def needs_certificates(self) -> bool:
        """Whether TLS is used; without it, 40 ms for loading the certificates are saved."""
        return not (self.url.startswith("http://") and self.is_loopback)


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # brackets that do not match, or a port that is not a number
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
    """The parameters of a query: None is left out, a list is repeated, a mapping becomes JSON."""
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


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts in seconds, and the number of attempts."""

    timeout: float = 30.0  # for each piece that is sent or received
    connect: float = 10.0
    deadline: float = 60.0  # no attempt begins after it
    tries: int = 6

    def __post_init__(self) -> None:
        if min(self.timeout, self.connect, self.deadline) <= 0 or self.tries < 1:
            raise ValueError("timeout, connect and deadline are more than 0 seconds, and tries is 1 or more.")


def backoff(failures: int, chance: float) -> float:
    """0.2, 0.4, 0.8 … seconds, at most 5, of which chance in [0, 1] takes up to a half: callers come apart."""
    return min(LONGEST, FIRST * 2.0 ** min(failures - 1, 10)) * (1 - 0.5 * chance)


class Attempts:
    """The attempts of one request."""

    def __init__(self, patience: Patience, *, repeatable: bool) -> None:
        self._patience = patience
        self._repeatable = repeatable
        self._failures = 0
        self._lost = False  # an attempt whose outcome is unknown
        self.until = time.monotonic() + patience.deadline

    def renew(self) -> None:
        """Reset the count after progress."""
        self._failures = 0
        self.until = time.monotonic() + self._patience.deadline

    def timeout(self) -> tuple[float, float]:
        """The timeouts of the next attempt: for connecting, and for each piece."""
        left = max(0.001, self.until - time.monotonic())
        return min(self._patience.connect, left), min(self._patience.timeout, left)

    def pause_after(self, error: ClientError) -> float:
        """Seconds until the next attempt; raises the error if there is none."""
        error.repeated = self._lost
        ours = isinstance(error, KeyInFlight) and self._lost
        self._lost = self._lost or isinstance(error, Unreachable)
        self._failures += 1
        if not self._repeatable or not (error.passing or ours) or self._failures >= self._patience.tries:
            raise error
        pause = backoff(self._failures, _chance())
        if error.retry_after is not None:
            pause = max(pause, error.retry_after * (1 + 0.1 * _chance()))
        if time.monotonic() + pause >= self.until:
            raise error
        return pause


def _chance() -> float:
    """From 0 to 1; the module `random` takes longer to import than all of this."""
    return int.from_bytes(os.urandom(2)) / 0xFFFF


class EventLines:
    """Server-sent events, fed line by line; `retry` is the time after which to reconnect."""

    def __init__(self) -> None:
        self.retry = 2.0  # seconds
        self.clear()

    def clear(self) -> None:
        """Forget an event that will not be completed."""
        self._name = "message"
        self._begun = False

    def feed(self, line: str) -> str | None:
        """The name of the event that this line completes."""
        if not line:
            name, begun = self._name, self._begun
            self.clear()
            return name if begun else None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "retry" and value.isdecimal():
            self.retry = int(value) / 1000
        if field in {"event", "data"}:  # all else, above all a comment, is to keep the connection alive
            self._begun = True
        return None


sleep = time.sleep  # the sync client waits in its caller's own thread: it has no loop


async def async_sleep(seconds: float) -> None:
    import asyncio  # 40 ms, which the sync client need not pay

    await asyncio.sleep(seconds)


async def async_off_loop(call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """Reading and writing files, away from the loop."""
    import asyncio

    return await asyncio.to_thread(call, *args, **options)


def off_loop(call: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    return call(*args, **options)


def sign_message(secret: str, message_id: str, body: bytes, *, timestamp: int | None = None) -> dict[str, str]:
    """The headers that go with the body, which is sent byte for byte as it was signed; `message_id` may be in the body."""
    moment = str(int(time.time()) if timestamp is None else timestamp)
    signed = b".".join([moment.encode(), message_id.encode(), body])
    headers = {
        "Penstock-Timestamp": moment,
        "Penstock-Signature": f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}",
    }
    if message_id:
        headers["Penstock-Message-Id"] = message_id
    return headers
