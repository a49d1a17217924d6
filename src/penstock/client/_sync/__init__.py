# Made from ../_async/__init__.py by `python -m tests.client.unasync`: change that one.
"""The sync client."""

from penstock.client._sync.client import Client as Client
