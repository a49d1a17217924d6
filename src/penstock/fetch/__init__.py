"""The one fetcher for URLs that come from people or documents; nothing else in Penstock may follow such a URL."""

from penstock.fetch.fetcher import Fetcher

__all__ = ["Fetcher"]
