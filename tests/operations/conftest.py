"""The application, for tests that run commands and workers; documents and their index, for those that look at them."""

import pytest

from tests.application import application
from tests.documents.conftest import DocumentQueue, app, document_queue
from tests.documents.indexed_documents import IndexedDocuments
from tests.engine.limited_role import limited_role
from tests.operations.few_connections import limited_application


@pytest.fixture
def indexed_documents(document_queue: DocumentQueue) -> IndexedDocuments:
    return IndexedDocuments(document_queue)


__all__ = ["app", "application", "document_queue", "indexed_documents", "limited_application", "limited_role"]
