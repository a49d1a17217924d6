"""`[memos]`: the models that make them, how much of a conversation is read at a time, and what is kept."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, field_validator

from penstock.settings.models import MODEL_NAME
from penstock.settings.types import Duration, Section, Unset, Whole

# Those that PostgreSQL knows the word endings of; simple ignores none.
Language = Literal[
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip


class MemoSettings(Section):
    """Memos: what is kept of conversations."""

    llm: Annotated[str | None, Unset] = Field(
        None, pattern=MODEL_NAME, description="The language model that writes them; not set means the only one."
    )
    model: str = Field(
        "static", pattern=MODEL_NAME, description="The embedding model by which memos that are alike are found."
    )
    language: Language = Field(
        "english",
        description="The language that memos are written in, whose word endings their search ignores; simple leaves it to the "
        "conversation.",
    )
    kinds: str = Field(
        "fact, preference, decision, task",
        max_length=500,
        description="What a memo can be, with commas between.",
    )
    batch: Whole = Field(50, ge=1, le=1_000, description="Messages of a stream that are read at a time, at most.")
    characters: Whole = Field(
        40_000, ge=1_000, le=100_000, description="Characters of them, at most; a longer message is read alone."
    )
    at_once: Whole = Field(
        4, ge=1, le=100, description="Batches that a worker handles at once; those that wait for a model do not count."
    )
    check_every: Duration = Field(
        timedelta(seconds=30), gt=timedelta(0), description="How often new messages are polled."
    )
    waiting: Whole = Field(
        10_000,
        ge=1,
        le=100_000_000,
        description="Messages of one stream that may wait; more are refused with the time to retry.",
    )
    confidence: float = Field(0.5, ge=0, le=1, description="How sure the model must be of a memo for it to be kept.")
    alike: float = Field(
        0.3,
        ge=0,
        le=1,
        description="The cosine of two memos from which the model decides whether they agree or contradict each other.",
    )

    @field_validator("kinds")
    @classmethod
    def _words(cls, kinds: str) -> str:
        if not all(re.fullmatch(r"\s*[\w-]{1,50}( [\w-]{1,50})*\s*", kind) for kind in kinds.split(",")):
            raise ValueError("These are not kinds of memos. Write them like fact, preference, decision.")
        return kinds

    def kind_names(self) -> list[str]:
        """The kinds as a list, in their order."""
        return list(dict.fromkeys(kind.strip() for kind in self.kinds.split(",")))
