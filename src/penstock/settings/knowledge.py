"""`[knowledge]`: the schema of facts (types of things, relations, kinds, each with a description) and their extraction.

[knowledge.schema.entities]
company = "A business, by the name that it uses itself"
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from penstock.settings.models import LlmSettings
from penstock.settings.types import Section, Whole

TYPE = re.compile(r"[a-z][a-z0-9_]{0,40}")
MOST = 50  # types of one sort
DESCRIPTION_MAX = 300  # characters


def _read_types(value: Any) -> Any:
    """In a file a table of names and descriptions; in a variable names with commas between them, or that table as JSON."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("{"):
            try:
                value = json.loads(text)
            except ValueError:
                raise ValueError("This is not JSON. Write names with commas between them, or a JSON object.") from None
        else:
            value = {name.strip(): "" for name in text.split(",") if name.strip()}
    if not isinstance(value, Mapping) or len(value) > MOST:
        raise ValueError(f"Write a table of up to {MOST} names, each with a description.")
    for name, description in value.items():
        if not TYPE.fullmatch(str(name)):
            raise ValueError("A name cannot be used. Write names of up to 41 characters of a-z, 0-9 and _.")
        if not isinstance(description, str) or len(description) > DESCRIPTION_MAX or "\0" in description:
            raise ValueError(f"The description of {name} must be a text of up to {DESCRIPTION_MAX} characters.")
    return dict(value)


Types = Annotated[dict[str, str], BeforeValidator(_read_types)]

ENTITIES = {
    "person": "A human being, by name",
    "organisation": "A company, an authority, a club, by name",
    "place": "A town, a country, a building, a river, by name",
    "product": "A thing that is made, sold or used, by name",
    "event": "Something that happened at a time, by name",
}
RELATIONS = {
    "works_for": "A person is employed by an organisation, or holds an office of it",
    "part_of": "One is a part, a branch or a member of the other",
    "located_in": "One is in or at the other, which is a place",
    "owns": "One has the other as its property",
    "made_by": "A product is made by the other",
}
KINDS = {
    "statement": "What something is or does",
    "number": "A quantity, a price, a measure",
    "date": "When something happened or will happen",
    "obligation": "What a person or organisation must or must not do",
}


class SchemaSettings(Section):
    """The types of things, relations and facts. A type that is not listed is rejected."""

    entities: Types = Field(
        ENTITIES,
        json_schema_extra={"shown": f"`{', '.join(ENTITIES)}`"},
        examples=["person,company"],
        description="Types of things, each with a description for the model; in a variable names with commas, or JSON.",
    )
    relations: Types = Field(
        RELATIONS,
        json_schema_extra={"shown": f"`{', '.join(RELATIONS)}`"},
        examples=["works_for,owns"],
        description="Relations between two things, each with a description.",
    )
    kinds: Types = Field(
        KINDS,
        json_schema_extra={"shown": f"`{', '.join(KINDS)}`"},
        examples=["statement,number"],
        description="Kinds of facts.",
    )


class KnowledgeSettings(Section):
    """The extraction of facts from documents by a language model."""

    llm: str = Field(
        "",
        pattern=r"^[a-z0-9_-]{0,41}$",
        examples=["main"],
        description="The language model; needed only if there are several.",
    )
    language: str = Field(
        "",
        pattern=r"^[\w ()-]{0,50}$",
        examples=["English"],
        description="The language of the statements; not set leaves it to the document.",
    )
    window: Whole = Field(6_000, ge=500, le=100_000, description="Characters of a document that are read at once.")
    facts: Whole = Field(200, ge=1, le=1_000, description="Facts and relations of such a part, at most, each.")
    types: SchemaSettings = Field(SchemaSettings(), alias="schema")

    @property
    def schema(self) -> SchemaSettings:  # type: ignore[override]  # pydantic has a method of this name
        """The section under its key in the file."""
        return self.types


def unknown_llm(
    chosen: KnowledgeSettings, llms: Mapping[str, LlmSettings], name: Callable[[str], str]
) -> Iterator[str]:
    """Report why facts cannot be extracted."""
    if chosen.llm and chosen.llm not in llms:
        known = ", ".join(sorted(llms)) or "none"
        yield f"{name('knowledge.llm')} is {chosen.llm!r}, but there is {known}. Name one, or add [llms.{chosen.llm}]."
    if not chosen.types.kinds:
        yield f"{name('knowledge.schema.kinds')} is empty. Name at least one kind of facts."
