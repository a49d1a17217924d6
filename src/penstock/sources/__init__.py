"""Where documents come from by themselves: other databases, folders, buckets, brokers. All of them write into the one inbox."""

from penstock.sources.source import Asked, Desk, Fate, Source, Trouble
from penstock.sources.sources import Sources

__all__ = ["Asked", "Desk", "Fate", "Source", "Sources", "Trouble"]
