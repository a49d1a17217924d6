"""Validation of a language model's answer: facts are kept whose quote occurs in the text and whose types are in the schema.

The rest is counted by reason. Each entry is validated by itself, so that a wrong one does not affect the others. A quote is
compared without regard to case, spaces, hyphens and forms of quotation marks, but only as whole words.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.knowledge.facts.config import ExtractionConfig
from penstock.knowledge.facts.entities import key_of
from penstock.telemetry import counter

LEAST = 3  # letters and digits: a shorter one is anywhere
LONGEST = 5_000  # characters
MARKS = dict.fromkeys("'‘’‚‛′`´ʼ", "'") | dict.fromkeys('"“”„‟″«»‹›', '"')
DROPPED = frozenset("-\u00ad\u2010\u2011\u2012\u2013\u2014\u2212")  # hyphens and dashes
AROUND = " \t\r\n\"'“”„‟«»‹›‘’‚‛`´…"
SPACELESS = 0x2E80  # scripts from here on have no spaces between words
STATEMENT_MAX = 1_000  # characters
NAME_MAX = 200
ENTITIES_MAX = 1_000  # of an answer
ABOUT_MAX = 20


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a quote in the text of a page, and its text there."""

    page: int
    start: int
    stop: int
    quote: str


@dataclass(frozen=True)
class PageExcerpt:
    page: int
    start: int
    text: str

    def find(self, quote: str) -> Place | None:
        return self._at(*_find_exactly(self.text, quote)) or self._find_normalized(quote)

    def _find_normalized(self, quote: str) -> Place | None:
        plain, places = self._normalized
        wanted, _ = normalized(quote)
        found = plain.find(wanted) if wanted else -1
        while found >= 0:
            start, stop = places[found], places[found + len(wanted) - 1] + 1
            if _is_whole(self.text, start, stop):
                return self._at(start, stop)
            found = plain.find(wanted, found + 1)
        return None

    def _at(self, start: int, stop: int) -> Place | None:
        return Place(self.page, self.start + start, self.start + stop, self.text[start:stop]) if stop > start else None

    @cached_property
    def _normalized(self) -> tuple[str, list[int]]:
        return normalized(self.text)


def find_quote(passages: Sequence[PageExcerpt], quote: str) -> Place | None:
    """The first place of a quote; None if it occurs nowhere, or is too short to identify a place."""
    quote = quote.strip(AROUND)
    if len(quote) > LONGEST or sum(char.isalnum() for char in quote) < LEAST:
        return None
    return next((place for passage in passages if (place := passage.find(quote)) is not None), None)


def normalized(text: str) -> tuple[str, list[int]]:
    """The text without differences that do not matter, and the place of each of its characters in the original."""
    plain: list[str] = []
    places: list[int] = []
    for index, char in enumerate(text):
        for part in unicodedata.normalize("NFKD", char).casefold():
            sign = MARKS.get(part, part)
            if sign.isspace() or sign in DROPPED or unicodedata.category(sign) in {"Cc", "Cf"}:
                continue
            plain.append(sign)
            places.append(index)
    return "".join(plain), places


def _find_exactly(text: str, quote: str) -> tuple[int, int]:
    found = text.find(quote)
    while found >= 0:
        if _is_whole(text, found, found + len(quote)):
            return found, found + len(quote)
        found = text.find(quote, found + 1)
    return 0, 0


def _is_whole(text: str, start: int, stop: int) -> bool:
    """No word is cut at either end: `art` does not stand in `party`."""
    return not (
        (start > 0 and _joined(text[start - 1], text[start]))
        or (stop < len(text) and _joined(text[stop - 1], text[stop]))
    )


def _joined(one: str, other: str) -> bool:
    return one.isalnum() and other.isalnum() and ord(one) < SPACELESS and ord(other) < SPACELESS


# Reasons to reject an entry, as they are counted.
REASONS = {
    "quote": "its quote does not occur in the text, or is too short to identify a place",
    "empty": "it is empty",
    "long": "a statement of more than 1,000 characters, or a name of more than 200",
    "confidence": "its confidence is not a number from 0 to 1",
    "type": "an entity of a type that the schema does not have",
    "kind": "a fact of a kind that the schema does not have",
    "relation": "a relation that the schema does not have",
    "name": "an entity whose name does not occur in the text",
    "entity": "a relation of a thing that is not among the entities",
    "many": "more than `knowledge.facts` of a window",
    "twice": "the same statement about the same place",
    "unwritable": "the database refuses it",
}

rejections = counter(
    "penstock_facts_rejected", "Facts, relations and entities of models that were rejected", ("reason",)
)


@dataclass(frozen=True, slots=True)
class Thing:
    """An entity as a window names it."""

    name: str
    type: str
    key: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement, the place of its quote, and what it is about: (thing, role)."""

    statement: str
    place: Place
    kind: str
    confidence: float
    things: Sequence[tuple[Thing, str]] = ()
    relation: str | None = None

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for the same statement about the same place."""
        return self.place.page, self.place.start, self.place.stop, self.relation, normalized(self.statement)[0]


@dataclass
class ValidatedAnswer:
    facts: list[Fact] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)


def read_answer(
    answer: Mapping[str, Any], passages: Sequence[PageExcerpt], config: ExtractionConfig
) -> ValidatedAnswer:
    """Validate an answer that has the form `ANSWER`."""
    reading = ValidatedAnswer()
    things = _things(answer["entities"], passages, config, reading.rejected)
    for entry in _most(answer["facts"], config.most, reading.rejected):
        _take(reading, _fact(entry, passages, config, things))
    for entry in _most(answer["relations"], config.most, reading.rejected):
        _take(reading, _relation(entry, passages, config, things))
    return reading


def _take(reading: ValidatedAnswer, found: Fact | str) -> None:
    if isinstance(found, str):
        reading.rejected[found] += 1
    else:
        reading.facts.append(found)


def _most(entries: list[Any], most: int, rejected: Counter[str]) -> Iterable[Any]:
    if len(entries) > most:
        rejected["many"] += len(entries) - most
    return entries[:most]


def _things(
    entries: list[Any], passages: Sequence[PageExcerpt], config: ExtractionConfig, rejected: Counter[str]
) -> dict[str, Thing]:
    """Entities by key. Of one name with two types, the first one counts."""
    things: dict[str, Thing] = {}
    texts = [normalized(passage.text)[0] for passage in passages]
    for entry in _most(entries, ENTITIES_MAX, rejected):
        name, kind = clean(entry["name"]), entry["type"].strip().casefold()
        key = key_of(name)
        if not key:
            rejected["empty"] += 1
        elif len(name) > NAME_MAX:
            rejected["long"] += 1
        elif kind not in config.entities:
            rejected["type"] += 1
        elif not any(normalized(name)[0] in text for text in texts):
            rejected["name"] += 1
        else:
            things.setdefault(key, Thing(name, kind, key))
    return things


def _fact(
    entry: Mapping[str, Any], passages: Sequence[PageExcerpt], config: ExtractionConfig, things: Mapping[str, Thing]
) -> Fact | str:
    kind = entry["kind"].strip().casefold()
    if kind not in config.kinds:
        return "kind"
    about = dict.fromkeys(key_of(name) for name in entry["about"][:ABOUT_MAX])
    mentioned = [(things[key], "about") for key in about if key in things]
    return _checked(entry["statement"], entry, passages, kind, mentioned)


def _relation(
    entry: Mapping[str, Any], passages: Sequence[PageExcerpt], config: ExtractionConfig, things: Mapping[str, Thing]
) -> Fact | str:
    relation = entry["relation"].strip().casefold()
    if relation not in config.relations:
        return "relation"
    one, other = things.get(key_of(entry["from"])), things.get(key_of(entry["to"]))
    if one is None or other is None:
        return "entity"
    statement = f"{one.name} {relation.replace('_', ' ')} {other.name}"
    return _checked(statement, entry, passages, "relation", [(one, "from"), (other, "to")], relation=relation)


def _checked(
    statement: str,
    entry: Mapping[str, Any],
    passages: Sequence[PageExcerpt],
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
    """The text on one line, without characters that cannot be stored or shown."""
    whole = text.encode("utf-8", "ignore").decode()
    return " ".join("".join(char if char.isprintable() else " " for char in whole).split())
