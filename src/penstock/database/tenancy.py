"""Row-level security by tenant: the second net below the conditions of each statement.

    with only(tenant):
        …                                   # every transaction in here shows rows of this tenant alone

Inside, each transaction begins by taking the role `penstock_request`, for which the policies of schema/0008_access.sql count,
and by naming the tenant, both until its end (SET LOCAL): nothing stays on the connection that could leak into another's
work, also behind a pooler. Tasks that are started inside belong to the tenant, too. Workers and commands run outside.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.database.session import Session
from penstock.database.sql_files import statements
from penstock.errors import BadValue

sql = statements(__file__)

_opening: ContextVar[str] = ContextVar("penstock_tenant", default="")

TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_tenant(name: str) -> str:
    """The name, if a tenant can be called so."""
    if not TENANT.fullmatch(name):
        raise BadValue(f"A tenant cannot be called {name[:70]!r}: use up to 63 small letters, digits, - and _.")
    return name


@contextmanager
def only(tenant: str) -> Iterator[None]:
    """Rows of one tenant, until the end of the block."""
    token = _opening.set(f"set local role penstock_request; set local penstock.tenant = '{check_tenant(tenant)}';")
    try:
        yield
    finally:
        _opening.reset(token)


@contextmanager
def all_tenants() -> Iterator[None]:
    """Rows of all tenants, also inside of `only`: for rows that belong to none of them, such as the secrets of links."""
    token = _opening.set("")
    try:
        yield
    finally:
        _opening.reset(token)


def opening() -> str:
    """The statements that begin a transaction now; none outside of `only`."""
    return _opening.get()


async def is_guarded(session: Session) -> bool:
    """Whether the database has this net: not every user may make the roles that it needs."""
    return bool(await sql.is_guarded.value(session))


async def make_roles(session: Session) -> bool:
    """Make the roles that the policies name, as far as we may; whether they are there. They belong to the server."""
    await sql.make_roles.run(session)
    return bool(await sql.has_roles.value(session))
