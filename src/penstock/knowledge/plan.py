"""By what facts are read: the types of the settings, the prompt, the model, the size of a window; and a name for all of it.

What was read by another plan is not up to date: its digest is another one.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.settings import Settings

VERSION = 1  # of the prompt and of how answers are read: raise it when either asks for something else


@dataclass(frozen=True)
class Plan:
    """What is asked of whom."""

    llm: str  # what the settings call it
    model: str  # what its server calls it
    window: int
    most: int
    language: str
    entities: Mapping[str, str]
    relations: Mapping[str, str]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, settings: Settings, llm: str) -> "Plan":
        chosen = settings.knowledge
        types = chosen.types
        model = settings.llms[llm].model
        return cls(
            llm, model, chosen.window, chosen.facts, chosen.language, types.entities, types.relations, types.kinds
        )

    @property
    def digest(self) -> str:
        """The same for the same plan, in every process."""
        written = json.dumps([VERSION, asdict(self)], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(written.encode()).hexdigest()[:32]


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


TEXT: dict[str, Any] = {"type": "string"}
# The form of an answer, in the narrow part of JSON Schema that servers can guarantee. Types, lengths and numbers are no part
# of it: one entry with a wrong type is rejected by itself (reading.py), and does not cost the others.
ANSWER = _object(
    entities=_array(_object(name=TEXT, type=TEXT)),
    facts=_array(_object(statement=TEXT, quote=TEXT, kind=TEXT, about=_array(TEXT), confidence={"type": "number"})),
    relations=_array(
        _object(**{"from": TEXT, "relation": TEXT, "to": TEXT, "quote": TEXT, "confidence": {"type": "number"}})
    ),
)
