"""The settings: read from arguments, variables and files, validated as one frozen `Settings`."""

from penstock.settings.loader import check_arguments, describe, load_settings
from penstock.settings.memos import MemoSettings
from penstock.settings.models import LlmSettings, ModelSettings
from penstock.settings.settings import (
    ApiSettings,
    CollectionSettings,
    LogSettings,
    PoolSettings,
    PostgresSettings,
    Rate,
    RateSettings,
    Settings,
    parse_rate,
)
from penstock.settings.sources import BusSettings, SourceSettings
from penstock.settings.storage import QdrantSettings, parse_options
from penstock.settings.types import (
    Bytes,
    DatabaseUrl,
    Section,
    format_duration,
    format_size,
    mask_credentials,
    parse_duration,
)
from penstock.settings.web import CrawlSettings, FetchSettings
