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
    """A system that documents come from by themselves, in a table of its own; NAME is what it is called."""

    type: Literal["table", "folder", "bucket", "webhook", "rabbitmq", "servicebus"] = Field(
        "folder", description="What it is."
    )
    makes: Literal["document", "packet", "memo"] = Field(
        "document", description="What a message becomes; memo: a message of a conversation, of which memos are made."
    )
    collection: str = Field("inbox", description="The collection that it becomes a part of; made if it is not there.")
    tenant: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="Whose it is.")
    on_change: Literal["version", "error"] = Field(
        "version",
        description="A message with the number of an earlier one and other content: a new version, or refused.",
    )
    replace: bool = Field(
        False,
        description="Whether a message may replace a document of the same name that another message brought; files of folders "
        "and buckets always do.",
    )
    url: Secret = Field(
        None,
        examples=["postgresql://reader@host/erp"],
        description="Where it is: `postgresql://`, `mysql://` or `mssql://` for a table, `s3://`, `az://` or `gs://` for a "
        "bucket, `amqp://` for RabbitMQ, the connection string for Service Bus.",
    )
    endpoint: Word = Field(None, description="Address of the bucket's server when it is not the cloud's own.")
    options: Secret = Field(None, description="Credentials of the bucket, as `name=value` with spaces between.")
    poll_every: Duration = Field(timedelta(seconds=5), description="How often it is asked while nothing comes.")
    batch: Whole = Field(500, ge=1, le=10_000, description="Messages that are taken in one transaction, at most.")
    waiting: Whole = Field(
        100_000, ge=1, le=100_000_000, description="Messages that may wait here; beyond that it is asked no more."
    )
    largest: Size = Field(
        Bytes(16 * 2**20), ge=1, le=2**28, description="Bytes of one message, at most; a larger one is refused."
    )
    # A table of another database.
    table: Word = Field(None, description="The table or view, with its schema if it has one.")
    columns: str = Field("*", description="Its columns that are read, with commas between.")
    id: Word = Field(None, description="The column that numbers its rows, and is the message's number here.")
    order_by: Word = Field(
        None, description="The column by which new rows are found, a number or a time; not set means `id`."
    )
    overlap: Whole = Field(
        1_000, ge=0, le=1_000_000, description="Numbers that are looked at again: rows may be committed out of order."
    )
    overlap_time: Duration = Field(timedelta(minutes=10), description="The same for a column of times.")
    sweep_every: Duration = Field(
        timedelta(minutes=10), description="How often the whole table is compared with the inbox."
    )
    json_columns: str = Field("", description="Columns of text that hold JSON, with commas between.")
    mark_status: Word = Field(None, description="A column that is told what became of the row: `ready` or `failed`.")
    mark_error: Word = Field(None, description="A column that is told why it failed.")
    # A folder.
    folder: Annotated[Folder | None, Unset] = Field(None, description="The folder that is watched, with all below it.")
    pattern: str = Field("*", description="Names of files that are taken.")
    settle: Duration = Field(timedelta(seconds=2), description="A file is taken when it has not changed for this long.")
    afterwards: Literal["leave", "move"] = Field(
        "leave", description="What becomes of a file: it stays, or moves to `done` or `failed` in its folder."
    )
    # A webhook.
    secret: Secret = Field(None, description="What its messages are signed with.")
    window: Duration = Field(timedelta(minutes=5), description="How old a signature may be.")
    # A queue of a broker.
    queue: Word = Field(None, description="The broker's queue.")
    dead_letters: Word = Field(None, description="The exchange for what cannot be used; not set means `NAME.dead`.")
    prefetch: Whole = Field(500, ge=1, le=10_000, description="Messages that the broker sends ahead, at most.")
    # What is where in a message; a dot goes one level down.
    message_id_from: str = Field("id", description="Its number, where the sender gives none beside it.")
    name_from: str = Field("name", description="The name of the document or packet; if it has none, its number is it.")
    documents_from: str = Field("documents", description="The list of documents of a packet.")
    file_name_from: str = Field("name", description="In a document of that list: its name.")
    url_from: str = Field("url", description="In a document: a URL to fetch it from.")
    blob_from: str = Field("blob", description="In a document: its key in `blobs_url`.")
    content_from: str = Field("content", description="In a document: its bytes as base64.")
    metadata_from: str = Field("metadata", description="An object with what else is known of it.")
    blobs_url: Word = Field(None, description="The bucket in which the keys of `blob_from` are.")
    blobs_endpoint: Word = Field(None, description="Address of that bucket's server.")
    blobs_options: Secret = Field(None, description="Credentials of that bucket.")

    @field_validator("table", "id", "order_by", "mark_status", "mark_error")
    @classmethod
    def _a_name(cls, name: str | None) -> str | None:
        if name and not re.fullmatch(r"[^\W\d][\w$ ]*(\.[^\W\d][\w$ ]*){0,2}", name):
            raise ValueError("This is no name of a table or column. Write it without quotes, as in public.orders.")
        return name

    @field_validator("columns", "json_columns")
    @classmethod
    def _names(cls, names: str) -> str:
        if names.strip() not in {"", "*"} and not all(
            re.fullmatch(r"\s*[^\W\d][\w$ ]*", name) for name in names.split(",")
        ):
            raise ValueError("These are no names of columns. Write them like id, name, payload.")
        return names

    @field_validator("blobs_url")
    @classmethod
    def _a_bucket(cls, url: str | None) -> str | None:
        if url and not re.match(r"(s3|az|gs|file)://", url):
            raise ValueError(
                "This is no bucket. Write s3://bucket/prefix, az://container/prefix or gs://bucket/prefix."
            )
        return url

    @property
    def replaces(self) -> bool:
        """Whether the next file of a name takes the place of the last."""
        return self.replace or self.type in {"folder", "bucket"}

    @property
    def tells(self) -> bool:
        """Whether the source wants to hear what became of its messages."""
        return bool(self.mark_status or self.mark_error) or self.afterwards == "move"

    def column_names(self, which: str) -> list[str]:
        """The columns of `columns` or `json_columns` one by one; none for all of them."""
        text: str = getattr(self, which)
        return [] if text.strip() == "*" else [name.strip() for name in text.split(",") if name.strip()]


class PacketSettings(Section):
    """Documents that belong together."""

    documents: Whole = Field(200, ge=1, le=10_000, description="Documents of one packet, at most.")
    require_all: bool = Field(
        False, description="Whether a packet fails when one of its documents cannot be had or read; else it has a gap."
    )
    fetch_at_once: Whole = Field(
        4, ge=1, le=100, description="Documents of a packet that are fetched at the same time."
    )
    rules: Annotated[Path | None, Unset] = Field(
        None, description="A file with rules that tell the parts of a packet; not set means the built-in ones."
    )
    hook: Word = Field(
        None,
        pattern=r"^[\w.]+:\w+$",
        examples=["mycompany.parts:weigh"],
        description="A function that weighs in on the parts, as `module:function`.",
    )


class BusSettings(Section):
    """A broker that tells workers about accepted documents. The queue in PostgreSQL stays the truth: without it all goes on."""

    type: Literal["off", "rabbitmq", "servicebus"] = Field("off", description="Which one.")
    url: Secret = Field(None, description="Its address, or its connection string.")
    queue: str = Field("penstock", pattern=r"^[\w.-]{1,200}$", description="The queue for these messages.")
