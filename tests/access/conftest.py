"""An application, for tests that need collections."""

from tests.documents.conftest import app

__all__ = ["app"]
