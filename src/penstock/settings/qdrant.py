"""Qdrant: where it is, and how it is spoken to."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from penstock.settings.section import Section
from penstock.settings.values import Duration, Unset, Whole


class QdrantSettings(Section):
    """Another index for the vectors of collections that ask for it (`index = "qdrant"`)."""

    url: str = Field(
        "",
        examples=["http://qdrant:6333"],
        description="Its address; without a port it is 6333. Empty: there is none.",
    )
    key: Annotated[SecretStr | None, Unset] = Field(
        None, examples=["abc123"], description="The key for it; better in the variable than in a file."
    )
    prefix: str = Field(
        "penstock-",
        pattern=r"^[A-Za-z0-9_-]{1,60}$",
        description="What the names of its collections begin with. Each database of Penstock needs one of its own: points that "
        "it does not know are removed.",
    )
    timeout: Duration = Field(timedelta(seconds=30), description="How long one call of a job may take.")
    search_timeout: Duration = Field(
        timedelta(seconds=2), description="How long a search waits for it before PostgreSQL answers instead."
    )
    batch: Whole = Field(256, ge=1, le=10_000, description="Points that are written in one call.")
    permits: Whole = Field(8, ge=1, le=10_000, description="Jobs of the whole fleet that may speak with it at once.")

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        if not re.fullmatch(r"(https?://[^\s/?#@]+/?)?", url):
            raise ValueError("This is no address of a Qdrant. Write it like http://qdrant:6333, without user and path.")
        return url.rstrip("/")

    @field_validator("key")
    @classmethod
    def _fit_for_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        if key and not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", key.get_secret_value()):
            raise ValueError("This is no key. It has only letters, digits and the signs . _ ~ + / = -.")
        return key


def missing_qdrant(index: str, chosen: QdrantSettings, name: Callable[[str], str]) -> Iterator[str]:
    """What keeps new collections from being searched there."""
    if index == "qdrant" and not chosen.url:
        yield f"{name('collections.index')} is qdrant, and {name('qdrant.url')} is not set. Set it, or leave it at postgres."
