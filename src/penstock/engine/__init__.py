"""Durable jobs in PostgreSQL. Knows nothing of documents."""

from penstock.engine.executor import Context
from penstock.engine.job import JobId
from penstock.engine.kinds import Call, Kind
from penstock.engine.runtime import Penstock

__all__ = ["Call", "Context", "JobId", "Kind", "Penstock"]
