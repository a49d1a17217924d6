"""Things that facts are about: one row for each name and type of a collection, however it is spelt. The SQL is in entities.sql.

An entity is there while a fact mentions it; with its last mention it goes, in the same statement (schema/0010_knowledge.sql).
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements

sql = statements(__file__)

ARTICLES = {"the", "a", "an", "der", "die", "das", "le", "la", "les"}
# What companies have behind their names; they are left out as long as a name is left.
FORMS = {
    "inc", "incorporated", "ltd", "limited", "llc", "llp", "plc", "corp", "corporation", "co", "company", "gmbh", "ag", "kg",
    "se", "ug", "bv", "nv", "sa", "sarl", "srl", "spa", "oy", "ab", "as", "aps",
}  # fmt: skip
SIGNS = re.compile(r"[^\w&+#/]+")


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing, and how many facts that can be found mention it."""

    id: int
    name: str
    type: str
    facts: int

    def answer(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "type": self.type, "facts": self.facts}


def key_of(name: str) -> str:
    """What all spellings of a name have in common; empty if nothing is left of it."""
    plain = unicodedata.normalize("NFKC", name).casefold().replace(".", "")
    words = SIGNS.sub(" ", plain).split()
    if len(words) > 1 and words[0] in ARTICLES:
        words = words[1:]
    while len(words) > 1 and words[-1] in FORMS:
        words = words[:-1]
    return " ".join(words)


async def list_entities(
    session: Session, collection: int, *, kind: str | None = None, after: int = 0, most: int = 100
) -> list[Entity]:
    """By their numbers; only those of facts that can be found."""
    rows = await sql.list_entities(session, collection=collection, kind=kind, after=after, most=most)
    return [_read(row) for row in rows]


def _read(row: Record) -> Entity:
    return Entity(row["id"], row["name"], row["type"], row["facts"])
