"""A model that reads as the example does: examples/models/facts.py behind the misbehaving server of tests/models."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from aiohttp import web

from tests.models.chat import Chat, completion

RULES = Path(__file__).parents[2] / "examples/models/facts.py"
LETTER = (
    "Ada Byron works for the Orchard Turbine Works. The runner was replaced in 2019. The head is 3.4 m.\n\n"
    "The operator must open the fish pass from March to June."
)


def rules() -> ModuleType:
    spec = importlib.util.spec_from_file_location("facts_of_the_example", RULES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RULED = rules()


async def reads(request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
    schema = asked["response_format"]["json_schema"]["schema"]
    return web.json_response(completion(json.dumps(RULED.answer(asked["messages"], schema))))


def texts(chat: Chat) -> list[str]:
    """The parts of documents that the model was shown, in the order in which it was."""
    shown = [asked["messages"][1]["content"] for asked in chat.asked]
    return [re.sub(r"^----- \w+ (begins|ends) -----$", "", text, flags=re.MULTILINE).strip() for text in shown]


def said(*facts: dict[str, Any], entities: Any = (), relations: Any = ()) -> str:
    """An answer of the right form."""
    usual = {"kind": "statement", "about": [], "confidence": 0.9}
    return json.dumps(
        {
            "entities": list(entities),
            "facts": [usual | {"statement": fact["quote"]} | fact for fact in facts],
            "relations": list(relations),
        }
    )
