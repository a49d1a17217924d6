"""What is taken of a language model's answer: facts whose quotes stand in the text, about things of known types.

The rest is counted. Each entry is judged by itself, so that a wrong one does not cost the others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.knowledge.entities import key_of
from penstock.knowledge.plan import Plan
from penstock.knowledge.quotes import Passage, Place, find_quote, fold
from penstock.telemetry import counter

STATEMENT_MAX = 1_000  # characters
NAME_MAX = 200
ENTITIES_MAX = 1_000  # of an answer
ABOUT_MAX = 20

# Reasons for which something is not taken, as they are counted.
REASONS = {
    "quote": "its quote does not stand in the text, or is too short to mean a place",
    "empty": "it says nothing",
    "long": "a statement of more than 1,000 characters, or a name of more than 200",
    "confidence": "its confidence is no number from 0 to 1",
    "type": "an entity of a type that the schema does not have",
    "kind": "a fact of a kind that the schema does not have",
    "relation": "a relation that the schema does not have",
    "name": "an entity whose name does not stand in the text",
    "entity": "a relation of something that is not among the entities",
    "many": "more than `knowledge.facts` of a window",
    "twice": "the same was said of the same place before",
    "unwritable": "the database does not take it",
}

rejections = counter(
    "penstock_facts_rejected", "Facts, relations and entities of models that were not taken", ("reason",)
)


@dataclass(frozen=True, slots=True)
class Thing:
    """An entity as a window names it."""

    name: str
    type: str
    key: str


@dataclass(frozen=True, slots=True)
class Fact:
    """What was said, where it stands, and what it is about: (thing, role)."""

    statement: str
    place: Place
    kind: str
    confidence: float
    things: Sequence[tuple[Thing, str]] = ()
    relation: str | None = None

    @property
    def sameness(self) -> tuple[Any, ...]:
        """Two with the same say the same of the same place."""
        return self.place.page, self.place.start, self.place.stop, self.relation, fold(self.statement)[0]


@dataclass
class Reading:
    """What was taken of one answer."""

    facts: list[Fact] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)


def read_answer(answer: Mapping[str, Any], passages: Sequence[Passage], plan: Plan) -> Reading:
    """Of an answer that has the form `ANSWER`."""
    reading = Reading()
    things = _things(answer["entities"], passages, plan, reading.rejected)
    for entry in _most(answer["facts"], plan.most, reading.rejected):
        _take(reading, _fact(entry, passages, plan, things))
    for entry in _most(answer["relations"], plan.most, reading.rejected):
        _take(reading, _relation(entry, passages, plan, things))
    return reading


def _take(reading: Reading, found: Fact | str) -> None:
    if isinstance(found, str):
        reading.rejected[found] += 1
    else:
        reading.facts.append(found)


def _most(entries: list[Any], most: int, rejected: Counter[str]) -> Iterable[Any]:
    if len(entries) > most:
        rejected["many"] += len(entries) - most
    return entries[:most]


def _things(entries: list[Any], passages: Sequence[Passage], plan: Plan, rejected: Counter[str]) -> dict[str, Thing]:
    """By key. Of one name with two types, the first one counts."""
    things: dict[str, Thing] = {}
    texts = [fold(passage.text)[0] for passage in passages]
    for entry in _most(entries, ENTITIES_MAX, rejected):
        name, kind = clean(entry["name"]), entry["type"].strip().casefold()
        key = key_of(name)
        if not key:
            rejected["empty"] += 1
        elif len(name) > NAME_MAX:
            rejected["long"] += 1
        elif kind not in plan.entities:
            rejected["type"] += 1
        elif not any(fold(name)[0] in text for text in texts):
            rejected["name"] += 1
        else:
            things.setdefault(key, Thing(name, kind, key))
    return things


def _fact(entry: Mapping[str, Any], passages: Sequence[Passage], plan: Plan, things: Mapping[str, Thing]) -> Fact | str:
    kind = entry["kind"].strip().casefold()
    if kind not in plan.kinds:
        return "kind"
    about = dict.fromkeys(key_of(name) for name in entry["about"][:ABOUT_MAX])
    mentioned = [(things[key], "about") for key in about if key in things]
    return _judged(entry["statement"], entry, passages, kind, mentioned)


def _relation(
    entry: Mapping[str, Any], passages: Sequence[Passage], plan: Plan, things: Mapping[str, Thing]
) -> Fact | str:
    relation = entry["relation"].strip().casefold()
    if relation not in plan.relations:
        return "relation"
    one, other = things.get(key_of(entry["from"])), things.get(key_of(entry["to"]))
    if one is None or other is None:
        return "entity"
    statement = f"{one.name} {relation.replace('_', ' ')} {other.name}"
    return _judged(statement, entry, passages, "relation", [(one, "from"), (other, "to")], relation=relation)


def _judged(
    statement: str,
    entry: Mapping[str, Any],
    passages: Sequence[Passage],
    kind: str,
    things: Sequence[tuple[Thing, str]],
    *,
    relation: str | None = None,
) -> Fact | str:
    statement, confidence = clean(statement), float(entry["confidence"])
    if not statement:
        return "empty"
    if len(statement) > STATEMENT_MAX:
        return "long"
    if not math.isfinite(confidence) or not 0 <= confidence <= 1:
        return "confidence"
    place = find_quote(passages, entry["quote"])
    return "quote" if place is None else Fact(statement, place, kind, confidence, things, relation)


def clean(text: str) -> str:
    """On one line, without what cannot be kept or shown: control characters, NUL, halves of characters."""
    whole = text.encode("utf-8", "ignore").decode()
    return " ".join("".join(char if char.isprintable() else " " for char in whole).split())
