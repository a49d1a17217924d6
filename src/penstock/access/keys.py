"""API keys in the database: make, list, revoke. The SQL is in keys.sql.

What a key may do is written down when it is made and never changes; who needs another one makes it and revokes the old one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from penstock.access.key import Key, make_key, read_key
from penstock.access.principal import SCOPES
from penstock.database import Database, Session, statements
from penstock.database.tenancy import check_tenant
from penstock.errors import BadValue, NotFound

sql = statements(__file__)

NAME_MAX = 200
LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Listed:
    """What is known of a key; `key` is the whole of it, only when it was just made."""

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
    key: Key | None = None


async def create_key(
    database: Database,
    name: str,
    *,
    tenant: str = "default",
    scopes: Iterable[str] = ("read",),
    collections: Iterable[str] | None = None,
    expires_in: timedelta | None = None,
    created_by: str = "",
) -> Listed:
    """Make a key; its text is in the answer and nowhere else."""
    wanted, chosen = sorted(set(scopes)), None if collections is None else sorted(set(collections))
    _check(name, wanted, chosen, expires_in)
    key = make_key()
    async with database.pool.transaction() as tx:
        known: dict[str, int] = {}
        if chosen is not None:
            for each in chosen:
                if (
                    not each.isprintable()
                ):  # PostgreSQL takes neither NUL nor halves of characters, and no collection has them
                    raise NotFound("A collection has no such name: a key can only be for collections that there are.")
            known = {row["name"]: row["id"] for row in await sql.collections(tx, tenant=tenant, names=chosen)}
            if missing := [each for each in chosen if each not in known]:
                raise NotFound(
                    f"There is no collection {missing[0]}: a key can only be for collections that there are."
                )
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
        row = await sql.show_key.first(tx, id=number)
    return replace(_listed(row), key=key)


async def list_keys(database: Database, *, tenant: str | None = None, after: int = 0, most: int = 1000) -> list[Listed]:
    """Keys by number, of one tenant or of all."""
    rows = await database.pool.repeat(partial(sql.list_keys, tenant=tenant, after=after, most=most))
    return [_listed(row) for row in rows]


async def revoke_key(database: Database, which: str, *, tenant: str | None = None) -> Listed:
    """End a key, by its number or its prefix; a second after this, no process takes it any more. Again changes nothing."""
    whole = read_key(which)
    number = int(which) if which.isascii() and which.isdecimal() and len(which) < 10 else 0
    prefix = whole.prefix if whole else which.removeprefix("pk_")
    async with database.pool.transaction() as tx:
        revoked = await sql.revoke_key.value(tx, id=number, prefix=prefix, tenant=tenant)
        row = await sql.show_key.first(tx, id=revoked or 0)
    if row is None:
        raise NotFound(f"There is no key {which[:11]}: `penstock key list` shows those that there are.")
    return _listed(row)


async def any_usable_key(session: Session) -> bool:
    """Whether anybody could ask with a key at all."""
    return bool(await sql.any_usable_key.value(session))


def _check(name: str, scopes: list[str], collections: list[str] | None, expires_in: timedelta | None) -> None:
    if not name.strip() or not name.isprintable() or len(name.encode()) > NAME_MAX:
        raise BadValue(
            f"A key needs a name of 1 to {NAME_MAX} bytes that says who has it, such as `ann` or `importer`."
        )
    if not scopes or not set(scopes) <= set(SCOPES):
        raise BadValue("A key's scopes are some of read, write and admin, at least one.")
    if collections is not None and (not collections or "admin" in scopes):
        raise BadValue("A key for some collections names at least one, and cannot be one for administration.")
    if expires_in is not None and not timedelta(0) < expires_in <= LONGEST:
        raise BadValue("A key expires in the future, and within ten years.")


def _listed(row: Any) -> Listed:
    return Listed(**row)
