"""The async client, and the source of the sync one: `python -m tests.client.unasync` writes `_sync` from here."""

from penstock.client._async.client import AsyncClient as AsyncClient
