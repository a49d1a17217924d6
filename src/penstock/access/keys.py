"""API keys: make, list and revoke them, and find the principal that a key stands for.

A key is `pk_`, a prefix of eight characters that names it, `_`, and 256 random bits; the database has only its digest. The
permissions of a key never change: make another key and revoke the old one. `Keyring` caches keys for a second in each process.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from penstock.database import Database, Session, check_tenant, statements
from penstock.errors import BadKey, BadValue, NotFound

sql = statements(__file__)

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")
LETTERS = "abcdefghijkmnpqrstuvwxyz"  # without characters that look alike
DIGITS = "23456789"
PREFIX = 8
FORM = re.compile(r"pk_([a-z0-9]{8})_[A-Za-z0-9_-]{43}", re.ASCII)
NAME_MAX = 200
LONGEST = timedelta(days=3650)
GOOD_FOR = 1.0  # seconds that a process trusts a key it has read
MOST = 10_000  # keys in the cache of a process


@dataclass(frozen=True, slots=True)
class Principal:
    """The tenant, scopes and collections in whose name a request is made; `collections` is None for all of the tenant."""

    tenant: str
    scopes: frozenset[str]
    name: str = ""
    key_id: int | None = None
    collections: frozenset[int] | None = None

    def may(self, scope: str) -> bool:
        """`admin` includes every scope; `write` does not include `read`."""
        return scope in self.scopes or "admin" in self.scopes

    def sees(self, collection: int) -> bool:
        return self.collections is None or collection in self.collections


# Requests from this machine without a key, while no other machine can connect (web/middleware/auth.py).
LOCAL = Principal("default", frozenset(SCOPES))


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its holder has it; printing it shows the prefix alone."""

    prefix: str
    text: str = field(repr=False)

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


def make_key() -> ApiKey:
    # A letter first, so that a prefix is never taken for the id of a key.
    prefix = secrets.choice(LETTERS) + "".join(secrets.choice(LETTERS + DIGITS) for _ in range(PREFIX - 1))
    return ApiKey(prefix, f"pk_{prefix}_{secrets.token_urlsafe(32)}")


def read_key(text: str) -> ApiKey | None:
    """The key that a text is; None if it has not the form of one."""
    form = FORM.fullmatch(text)
    return ApiKey(form[1], text) if form else None


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as the database has it; `key` is its text, only when it was just made."""

    id: int
    tenant: str
    name: str
    prefix: str
    scopes: list[str]
    collections: list[str] | None  # by name; None for all
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None
    usable: bool
    key: ApiKey | None = None


async def create_key(
    database: Database,
    name: str,
    *,
    tenant: str = "default",
    scopes: Iterable[str] = ("read",),
    collections: Iterable[str] | None = None,
    expires_in: timedelta | None = None,
    created_by: str = "",
) -> KeyRecord:
    """Make a key; its text is in the answer and nowhere else."""
    wanted, chosen = sorted(set(scopes)), None if collections is None else sorted(set(collections))
    _check(name, wanted, chosen, expires_in)
    key = make_key()
    async with database.pool.transaction() as tx:
        known: dict[str, int] = {}
        if chosen is not None:
            if not all(map(str.isprintable, chosen)):  # PostgreSQL takes neither NUL nor lone surrogates
                raise NotFound("The name of a collection is not valid: name collections that exist.")
            known = {row["name"]: row["id"] for row in await sql.collections(tx, tenant=tenant, names=chosen)}
            if missing := [each for each in chosen if each not in known]:
                raise NotFound(f"Collection {missing[0]} does not exist. `penstock collections list` shows all.")
        number: int = await sql.create_key.value(
            tx,
            tenant=check_tenant(tenant),
            name=name,
            prefix=key.prefix,
            digest=key.digest,
            scopes=wanted,
            collections=None if chosen is None else [known[each] for each in chosen],
            created_by=created_by,
            expires_in=expires_in,
        )
        row: Any = await sql.show_key.first(tx, id=number)
    return KeyRecord(**row, key=key)


async def list_keys(
    database: Database, *, tenant: str | None = None, after: int = 0, most: int = 1000
) -> list[KeyRecord]:
    """Keys by id, of one tenant or of all."""
    rows = await database.pool.repeat(sql.list_keys, tenant=tenant, after=after, most=most)
    return [KeyRecord(**row) for row in rows]


async def revoke_key(database: Database, which: str, *, tenant: str | None = None) -> KeyRecord:
    """Revoke a key by its id or prefix; a second later no process accepts it any more. Idempotent."""
    whole = read_key(which)
    number = int(which) if which.isascii() and which.isdecimal() and len(which) < 10 else 0
    prefix = whole.prefix if whole else which.removeprefix("pk_")
    async with database.pool.transaction() as tx:
        revoked = await sql.revoke_key.value(tx, id=number, prefix=prefix, tenant=tenant)
        row = await sql.show_key.first(tx, id=revoked or 0)
    if row is None:
        raise NotFound(f"Key {which[:11]} does not exist. `penstock keys list` shows all.")
    return KeyRecord(**row)


async def any_usable_key(session: Session) -> bool:
    """Whether there is a key that is neither revoked nor expired."""
    return bool(await sql.any_usable_key.value(session))


def _check(name: str, scopes: list[str], collections: list[str] | None, expires_in: timedelta | None) -> None:
    if not name.strip() or not name.isprintable() or len(name.encode()) > NAME_MAX:
        raise BadValue(
            f"A key needs a name of 1 to {NAME_MAX} bytes that identifies its holder, such as `ann` or `importer`."
        )
    if not scopes or not set(scopes) <= set(SCOPES):
        raise BadValue("A key's scopes are some of read, write and admin, at least one.")
    if collections is not None and (not collections or "admin" in scopes):
        raise BadValue("A key for some collections names at least one, and cannot be one for administration.")
    if expires_in is not None and not timedelta(0) < expires_in <= LONGEST:
        raise BadValue("A key expires in the future, and within ten years.")


class Keyring:
    """A cache of principals by the digest or the id of their keys."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[bytes | int, tuple[Principal, float]] = OrderedDict()  # with the end of their validity

    async def find(self, text: str) -> Principal:
        """The principal of a key, or `BadKey` with the reason."""
        key = read_key(text)
        if key is None:
            raise BadKey("This is not the form of a key: pk_, 8 characters, _, 43 characters.")
        digest = key.digest
        if (principal := self._remembered(digest)) is not None:
            return principal
        row = await self._database.pool.repeat(sql.find_key.first, prefix=key.prefix, id=None, digest=digest)
        if row is None or not hmac.compare_digest(row["digest"], digest):
            raise BadKey("This key is not known here.")
        return self._remember(digest, row)

    async def find_by_id(self, key_id: int) -> Principal:
        """The same for a session that was opened with a key."""
        if (principal := self._remembered(key_id)) is not None:
            return principal
        return self._remember(
            key_id, await self._database.pool.repeat(sql.find_key.first, prefix=None, id=key_id, digest=None)
        )

    def _remembered(self, which: bytes | int) -> Principal | None:
        principal, until = self._known.get(which, (None, 0.0))
        return principal if until > time.monotonic() else None

    def _remember(self, which: bytes | int, row: Any) -> Principal:
        self._known.pop(which, None)
        if row is None or row["revoked"]:
            raise BadKey("This key was revoked: ask its issuer for another one.")
        left = row["seconds_left"]
        if left is not None and left <= 0:
            raise BadKey("This key has expired: ask its issuer for another one.")
        principal = Principal(
            row["tenant"],
            frozenset(row["scopes"]),
            row["name"],
            row["id"],
            None if row["collections"] is None else frozenset(row["collections"]),
        )
        self._known[which] = (principal, time.monotonic() + min(GOOD_FOR, GOOD_FOR if left is None else left))
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return principal
