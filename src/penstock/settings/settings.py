"""The root of the settings: one frozen `Settings`, its sections, and the checks across them.

A new setting is a field with a description. `penstock config` and docs/settings.md follow from it.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

from penstock.errors import BadSetting
from penstock.settings.knowledge import KnowledgeSettings, SchemaSettings, unknown_llm
from penstock.settings.memos import MemoSettings
from penstock.settings.models import MODEL_NAME, LlmSettings, ModelSettings, incomplete_llms
from penstock.settings.sources import NEEDED, SOURCE_NAME, BusSettings, PacketSettings, SourceSettings
from penstock.settings.storage import BlobSettings, QdrantSettings, missing_qdrant
from penstock.settings.types import (
    Bytes,
    DatabaseUrl,
    Duration,
    Folder,
    Memory,
    Section,
    Size,
    Unset,
    Whole,
    format_duration,
)
from penstock.settings.web import CrawlSettings, FetchSettings


def default_home() -> Path:
    """Root's home is outside /root, because the unprivileged server must reach it."""
    if os.geteuid() == 0:
        return Path("/var/lib/penstock")
    try:
        return Path.home() / ".penstock"
    except RuntimeError:
        raise BadSetting("This user has no home folder. Set PENSTOCK_HOME to a folder for Penstock.") from None


_UNITS = {"s": 1, "min": 60, "h": 3600}  # in seconds
_RATE = re.compile(r"([0-9]{1,9})\s*/\s*(s|min|h)")


@dataclass(frozen=True)
class Rate:
    """A number of requests in a number of seconds."""

    count: int
    seconds: int


def parse_rate(text: str) -> Rate | None:
    """Read `50/s`, `3000/min` or `100/h`; `off` is None: without a limit."""
    if text.strip() == "off":
        return None
    parts = _RATE.fullmatch(text.strip())
    if parts is None:
        raise ValueError(f"{text!r} is not a rate. Write it like 50/s, 3000/min or 100/h, or off for no limit.")
    if not int(parts[1]):
        raise ValueError(f"{text!r} would refuse everything. Write a rate of at least 1, or off for no limit.")
    return Rate(int(parts[1]), _UNITS[parts[2]])


def _written(text: str) -> str:
    rate = parse_rate(text)
    return re.sub(r"\s", "", text) if rate else "off"


RateText = Annotated[str, AfterValidator(_written)]


class RateSettings(Section):
    """How many requests one API process answers: `50/s`, `3000/min`, `100/h` or `off`; twice the number may come at once."""

    search: RateText = Field("100/s", description="Searches of one key, or of one address without a key.")
    read: RateText = Field("500/s", description="Other requests that only read, of one key or address.")
    write: RateText = Field("100/s", description="Requests that change something, uploads too, of one key or address.")
    per_address: RateText = Field(
        "1000/s",
        description="Requests of one address, whatever their keys; one with a wrong key counts as ten.",
    )
    searches_at_once: Whole = Field(
        default_factory=lambda _: max(2, os.cpu_count() or 1),
        json_schema_extra={"shown": "one per processor, at least 2"},
        ge=1,
        le=1_000,
        description="How many searches one API process runs at the same time; what cannot begin soon is refused.",
    )


class PostgresSettings(Section):
    """The PostgreSQL server that Penstock ships and runs itself when `database_url` is not set."""

    binaries: Annotated[Folder | None, Unset] = Field(
        None, description="Folder of another PostgreSQL installation, with initdb and postgres in its bin/."
    )
    port: Whole = Field(0, ge=0, le=65535, description="Port of the embedded server on loopback; 0 takes any free one.")
    shared_buffers: Memory = Field("128MB", description="Memory for the embedded server's page cache.")
    max_connections: Whole = Field(
        100, ge=10, le=10_000, description="How many connections the embedded server accepts."
    )
    durable: bool = Field(
        True, description="Whether a commit waits for the disk; false is for throw-away test servers only."
    )


class PoolSettings(Section):
    """The database connections of one process."""

    size: Whole = Field(8, ge=1, le=200, description="How many connections a process may have in its pool.")
    warm: Whole = Field(
        default_factory=lambda others: min(2, others["size"]),
        json_schema_extra={"shown": "2, at most `pool.size`"},
        ge=1,
        le=200,
        description="How many of them are opened before the work begins; the others come when they are needed.",
    )
    step: Whole = Field(
        default_factory=lambda others: min(4, others["size"]),
        json_schema_extra={"shown": "4, at most `pool.size`"},
        ge=1,
        le=200,
        description="How many of them are opened at the same time while starting.",
    )
    call_timeout: Duration = Field(
        timedelta(seconds=30), description="How long a statement may take before its connection is closed."
    )
    connect_timeout: Duration = Field(timedelta(seconds=5), description="How long opening a connection may take.")
    acquire_timeout: Duration = Field(timedelta(seconds=30), description="How long to wait for a free connection.")
    hold_warning: Duration = Field(
        timedelta(milliseconds=250),
        description="A transaction that keeps its connection idle this long is logged with the place that took it.",
    )
    hold_limit: Annotated[Duration | None, Unset] = Field(
        None, description="A transaction that keeps its connection idle this long fails; not set means never."
    )


class EngineSettings(Section):
    """How long the engine keeps what is over."""

    history_kept: Duration = Field(
        timedelta(days=14), description="How long finished jobs and their results are kept; whole days are dropped."
    )
    checkpoints_kept: Duration = Field(
        timedelta(days=7),
        description="How long the steps of a scope are kept for a later job, when no job uses them.",
    )
    retire_after: Duration = Field(
        timedelta(hours=1), description="A schedule that no worker has declared for this long is retired."
    )


class LimitSettings(Section):
    """The limits of a document; anything larger is refused with a reason."""

    bytes: Size = Field(Bytes(2 * 2**30), ge=1, le=2**50, description="Bytes of one document.")
    pages: Whole = Field(5_000, ge=1, le=1_000_000, description="Pages of one document.")
    pixels: Whole = Field(
        100_000_000,
        ge=1,
        le=10_000_000_000,
        description="Pixels of one image, or of one page as it is rendered for the OCR.",
    )
    characters: Whole = Field(50_000_000, ge=1, le=1_000_000_000, description="Characters of text in one document.")
    members: Whole = Field(1_000, ge=0, le=100_000, description="Attachments of a mail, or files in an archive.")
    documents: Whole = Field(
        10_000,
        ge=1,
        le=100_000_000,
        description="Documents that one archive may become, with nested archives and attachments.",
    )
    depth: Whole = Field(3, ge=0, le=20, description="Archives inside archives, mails inside mails.")
    expansion: Whole = Field(
        200, ge=2, le=100_000, description="How many times larger than itself an archive may become."
    )
    waiting: Whole = Field(
        100_000, ge=1, le=100_000_000, description="Documents of one collection that may wait for a worker."
    )


class ExtractionSettings(Section):
    """The sandbox processes in which documents are read."""

    children: Whole = Field(
        default_factory=lambda _: os.cpu_count() or 1,
        json_schema_extra={"shown": "one per processor"},
        ge=1,
        le=256,
        description="How many documents or pages one worker reads at the same time, each in a sandbox process of its own.",
    )
    memory: Size = Field(Bytes(2**30), ge=2**27, le=2**42, description="Memory of a sandbox process, at most.")
    timeout: Duration = Field(timedelta(seconds=20), description="How long reading one document or one page may take.")
    recycle_after: Whole = Field(
        1_000, ge=1, le=1_000_000, description="Documents after which a sandbox process is replaced by a new one."
    )
    ocr: Literal["auto", "rapidocr", "tesseract", "off"] = Field(
        "auto", description="The OCR engine: auto takes Tesseract where it is installed, else RapidOCR."
    )


class DocumentSettings(Section):
    """Deleted documents."""

    restore_within: Annotated[Duration | None, Unset] = Field(
        timedelta(days=7),
        description="How long a deleted document or collection can be restored before it is removed; empty removes it at once.",
    )


class CollectionSettings(Section):
    """The defaults of a new collection."""

    model: str = Field("static", pattern=MODEL_NAME, description="The model of its embeddings.")
    chunk_size: Whole = Field(1_000, ge=100, le=20_000, description="Characters of a chunk, at most.")
    chunk_overlap: Whole = Field(
        100, ge=0, le=10_000, description="Characters that a chunk shares with the one before."
    )
    ocr_language: str = Field("en", pattern=r"^[a-z_]{2,20}$", description="The language of its scans.")
    search_language: str = Field(
        "english", pattern=r"^[a-z]{2,20}$", description="The language whose word endings search ignores."
    )
    index: Literal["postgres", "qdrant"] = Field("postgres", description="The index in which its vectors are searched.")


class SearchSettings(Section):
    """Vector search."""

    exact_up_to: Whole = Field(
        20_000,
        ge=0,
        le=1_000_000_000,
        description="Collections with more chunks than this get an index for their vectors.",
    )


class ApiSettings(Section):
    """The HTTP API and the dashboard."""

    host: str = Field("127.0.0.1", pattern=r"^[\w.:%-]+$", description="Address to listen on.")
    port: Whole = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    require_key: bool = Field(
        False, description="Whether a key is needed on loopback, too; on any other address one is always needed."
    )
    stale_after: Duration = Field(
        timedelta(minutes=10),
        gt=timedelta(0),
        description="How long a ready job may wait for a live worker that serves it before /health/ready reports it.",
    )


class LogSettings(Section):
    """The log, which is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least severe level to log.")
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="Lines of JSON, text for a person, or auto: text on a terminal and JSON elsewhere."
    )


class Settings(Section):
    """All settings."""

    home: Folder = Field(
        default_factory=default_home,
        json_schema_extra={"shown": "`~/.penstock`, as root `/var/lib/penstock`"},
        description="Folder for everything that Penstock keeps on this machine.",
    )
    database_url: Annotated[DatabaseUrl | None, Unset] = Field(
        None, description="The PostgreSQL database to use; not set means the embedded server."
    )
    tenant: str = Field(
        "default",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="The tenant whose documents the commands use. Requests belong to the tenant of their key.",
    )
    database_direct_url: Annotated[DatabaseUrl | None, Unset] = Field(
        None, description="The same database without pgbouncer in between, for notifications and locks."
    )
    database_owner_url: Annotated[DatabaseUrl | None, Unset] = Field(
        None, description="The same database as a role that may change the schema, for migrations."
    )
    postgres: PostgresSettings = PostgresSettings()
    pool: PoolSettings = PoolSettings()
    engine: EngineSettings = EngineSettings()
    limits: LimitSettings = LimitSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    blobs: BlobSettings = BlobSettings()
    documents: DocumentSettings = DocumentSettings()
    collections: CollectionSettings = CollectionSettings()
    search: SearchSettings = SearchSettings()
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    llms: dict[str, LlmSettings] = Field(default_factory=dict)
    knowledge: KnowledgeSettings = KnowledgeSettings()
    sources: dict[str, SourceSettings] = Field(default_factory=dict)
    qdrant: QdrantSettings = QdrantSettings()
    packet: PacketSettings = PacketSettings()
    memos: MemoSettings = MemoSettings()
    bus: BusSettings = BusSettings()
    fetch: FetchSettings = FetchSettings()
    crawl: CrawlSettings = CrawlSettings()
    api: ApiSettings = ApiSettings()
    rates: RateSettings = RateSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        names: dict[str, str] = (info.context or {}).get("names", {})
        if conflicts := list(_conflicts(self, lambda key: names.get(key, key))):
            raise ValueError("\n".join(conflicts))
        return self


def _conflicts(settings: Settings, name: Callable[[str], str]) -> Iterator[str]:
    pool, postgres, embedded = settings.pool, settings.postgres, settings.database_url is None
    for key in ("database_direct_url", "database_owner_url"):
        if embedded and getattr(settings, key) is not None:
            yield f"{name(key)} needs database_url, which is not set. Set database_url too, or remove {key}."
    if pool.warm > pool.size:
        yield f"{name('pool.warm')} is {pool.warm}, more than {name('pool.size')} ({pool.size}). Lower pool.warm."
    if pool.step > pool.size:
        yield f"{name('pool.step')} is {pool.step}, but {name('pool.size')} is {pool.size}. Lower pool.step."
    if pool.hold_limit is not None and pool.hold_limit < pool.hold_warning:
        yield (
            f"{name('pool.hold_limit')} is {format_duration(pool.hold_limit)}, but {name('pool.hold_warning')} "
            f"is {format_duration(pool.hold_warning)}. Raise pool.hold_limit or lower pool.hold_warning."
        )
    if (
        embedded and pool.size + 5 > postgres.max_connections
    ):  # heartbeats, locks, LISTEN, migrations and psql need some
        yield (
            f"{name('pool.size')} is {pool.size}, but {name('postgres.max_connections')} "
            f"is {postgres.max_connections}, of which 5 stay free. Lower pool.size or raise postgres.max_connections."
        )
    if 2 * settings.collections.chunk_overlap > settings.collections.chunk_size:
        yield (
            f"{name('collections.chunk_overlap')} is {settings.collections.chunk_overlap}, more than half of "
            f"{name('collections.chunk_size')} ({settings.collections.chunk_size}). Lower collections.chunk_overlap."
        )
    for key, chosen in settings.models.items():
        if key in ("static", "minilm") or not re.fullmatch(MODEL_NAME, key):
            yield f"models.{key} cannot be set: the name belongs to Penstock, or has other characters than a-z, 0-9, _ and -."
        for part in ("url", "model", "dimensions"):
            if not getattr(chosen, part):
                yield f"{name(f'models.{key}.{part}')} is not set. The model {key} cannot be used without it."
    yield from incomplete_llms(settings.llms, name)
    yield from unknown_llm(settings.knowledge, settings.llms, name)
    yield from missing_qdrant(settings.collections.index, settings.qdrant, name)
    yield from _incomplete_sources(settings, name)
    if embedded and settings.api.port == postgres.port != 0:
        yield f"{name('api.port')} and {name('postgres.port')} are both {postgres.port}. Change one of them."


def _incomplete_sources(settings: Settings, name: Callable[[str], str]) -> Iterator[str]:
    for key, source in settings.sources.items():
        if not re.fullmatch(SOURCE_NAME, key):
            yield f"sources.{key} cannot be set: the name of a source has up to 41 characters of a-z, 0-9, _ and -."
        for part in NEEDED[source.type]:
            if not getattr(source, part):
                yield f"{name(f'sources.{key}.{part}')} is not set. A {source.type} cannot be used without it."
        if source.makes == "memo" and (source.type in {"folder", "bucket"} or source.tells):
            yield (
                f"{name(f'sources.{key}.makes')} is memo, which no file can become, and which has no write-back. Use "
                "another type, without mark_status and mark_error, or make documents."
            )
    if settings.bus.type != "off" and not settings.bus.url:
        yield f"{name('bus.url')} is not set. Set it, or bus.type to off."


# By their dotted keys, in their order.
SECTIONS = {
    name: kind
    for name, info in Settings.model_fields.items()
    if isinstance(kind := info.annotation, type) and issubclass(kind, Section)
}
SECTIONS["knowledge.schema"] = SchemaSettings  # the one section in a section
# Sections in a section, under names that people choose.
TABLES: dict[str, type[Section]] = {"models": ModelSettings, "llms": LlmSettings, "sources": SourceSettings}
FIELDS = {name: info for name, info in Settings.model_fields.items() if name not in {*SECTIONS, *TABLES}} | {
    f"{key}.{name}": info
    for key, section in SECTIONS.items()
    for name, info in section.model_fields.items()
    if info.annotation not in SECTIONS.values()
}


def find_field(key: str) -> FieldInfo | None:
    """The field of a dotted key, also of one in a table with a chosen name."""
    table, _, rest = key.partition(".")
    name, _, part = rest.partition(".")
    if table in TABLES:
        return TABLES[table].model_fields.get(part) if re.fullmatch(MODEL_NAME, name) else None
    return FIELDS.get(key)
