"""Signed tokens: download links for one document without a key, and the sessions of browsers.

    link:    v1.<signing key id>.<expiry, seconds since 1970>.<HMAC-SHA256, base64url>
    session: v1.<signing key id>.<API key id>.<expiry>.<HMAC-SHA256, base64url>

A signature covers all values of its token, as a JSON array, so that no value can run into the next one. A link is valid for 15
minutes at most; the check enforces it, too, so that a signer with a wrong clock makes no link that lasts. Every fault of a link
is answered with 404, as for a document that does not exist. A session names an API key, which itself is never in the browser.
The signing keys are made in the database, shared by all processes, and replaced every month.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.database import Database, Session, all_tenants, statements
from penstock.errors import BadKey, NotFound

sql = statements(__file__)

READ_EVERY = 60.0  # seconds
LINK_LIFETIME = timedelta(minutes=15)
SESSION_LIFETIME = timedelta(hours=12)
SESSION_COOKIE = "penstock_session"
VERSION = "v1"
LEAST_SECRET = 32  # bytes: as many as the hash has

_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_LINK = re.compile(r"v1\.([A-Za-z0-9_-]{1,40})\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{43})", re.ASCII)
_SESSION = re.compile(r"v1\.([a-z0-9]{8})\.([1-9][0-9]{0,9})\.([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SigningKeySet:
    """The secrets by id, the id of the newest one, and the time by the database's clock."""

    newest: str
    secrets: dict[str, bytes]
    now: datetime


class SigningKeys:
    """The signing keys as one process has read them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: SigningKeySet | None = None
        self._read_at = 0.0

    async def current(self) -> SigningKeySet:
        """The keys, read again every minute."""
        passed = time.monotonic() - self._read_at
        if self._read is None or passed > READ_EVERY:
            self._read = await self._read_keys()
            self._read_at, passed = time.monotonic(), 0.0
        return SigningKeySet(self._read.newest, self._read.secrets, self._read.now + timedelta(seconds=passed))

    async def known(self, key_id: str) -> SigningKeySet:
        """The same, read again for a key that another process may just have made."""
        if self._read is None or key_id not in self._read.secrets:
            self._read_at = min(self._read_at, time.monotonic() - READ_EVERY + 1.0)  # at most once a second
        return await self.current()

    async def _read_keys(self) -> SigningKeySet:
        async def read(session: Session) -> list[Any]:
            await sql.make_if_old.run(session, id=secrets.token_hex(4), secret=secrets.token_bytes(32))
            return await sql.signing_keys(session)

        with all_tenants():  # the tenant of the request may not read them
            rows = await self._database.pool.repeat(read)
        return SigningKeySet(rows[0]["id"], {row["id"]: row["secret"] for row in rows}, rows[0]["now"])


def seal(secret: bytes, facts: list[str | int]) -> str:
    """HMAC-SHA256 over the facts as a JSON array, so that no value can run into the next one; 43 characters."""
    digest = hmac.new(secret, json.dumps(["penstock", *facts]).encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def sign_link(
    secret_key: bytes, key_id: str, *, method: str, document: int, tenant: str, expires: datetime, now: datetime
) -> str:
    """A token for one method on one document; `expires` is cut to whole seconds, and lies within 15 minutes of `now`."""
    if len(secret_key) < LEAST_SECRET:
        raise ValueError(f"A secret for links has at least {LEAST_SECRET} bytes.")
    if not _KEY_ID.fullmatch(key_id):
        raise ValueError("The id of a key has 1 to 40 letters, digits, - or _.")
    if not now < expires <= now + LINK_LIFETIME:
        raise ValueError("A link expires in the future, and within 15 minutes.")
    expiry = int(expires.timestamp())
    signature = seal(secret_key, ["link", VERSION, key_id, method.upper(), document, tenant, expiry])
    return f"{VERSION}.{key_id}.{expiry}.{signature}"


def check_link(
    keys: Mapping[str, bytes], token: str, *, method: str, document: int, tenant: str, now: datetime
) -> None:
    """Return when the token allows this very request now; raise NotFound otherwise."""
    parts = _LINK.fullmatch(token)
    if parts is None:
        raise NotFound("This is not a download link of Penstock. Ask for a new one.")
    key_id, expiry, signature = parts[1], int(parts[2]), parts[3]
    secret_key = keys.get(key_id)
    known = secret_key is not None and len(secret_key) >= LEAST_SECRET
    facts: list[str | int] = ["link", VERSION, key_id, method.upper(), document, tenant, expiry]
    # An unknown key costs the same work: the time does not reveal which ids exist.
    expected = seal(secret_key if secret_key and known else bytes(LEAST_SECRET), facts)
    if not hmac.compare_digest(expected, signature) or not known:
        raise NotFound("This download link is not valid for this document. Ask for a new one.")
    left = expiry - now.timestamp()
    if not 0 < left <= LINK_LIFETIME.total_seconds():
        raise NotFound("This download link is not valid any more. Ask for a new one.")


async def open_session(signing_keys: SigningKeys, key_id: int) -> str:
    """The cookie's value for a session with this API key."""
    keys = await signing_keys.current()
    expiry = int((keys.now + SESSION_LIFETIME).timestamp())
    signature = seal(keys.secrets[keys.newest], ["session", key_id, expiry])
    return f"v1.{keys.newest}.{key_id}.{expiry}.{signature}"


async def read_session(signing_keys: SigningKeys, text: str) -> int:
    """The id of the API key that a session was opened with."""
    form = _SESSION.fullmatch(text)
    if form is None:
        raise BadKey("This is not a session of Penstock: sign in again.")
    key_id, expiry = int(form[2]), int(form[3])
    keys = await signing_keys.known(form[1])
    secret = keys.secrets.get(form[1], bytes(32))
    good = hmac.compare_digest(seal(secret, ["session", key_id, expiry]), form[4]) and form[1] in keys.secrets
    if not good or not 0 < expiry - keys.now.timestamp() <= SESSION_LIFETIME.total_seconds():
        raise BadKey("This session is over: sign in again.")
    return key_id
