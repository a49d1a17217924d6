"""Entities that facts are about: one row for each name and type of a collection, whatever the spelling.

An entity exists while a fact mentions it; a trigger removes it with its last mention (database/schema/0010_knowledge.sql).
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from penstock.database import Session, statements

sql = statements(__file__)

ARTICLES = {"the", "a", "an", "der", "die", "das", "le", "la", "les"}
# Legal forms after the names of companies: they are left out as long as a name is left.
FORMS = {
    "inc", "incorporated", "ltd", "limited", "llc", "llp", "plc", "corp", "corporation", "co", "company", "gmbh", "ag", "kg",
    "se", "ug", "bv", "nv", "sa", "sarl", "srl", "spa", "oy", "ab", "as", "aps",
}  # fmt: skip
SIGNS = re.compile(r"[^\w&+#/]+")


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that facts are about."""

    id: int
    name: str
    type: str
    facts: Annotated[int, Field(description="The number of facts that mention it.")]


def key_of(name: str) -> str:
    """The key of all spellings of a name; empty if nothing is left of it."""
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
    """By id; only entities of visible facts."""
    rows = await sql.list_entities(session, collection=collection, kind=kind, after=after, most=most)
    return [Entity(**row) for row in rows]
