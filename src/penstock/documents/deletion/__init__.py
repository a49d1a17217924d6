"""Deletion: hiding documents at once, purging what they leave behind, receipts of that, and restoring."""

from penstock.documents.deletion.delete import delete_page, restorable_until
from penstock.documents.deletion.purge import (
    POINTS_QUEUE,
    call_qdrant_remover,
    forget_qdrant_removals,
    list_qdrant_removals,
)
