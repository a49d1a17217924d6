"""What a person can choose: read from arguments, variables and files, validated as one frozen `Settings`."""

from penstock.settings.model import LogSettings, PoolSettings, PostgresSettings, Settings
from penstock.settings.page import describe, settings_page
from penstock.settings.sources import load_settings
from penstock.settings.values import DatabaseUrl, mask_credentials

__all__ = [
    "DatabaseUrl",
    "LogSettings",
    "PoolSettings",
    "PostgresSettings",
    "Settings",
    "describe",
    "load_settings",
    "mask_credentials",
    "settings_page",
]
