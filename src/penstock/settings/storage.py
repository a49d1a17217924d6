"""Stores next to PostgreSQL: `[blobs]` for the bytes of documents, `[qdrant]` for vectors."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from penstock.settings.types import Duration, Folder, Section, Unset, Whole


class BlobSettings(Section):
    """The store for the bytes of documents."""

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
                "This is not a bucket. Write s3://bucket/prefix, az://container/prefix or gs://bucket/prefix."
            )
        return url

    @field_validator("endpoint")
    @classmethod
    def _an_address(cls, endpoint: str | None) -> str | None:
        if endpoint and not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", endpoint):
            raise ValueError(
                "This is not an address. Write it like https://minio.example.org:9000, without a password."
            )
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


class QdrantSettings(Section):
    """Another index for the vectors of collections that ask for it (`index = "qdrant"`)."""

    url: str = Field(
        "",
        examples=["http://qdrant:6333"],
        description="Its address; the default port is 6333. Not set: Qdrant is not used.",
    )
    key: Annotated[SecretStr | None, Unset] = Field(
        None, examples=["abc123"], description="The key for it; better in the variable than in a file."
    )
    prefix: str = Field(
        "penstock-",
        pattern=r"^[A-Za-z0-9_-]{1,60}$",
        description="The prefix of its collections' names. Each database of Penstock needs one of its own: vectors that "
        "it does not know are removed.",
    )
    timeout: Duration = Field(timedelta(seconds=30), description="How long one call of a job may take.")
    search_timeout: Duration = Field(
        timedelta(seconds=2), description="How long a search waits for it before PostgreSQL answers instead."
    )
    batch: Whole = Field(256, ge=1, le=10_000, description="Vectors that are upserted in one call.")
    permits: Whole = Field(8, ge=1, le=10_000, description="Jobs of the whole fleet that may call it at once.")

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        if not re.fullmatch(r"(https?://[^\s/?#@]+/?)?", url):
            raise ValueError(
                "This is not the address of a Qdrant server. Write it like http://qdrant:6333, without user and path."
            )
        return url.rstrip("/")

    @field_validator("key")
    @classmethod
    def _fit_for_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        if key and not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", key.get_secret_value()):
            raise ValueError("This is not a key. It has only letters, digits and the characters . _ ~ + / = -.")
        return key


def missing_qdrant(index: str, chosen: QdrantSettings, name: Callable[[str], str]) -> Iterator[str]:
    """Report why new collections cannot be searched there."""
    if index == "qdrant" and not chosen.url:
        yield f"{name('collections.index')} is qdrant, and {name('qdrant.url')} is not set. Set it, or leave it at postgres."
