"""The fetcher for URLs that clients or documents name; no other code of Penstock may follow such a URL."""

from penstock.fetch.fetcher import Fetcher
