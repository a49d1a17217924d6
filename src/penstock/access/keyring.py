"""Checks keys for one process: a look into the database, which is then good for a second.

So a check costs a hash and a look into a dictionary, and a key that is revoked or expires is refused by every process a second
later at most. What is unknown is looked up each time: who guesses pays with a statement, and is slowed by the limits per
address (web/rates.py). How long a key lives is counted on this process's monotonic clock from what the database said.
"""

import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.access.key import Key, read_key
from penstock.access.keys import sql
from penstock.access.principal import Principal
from penstock.database import Database
from penstock.errors import BadKey

GOOD_FOR = 1.0  # seconds
MOST = 10_000  # remembered


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    until: float


class Keyring:
    """The keys that were seen lately."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[bytes | int, _Known] = OrderedDict()

    async def find(self, text: str) -> Principal:
        """Whose key a text is; `BadKey` says why it is none."""
        key = read_key(text)
        if key is None:
            raise BadKey("This is not the form of a key: pk_, 8 characters, _, 43 characters.")
        digest = key.digest
        if (principal := self._remembered(digest)) is not None:
            return principal
        return self._remember(digest, await self._look(key))

    async def find_by_id(self, number: int) -> Principal:
        """The same for a session that was opened with a key."""
        if (principal := self._remembered(number)) is not None:
            return principal
        row = await self._database.pool.repeat(partial(sql.find_key.first, prefix=None, id=number, digest=None))
        return self._remember(number, row)

    async def _look(self, key: Key) -> Any:
        look = partial(sql.find_key.first, prefix=key.prefix, id=None, digest=key.digest)
        row = await self._database.pool.repeat(look)
        if row is None or not hmac.compare_digest(row["digest"], key.digest):
            raise BadKey("This key is not known here.")
        return row

    def _remembered(self, which: bytes | int) -> Principal | None:
        known = self._known.get(which)
        return known.principal if known is not None and known.until > time.monotonic() else None

    def _remember(self, which: bytes | int, row: Any) -> Principal:
        self._known.pop(which, None)
        if row is None or row["revoked"]:
            raise BadKey("This key was revoked: ask whoever gave it to you for another one.")
        left = row["seconds_left"]
        if left is not None and left <= 0:
            raise BadKey("This key has expired: ask whoever gave it to you for another one.")
        principal = Principal(
            row["tenant"],
            frozenset(row["scopes"]),
            row["name"],
            row["id"],
            None if row["collections"] is None else frozenset(row["collections"]),
        )
        self._known[which] = _Known(principal, time.monotonic() + min(GOOD_FOR, GOOD_FOR if left is None else left))
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return principal
