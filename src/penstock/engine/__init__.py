"""Durable jobs in PostgreSQL. Knows nothing of documents."""

from penstock.engine.context import Context
from penstock.engine.fanout import Gap
from penstock.engine.job import JobId
from penstock.engine.kinds import Call, Kind
from penstock.engine.runtime import Penstock

__all__ = ["Call", "Context", "Gap", "JobId", "Kind", "Penstock"]
