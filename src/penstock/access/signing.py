"""The secrets that links and sessions are signed with: made in the database, shared by all processes, renewed by the month.

The newest one signs; those of the last two months are good for checking, which is longer than anything that is signed lives.
The time is the database's: it is asked together with the secrets, and counted on from there. The SQL is in signing.sql.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.database import Database, Session, statements
from penstock.database.tenancy import everybody

sql = statements(__file__)

READ_EVERY = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Signing:
    """What to sign and check with now."""

    newest: str
    secrets: dict[str, bytes]
    now: datetime


class Signatures:
    """The secrets of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: Signing | None = None
        self._read_at = 0.0

    async def current(self) -> Signing:
        """The secrets, and the time by the database's clock."""
        passed = time.monotonic() - self._read_at
        if self._read is None or passed > READ_EVERY:
            self._read = await self._look()
            self._read_at, passed = time.monotonic(), 0.0
        return Signing(self._read.newest, self._read.secrets, self._read.now + timedelta(seconds=passed))

    async def known(self, key_id: str) -> Signing:
        """The same; looks again for a secret that another process may just have made."""
        if self._read is None or key_id not in self._read.secrets:
            self._read_at = min(self._read_at, time.monotonic() - READ_EVERY + 1.0)  # at most once a second
        return await self.current()

    async def _look(self) -> Signing:
        async def read(session: Session) -> list[Any]:
            await sql.make_if_old.run(session, id=secrets.token_hex(4), secret=secrets.token_bytes(32))
            return await sql.signing_keys(session)

        with everybody():  # who asks for a link may not read what it is signed with
            rows = await self._database.pool.repeat(read)
        return Signing(rows[0]["id"], {row["id"]: row["secret"] for row in rows}, rows[0]["now"])


def seal(secret: bytes, facts: list[str | int]) -> str:
    """HMAC-SHA256 over the facts as a JSON array, so that no value can run into the next one; 43 characters."""
    digest = hmac.new(secret, json.dumps(["penstock", *facts]).encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
