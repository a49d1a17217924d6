"""What the stand-in answers about conversations: by rules, for there is no model behind it.

A sentence is worth remembering when it has one of the words below. Two memos are about the same thing when they share most of
their words; they contradict each other when what they do not share is a number, a day or one of a few materials.
"""

import json
import re
from typing import Any

KINDS = {
    "decided": "decision",
    "decision": "decision",
    "prefer": "preference",
    "prefers": "preference",
    "must": "task",
    "will": "task",
    "is": "fact",
    "was": "fact",
    "are": "fact",
}
SMALL = {"a", "an", "and", "as", "at", "been", "by", "for", "from", "has", "have", "in", "it", "its", "not", "now"}
SMALL |= {"of", "on", "since", "that", "the", "then", "this", "to", "we", "with", *KINDS}
# Of these a thing has one at a time.
CHOICES = (
    frozenset(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]),
    frozenset(["oak", "elm", "steel", "stone", "concrete"]),
)


def answer(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """In the form that the schema names: memos of messages, or verdicts on pairs of memos."""
    lines = read_lines(messages[-1]["content"])
    if "memos" in schema["properties"]:
        return {"memos": [memo for line in lines if "number" in line for memo in find(line)]}
    return {"verdicts": [{"pair": line["pair"], "verdict": judge(line["older"], line["newer"])} for line in lines]}


def read_lines(prompt: str) -> list[dict[str, Any]]:
    """The lines of JSON between the two marks."""
    return [json.loads(line) for line in prompt.split("\n")[1:-1]]


def find(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The sentences of a message that are worth remembering, word by word."""
    found = []
    for sentence in re.split(r"(?<=[.!?])\s+", line["text"]):
        kinds = [KINDS[word] for word in words(sentence) if word in KINDS]
        if kinds and not sentence.endswith("?"):
            kind = min(kinds, key=("decision", "preference", "task", "fact").index)
            found.append({"text": sentence, "kind": kind, "confidence": 0.8, "messages": [line["number"]]})
    return found


def judge(older: str, newer: str) -> str:
    old, new = tell(older), tell(newer)
    if 2 * len(old & new) < min(len(old), len(new)):
        return "different"
    if any(choice_of(old, choices) != choice_of(new, choices) for choices in CHOICES) or numbers(old) != numbers(new):
        return "contradicts"
    return "same" if 3 * len(old & new) >= 2 * min(len(old), len(new)) else "different"


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def tell(text: str) -> set[str]:
    """The words that say something."""
    return set(words(text)) - SMALL


def choice_of(told: set[str], choices: frozenset[str]) -> frozenset[str]:
    return choices & told


def numbers(told: set[str]) -> set[str]:
    return {word for word in told if word.isdigit()}
