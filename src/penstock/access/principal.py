"""In whose name something is done: a tenant, what it may do there, and in which collections."""

from dataclasses import dataclass
from typing import Literal

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `collections` is None for all of the tenant."""

    tenant: str
    scopes: frozenset[str]
    name: str = ""
    key_id: int | None = None
    collections: frozenset[int] | None = None

    def may(self, scope: str) -> bool:
        """An administrator may do everything; who writes cannot read by that."""
        return scope in self.scopes or "admin" in self.scopes

    def sees(self, collection: int) -> bool:
        return self.collections is None or collection in self.collections


# Who asks from this machine, without a key, while nobody else can (web/access.py).
LOCAL = Principal("default", frozenset(SCOPES))
