"""The yard, for tests that run commands and workers; the office and its stock, for those that look at documents."""

import pytest

from tests.documents.conftest import Office, app, office
from tests.documents.stocked import Stock
from tests.yard import yard


@pytest.fixture
def stock(office: Office) -> Stock:
    return Stock(office)


__all__ = ["app", "office", "stock", "yard"]
