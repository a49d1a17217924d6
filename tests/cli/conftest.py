"""The application, for tests that run commands and workers."""

from tests.application import application

__all__ = ["application"]
