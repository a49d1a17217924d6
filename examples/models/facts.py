"""What the stand-in says about a part of a document: no model, but rules. Each sentence is a fact, capitals make a name, and
one fact is invented, as models do.

It reads the prompt of Penstock (src/penstock/knowledge/facts/config.py): the text between the two lines, and the types that are
listed. It is good enough to see the whole way, and finds nothing that a reader would call understanding.
"""

import re
from typing import Any

Message = dict[str, str]

TEXT = re.compile(r"^----- (\w+) begins -----\n(.*)\n----- \1 ends -----$", re.DOTALL | re.MULTILINE)
LISTED = re.compile(r"^- (\w+)", re.MULTILINE)
SENTENCE = re.compile(r"[^\s.!?#](?:(?!\n\s*\n)[^.!?]|\.(?=\d))*[.!?]")
NAME = re.compile(r"\b[A-Z][\w&'-]*(?:(?: of the| of| &)? [A-Z][\w&'-]*)*")
ORGANISATIONS = {
    "Ltd",
    "Inc",
    "GmbH",
    "AG",
    "Company",
    "Works",
    "Authority",
    "Council",
    "Board",
    "Association",
    "Bank",
    "Institute",
}
PLACES = {"River", "Valley", "Street", "Mill", "Bridge", "Lake", "Weir", "Hill", "Dale"}
TITLES = {"Mr", "Mrs", "Ms", "Dr", "Prof"}
NO_NAMES = {
    "The",
    "A",
    "An",
    "It",
    "In",
    "On",
    "At",
    "He",
    "She",
    "They",
    "This",
    "That",
    "There",
    "Its",
    "His",
    "Her",
    "We",
    "I",
}
MONTHS = set("January February March April May June July August September October November December".split())  # noqa: SIM905
INVENTED = "It has won a prize for its looks."  # models do that; who asks has to notice
RELATIONS = {
    "works_for": r"works for|is employed by|is the engineer of",
    "part_of": r"is (?:a )?part of|belongs to the group of",
    "located_in": r"is in|stands in|lies in|is located in",
    "owns": r"owns|bought",
    "made_by": r"was made by|is made by|was built by",
}


def answer(messages: list[Message], schema: dict[str, Any]) -> dict[str, Any]:
    """Entities, facts and relations of the text in the last message."""
    system, asked = messages[0]["content"], next(each for each in messages if each["role"] == "user")["content"]
    found = TEXT.search(asked)
    text = found[2] if found else asked
    types = listed(system, "Types of entities:", "Relations")
    relations = listed(system, "Relations, between two entities:", "Kinds")
    kinds = listed(system, "Kinds of facts:", "")
    names = {name: kind for name in names_in(text) if (kind := type_of(name, text)) in types}
    sentences = [each for each in SENTENCE.findall(text) if 3 < len(each.split()) < 60]
    return {
        "entities": [{"name": name, "type": kind} for name, kind in names.items()],
        "facts": [fact(each, names, kinds) for each in [*sentences[:100], INVENTED]],
        "relations": [
            each for sentence in sentences for each in related(sentence, names) if each["relation"] in relations
        ],
    }


def listed(system: str, after: str, before: str) -> list[str]:
    """The names in a list of the prompt."""
    part = system.partition(after)[2]
    return LISTED.findall(part.partition(before)[0] if before else part)


def names_in(text: str) -> list[str]:
    found: dict[str, None] = {}
    for match in NAME.finditer(text):
        words = match[0].split()
        while words and words[0] in NO_NAMES | MONTHS:
            words = words[1:]
        if words and (len(words) > 1 or not starts_sentence(text, match.start())):
            found[" ".join(words)] = None
    return list(found)


def starts_sentence(text: str, place: int) -> bool:
    before = text[:place].rstrip()
    return not before or before[-1] in ".!?\n#"


def type_of(name: str, text: str) -> str:
    words = name.split()
    if ORGANISATIONS & set(words):
        return "organisation"
    if PLACES & set(words) or re.search(rf"\b(?:in|at|near|from) {re.escape(name)}\b", text):
        return "place"
    return "person" if len(words) > 1 or TITLES & set(words) else "product"


def fact(sentence: str, names: dict[str, str], kinds: list[str]) -> dict[str, Any]:
    if re.search(r"\b(?:must|shall|may not|is obliged)\b", sentence):
        kind = "obligation"
    elif re.search(r"\b(?:1[89]|20)\d\d\b", sentence):
        kind = "date"
    elif re.search(r"\d", sentence):
        kind = "number"
    else:
        kind = "statement"
    about = [name for name in names if re.search(rf"\b{re.escape(name)}\b", sentence)]
    return {
        "statement": " ".join(sentence.split()),
        "quote": sentence,
        "kind": kind if kind in kinds else (kinds or ["statement"])[0],
        "about": about,
        "confidence": 0.9 if about else 0.6,
    }


def related(sentence: str, names: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"from": one, "relation": relation, "to": other, "quote": sentence, "confidence": 0.8}
        for relation, words in RELATIONS.items()
        for one in names
        for other in names
        if one != other and re.search(rf"\b{re.escape(one)} (?:{words}) (?:the )?{re.escape(other)}\b", sentence)
    ]
