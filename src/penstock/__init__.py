"""Durable document processing on PostgreSQL."""

__version__ = "0.1.0"
