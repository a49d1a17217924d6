"""Ingestion from other systems: `[sources.NAME]`, `[packet]`, and the `[bus]` that wakes workers."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator

from penstock.settings.types import Bytes, Duration, Folder, Section, Size, Unset, Whole

SOURCE_NAME = r"^[a-z0-9][a-z0-9_-]{0,40}$"
Word = Annotated[str | None, Unset]
Secret = Annotated[SecretStr | None, Unset]

# What a source cannot be without, by its type.
NEEDED = {
    "table": ("url", "table", "id"),
    "folder": ("folder",),
    "bucket": ("url",),
    "webhook": ("secret",),
    "rabbitmq": ("url", "queue"),
    "servicebus": ("url", "queue"),
}


class SourceSettings(Section):
    """A system that documents are ingested from, in a table of its own; NAME is its name."""

    type: Literal["table", "folder", "bucket", "webhook", "rabbitmq", "servicebus"] = Field(
        "folder", description="The type of system."
    )
    makes: Literal["document", "packet", "memo"] = Field(
        "document", description="What a message becomes; memo: a message of a conversation, of which memos are made."
    )
    collection: str = Field("inbox", description="The target collection; created if missing.")
    tenant: str = Field(
        "default", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="The tenant that owns its documents."
    )
    on_change: Literal["version", "error"] = Field(
        "version",
        description="A message with the id of an earlier one and other content: a new version, or refused.",
    )
    replace: bool = Field(
        False,
        description="Whether a message may replace a document of the same name that another message brought; files of folders "
        "and buckets always do.",
    )
    url: Secret = Field(
        None,
        examples=["postgresql://reader@host/erp"],
        description="Its address: `postgresql://`, `mysql://` or `mssql://` for a table, `s3://`, `az://` or `gs://` for a "
        "bucket, `amqp://` for RabbitMQ, the connection string for Service Bus.",
    )
    endpoint: Word = Field(None, description="Address of the bucket's server when it is not the cloud's own.")
    options: Secret = Field(None, description="Credentials of the bucket, as `name=value` with spaces between.")
    poll_every: Duration = Field(timedelta(seconds=5), description="How often it is polled while nothing comes.")
    batch: Whole = Field(500, ge=1, le=10_000, description="Messages that are taken in one transaction, at most.")
    waiting: Whole = Field(
        100_000, ge=1, le=100_000_000, description="Messages that may wait in the inbox; beyond that it is not polled."
    )
    largest: Size = Field(
        Bytes(16 * 2**20), ge=1, le=2**28, description="Bytes of one message, at most; a larger one is refused."
    )
    # A table of another database.
    table: Word = Field(None, description="The table or view, with its schema if it has one.")
    columns: str = Field("*", description="Its columns that are read, with commas between.")
    id: Word = Field(None, description="The column with the id of a row, which becomes the id of the message.")
    order_by: Word = Field(
        None, description="The column by which new rows are found, a number or a time; not set means `id`."
    )
    overlap: Whole = Field(
        1_000, ge=0, le=1_000_000, description="Ids that are read again: rows may be committed out of order."
    )
    overlap_time: Duration = Field(timedelta(minutes=10), description="The same for a column of times.")
    sweep_every: Duration = Field(
        timedelta(minutes=10), description="How often the whole table is compared with the inbox."
    )
    json_columns: str = Field("", description="Columns of text that hold JSON, with commas between.")
    mark_status: Word = Field(None, description="A column for the write-back of the status: `ready` or `failed`.")
    mark_error: Word = Field(None, description="A column for the write-back of the error.")
    # A folder.
    folder: Annotated[Folder | None, Unset] = Field(None, description="The folder that is watched, with all below it.")
    pattern: str = Field("*", description="Names of files that are taken.")
    settle: Duration = Field(timedelta(seconds=2), description="A file is taken when it has not changed for this long.")
    afterwards: Literal["leave", "move"] = Field(
        "leave", description="What becomes of a file: it stays, or moves to `done` or `failed` in its folder."
    )
    # A webhook.
    secret: Secret = Field(None, description="The secret that signs its messages.")
    window: Duration = Field(timedelta(minutes=5), description="How old a signature may be.")
    # A queue of a broker.
    queue: Word = Field(None, description="The broker's queue.")
    dead_letters: Word = Field(
        None, description="The exchange for messages that cannot be used; not set means `NAME.dead`."
    )
    prefetch: Whole = Field(500, ge=1, le=10_000, description="Messages that the broker sends ahead, at most.")
    # Paths of the fields in a message; a dot goes one level down.
    message_id_from: str = Field("id", description="Its id, where the sender gives none outside of the body.")
    name_from: str = Field("name", description="The name of the document or packet; without one it is the id.")
    documents_from: str = Field("documents", description="The list of documents of a packet.")
    file_name_from: str = Field("name", description="In a document of that list: its name.")
    url_from: str = Field("url", description="In a document: a URL to fetch it from.")
    blob_from: str = Field("blob", description="In a document: its key in `blobs_url`.")
    content_from: str = Field("content", description="In a document: its bytes as base64.")
    metadata_from: str = Field("metadata", description="An object with its metadata.")
    blobs_url: Word = Field(None, description="The bucket in which the keys of `blob_from` are.")
    blobs_endpoint: Word = Field(None, description="Address of that bucket's server.")
    blobs_options: Secret = Field(None, description="Credentials of that bucket.")

    @field_validator("table", "id", "order_by", "mark_status", "mark_error")
    @classmethod
    def _a_name(cls, name: str | None) -> str | None:
        if name and not re.fullmatch(r"[^\W\d][\w$ ]*(\.[^\W\d][\w$ ]*){0,2}", name):
            raise ValueError("This is not the name of a table or column. Write it without quotes, as in public.orders.")
        return name

    @field_validator("columns", "json_columns")
    @classmethod
    def _names(cls, names: str) -> str:
        if names.strip() not in {"", "*"} and not all(
            re.fullmatch(r"\s*[^\W\d][\w$ ]*", name) for name in names.split(",")
        ):
            raise ValueError("These are not names of columns. Write them like id, name, payload.")
        return names

    @field_validator("blobs_url")
    @classmethod
    def _a_bucket(cls, url: str | None) -> str | None:
        if url and not re.match(r"(s3|az|gs|file)://", url):
            raise ValueError(
                "This is not a bucket. Write s3://bucket/prefix, az://container/prefix or gs://bucket/prefix."
            )
        return url

    @property
    def replaces(self) -> bool:
        """Whether the next file of a name replaces the last."""
        return self.replace or self.type in {"folder", "bucket"}

    @property
    def tells(self) -> bool:
        """Whether the status of messages is written back to the source."""
        return bool(self.mark_status or self.mark_error) or self.afterwards == "move"

    def column_names(self, which: str) -> list[str]:
        """The columns of `columns` or `json_columns` as a list; empty for all of them."""
        text: str = getattr(self, which)
        return [] if text.strip() == "*" else [name.strip() for name in text.split(",") if name.strip()]


class PacketSettings(Section):
    """Documents that belong together."""

    documents: Whole = Field(200, ge=1, le=10_000, description="Documents of one packet, at most.")
    require_all: bool = Field(
        False,
        description="Whether a packet fails when one of its documents is missing or unreadable; else that document is skipped.",
    )
    fetch_at_once: Whole = Field(
        4, ge=1, le=100, description="Documents of a packet that are fetched at the same time."
    )
    rules: Annotated[Path | None, Unset] = Field(
        None, description="A file with rules that classify the parts of a packet; not set means the built-in ones."
    )
    hook: Word = Field(
        None,
        pattern=r"^[\w.]+:\w+$",
        examples=["mycompany.parts:weigh"],
        description="A function that adjusts the classification of the parts, as `module:function`.",
    )


class BusSettings(Section):
    """A broker that notifies workers of accepted documents. The queue stays in PostgreSQL: work continues without it."""

    type: Literal["off", "rabbitmq", "servicebus"] = Field("off", description="Which one.")
    url: Secret = Field(None, description="Its address, or its connection string.")
    queue: str = Field("penstock", pattern=r"^[\w.-]{1,200}$", description="The queue for these messages.")
