"""Models behind an address: `[models.NAME]` for embeddings, `[llms.NAME]` for language models."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from penstock.settings.types import Bytes, Duration, Section, Size, Unset, Whole

MODEL_NAME = r"^[a-z0-9][a-z0-9_-]{0,40}$"


def _model_url(url: str) -> str:
    if not re.fullmatch(r"(https?://[^\s/?#@]+(/[^\s?#@]*)?)?", url):
        raise ValueError("This is not an address of a model. Write it like https://host/v1, without user and query.")
    return url


def _fit_for_a_header(key: SecretStr | None) -> SecretStr | None:
    if key and not re.fullmatch(r"[!-~]+", key.get_secret_value()):
        raise ValueError(
            "This is not a key. It has only letters, digits and other characters of ASCII, without spaces."
        )
    return key


ModelUrl = Annotated[str, AfterValidator(_model_url)]
ApiKey = Annotated[SecretStr | None, Unset, AfterValidator(_fit_for_a_header)]


class ModelSettings(Section):
    """An embedding model behind an address, in a table of its own; NAME is what collections call it."""

    kind: Literal["openai"] = Field("openai", description="Its protocol: that of OpenAI's `/embeddings`.")
    url: ModelUrl = Field(
        "", examples=["https://host/v1"], description="Its address, to which `/embeddings` is added; needed."
    )
    model: str = Field(
        "", max_length=200, examples=["bge-m3"], description="The name of the model at the server; needed."
    )
    dimensions: Whole = Field(0, ge=0, le=4_000, description="How many numbers its vectors have; needed.")
    ask_dimensions: bool = Field(
        False, description="Whether requests name this number of dimensions, which not all servers accept."
    )
    key: ApiKey = Field(None, examples=["sk-123"], description="The key for it; better in the variable than in a file.")
    batch: Whole = Field(64, ge=1, le=2_048, description="Texts in one request, at most.")
    batch_characters: Whole = Field(
        100_000, ge=1, le=10_000_000, description="Characters in one request, at most; a longer text goes alone."
    )
    timeout: Duration = Field(timedelta(seconds=30), description="How long one request may take.")
    connect_timeout: Duration = Field(timedelta(seconds=5), description="How long connecting may take.")


class LlmSettings(Section):
    """A language model behind an address, in a table of its own; NAME is what Penstock calls it."""

    kind: Literal["openai", "azure"] = Field(
        "openai",
        description="Its protocol: that of OpenAI, which LiteLLM, Ollama and vLLM have, too, or that of Azure OpenAI.",
    )
    url: ModelUrl = Field(
        "",
        examples=["https://host/v1"],
        description="Its address, to which `/chat/completions` is added, and for Azure its deployment before that; needed.",
    )
    model: str = Field(
        "",
        max_length=200,
        examples=["gpt-4o"],
        description="The name of the model at the server; for Azure the deployment; needed.",
    )
    api_version: str = Field("2024-10-21", pattern=r"^[0-9A-Za-z.-]{1,40}$", description="The version of Azure's API.")
    key: ApiKey = Field(None, examples=["sk-123"], description="The key for it; better in the variable than in a file.")
    answers: Literal["schema", "json", "text"] = Field(
        "schema",
        description="How a request asks for the form of the answer: by a JSON schema, as any JSON, or by the prompt "
        "alone. Answers are checked here in any case.",
    )
    max_tokens: Whole = Field(4_096, ge=1, le=1_000_000, description="Tokens of an answer, unless a request sets it.")
    tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="The parameter for it; reasoning models need the second."
    )
    temperature: Annotated[float | None, Unset] = Field(
        0.0, ge=0, le=2, description="The temperature, unless a request sets it; not set leaves it to the server."
    )
    timeout: Duration = Field(
        timedelta(minutes=2), description="How long one call may take, from its first byte to its last."
    )
    connect_timeout: Duration = Field(timedelta(seconds=5), description="How long connecting may take.")
    answer_bytes: Size = Field(Bytes(4 * 2**20), ge=2**10, le=8 * 2**20, description="Bytes of one answer, at most.")
    permits: Whole = Field(8, ge=1, le=10_000, description="Calls that the whole fleet may have under way at once.")
    retries: Whole = Field(
        10, ge=0, le=100, description="How often a request is tried again after a failure that may pass."
    )
    waiting: Whole = Field(
        10_000,
        ge=1,
        le=100_000_000,
        description="Requests of one fairness key that may wait; more are refused.",
    )
    price_in: float = Field(0.0, ge=0, le=1e6, description="Price of a million tokens of prompts, in your currency.")
    price_out: float = Field(0.0, ge=0, le=1e6, description="Price of a million tokens of answers.")


def incomplete_llms(llms: Mapping[str, LlmSettings], name: Callable[[str], str]) -> Iterator[str]:
    """Report language models of the settings that cannot be used."""
    for key, chosen in llms.items():
        if not re.fullmatch(MODEL_NAME, key):
            yield f"llms.{key} cannot be set: the name of a language model has up to 41 characters of a-z, 0-9, _ and -."
        for part in ("url", "model"):
            if not getattr(chosen, part):
                yield f"{name(f'llms.{key}.{part}')} is not set. The language model {key} cannot be used without it."
