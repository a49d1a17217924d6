"""What is outside of this machine: buckets, URLs that people give, models behind an address."""

import re
from datetime import timedelta
from ipaddress import ip_network
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator

from penstock.settings.section import Section
from penstock.settings.values import Duration, Folder, Unset, Whole

MODEL_NAME = r"^[a-z0-9][a-z0-9_-]{0,40}$"


class BlobSettings(Section):
    """Where the bytes of documents are kept."""

    folder: Annotated[Folder | None, Unset] = Field(
        None, description="Folder for them, shared by all processes; not set means `blobs` in the home folder."
    )
    url: Annotated[str | None, Unset] = Field(
        None,
        description="A bucket in place of the folder: `s3://bucket/prefix`, `az://container/prefix`, `gs://bucket/prefix`.",
    )
    endpoint: Annotated[str | None, Unset] = Field(
        None, description="Address of the bucket's server when it is not the cloud's own, as with MinIO."
    )
    options: Annotated[SecretStr | None, Unset] = Field(
        None,
        description="Credentials and options of the bucket, as `name=value` with spaces between; not set means those of the "
        "cloud's own variables.",
    )
    collect_after: Duration = Field(
        timedelta(days=1), description="How long bytes that belong to no document are kept before they are removed."
    )

    @field_validator("url")
    @classmethod
    def _a_bucket(cls, url: str | None) -> str | None:
        if url and not re.fullmatch(r"(s3|az|gs)://[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._/-]*)?", url):
            raise ValueError(
                "This is no bucket. Write s3://bucket/prefix, az://container/prefix or gs://bucket/prefix."
            )
        return url

    @field_validator("endpoint")
    @classmethod
    def _an_address(cls, endpoint: str | None) -> str | None:
        if endpoint and not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", endpoint):
            raise ValueError("This is no address. Write it like https://minio.example.org:9000, without a password.")
        return endpoint

    @field_validator("options")
    @classmethod
    def _name_value_pairs(cls, options: SecretStr | None) -> SecretStr | None:
        if options and not all("=" in pair for pair in options.get_secret_value().split()):
            raise ValueError("This has a part without =. Write name=value, with spaces between.")
        return options


def parse_options(options: SecretStr | None) -> dict[str, str]:
    """The options of a bucket by name; secrets are among them."""
    pairs = options.get_secret_value().split() if options else []
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _joined(value: object) -> object:
    """A list, as TOML writes it, becomes the text that a variable would have."""
    items = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    return ", ".join(str(item) for item in items) if isinstance(items, list | tuple) else value


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _port_list(text: str) -> str:
    items = _items(text)
    if not items or not all(item.isdecimal() and 1 <= int(item) <= 65535 for item in items):
        raise ValueError(f"{text!r} is not a list of ports. Write it like 80, 443.")
    return ", ".join(items)


def _host_list(text: str) -> str:
    for item in _items(text):
        try:
            if not re.fullmatch(r"(?=.*[A-Za-z])[A-Za-z0-9_][A-Za-z0-9_.-]*", item):
                ip_network(item)
        except ValueError:
            raise ValueError(
                f"{item!r} is neither a host nor a network. Write it like intranet.example.org, 10.1.0.0/16."
            ) from None
    return ", ".join(_items(text))


class FetchSettings(Section):
    """What may be fetched when a person or a document gives a URL."""

    ports: Annotated[str, BeforeValidator(_joined), AfterValidator(_port_list)] = Field(
        "80, 443", description="Ports that a URL may name."
    )
    private: Annotated[Annotated[str, AfterValidator(_host_list)] | None, Unset, BeforeValidator(_joined)] = Field(
        None,
        description="Hosts and networks that may be fetched from although they are not public, "
        "such as intranet.example.org, 10.1.0.0/16. Whoever may add a document can then read what is there.",
    )
    redirects: Whole = Field(5, ge=0, le=20, description="How many redirects are followed.")
    connect_timeout: Duration = Field(
        timedelta(seconds=10), description="How long finding a host and, for each address, connecting may take."
    )
    idle_timeout: Duration = Field(timedelta(seconds=30), description="How long a server may send nothing.")
    timeout: Duration = Field(timedelta(minutes=10), description="How long fetching one URL may take.")

    @property
    def port_numbers(self) -> frozenset[int]:
        """The ports as numbers."""
        return frozenset(map(int, _items(self.ports)))

    @property
    def private_entries(self) -> list[str]:
        """The hosts and networks one by one."""
        return _items(self.private or "")


class ModelSettings(Section):
    """An embedding model behind an address, in a table of its own; NAME is what collections call it."""

    kind: Literal["openai"] = Field("openai", description="How it is spoken to: like OpenAI's `/embeddings`.")
    url: str = Field(
        "", examples=["https://host/v1"], description="Its address, to which `/embeddings` is added; needed."
    )
    model: str = Field("", max_length=200, examples=["bge-m3"], description="What the server calls it; needed.")
    dimensions: Whole = Field(0, ge=0, le=4_000, description="How many numbers its vectors have; needed.")
    ask_dimensions: bool = Field(
        False, description="Whether the server is asked for so many, which not all understand."
    )
    key: Annotated[SecretStr | None, Unset] = Field(
        None, examples=["sk-123"], description="The key for it; better in the variable than in a file."
    )
    batch: Whole = Field(64, ge=1, le=2_048, description="Texts in one request, at most.")
    batch_characters: Whole = Field(
        100_000, ge=1, le=10_000_000, description="Characters in one request, at most; a longer text goes alone."
    )
    timeout: Duration = Field(timedelta(seconds=30), description="How long one request may take.")
    connect_timeout: Duration = Field(timedelta(seconds=5), description="How long connecting may take.")

    @field_validator("url")
    @classmethod
    def _an_endpoint(cls, url: str) -> str:
        if not re.fullmatch(r"(https?://[^\s/?#@]+(/[^\s?#@]*)?)?", url):
            raise ValueError("This is no address of a model. Write it like https://host/v1, without user and query.")
        return url

    @field_validator("key")
    @classmethod
    def _fit_for_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        if key and not re.fullmatch(r"[!-~]+", key.get_secret_value()):
            raise ValueError("This is no key. It has only letters, digits and signs of ASCII, without spaces.")
        return key
