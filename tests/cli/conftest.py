"""The yard, for tests that run commands and workers."""

from tests.yard import yard

__all__ = ["yard"]
