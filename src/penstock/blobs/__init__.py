"""Where the bytes of documents are kept, and what removes those that belong to none."""

from penstock.blobs.collector import Collected, collect
from penstock.blobs.store import Store, Stored, open_store, probe

__all__ = ["Collected", "Store", "Stored", "collect", "open_store", "probe"]
