"""Documents: what was accepted, where its bytes are, what became of it."""

from penstock.documents.catalog import (
    STATES,
    ChunkText,
    Document,
    Event,
    PageText,
    counts,
    find_document,
    history,
    list_chunks,
    list_documents,
    list_pages,
    read_text,
    show_document,
    show_documents,
)
from penstock.documents.changes import Announcer, Watch, watch_changes
from penstock.documents.changing import cancel_document, delete_document, retry_document
from penstock.documents.cleaning import (
    DeadVersion,
    clear_old_versions,
    collect_blobs,
    compact_tallies,
    list_dead_versions,
    sweep_answers,
)
from penstock.documents.collection import (
    Collection,
    change_collection,
    create_collection,
    delete_collection,
    ensure_collection,
    find_collection,
    list_collections,
)
from penstock.documents.explain import explain_document
from penstock.documents.intake import Intake
from penstock.documents.members import Family, Members, add_members, count_family
from penstock.documents.publish import Work, keep_pages, load_work, publish
from penstock.documents.reconcile import Reconciled, reconcile
from penstock.documents.upload import Accepted, AlreadyThere, Upload

__all__ = [
    "STATES",
    "Accepted",
    "AlreadyThere",
    "Announcer",
    "ChunkText",
    "Collection",
    "DeadVersion",
    "Document",
    "Event",
    "Family",
    "Intake",
    "Members",
    "PageText",
    "Reconciled",
    "Upload",
    "Watch",
    "Work",
    "add_members",
    "cancel_document",
    "change_collection",
    "clear_old_versions",
    "collect_blobs",
    "compact_tallies",
    "count_family",
    "counts",
    "create_collection",
    "delete_collection",
    "delete_document",
    "ensure_collection",
    "explain_document",
    "find_collection",
    "find_document",
    "history",
    "keep_pages",
    "list_chunks",
    "list_collections",
    "list_dead_versions",
    "list_documents",
    "list_pages",
    "load_work",
    "publish",
    "read_text",
    "reconcile",
    "retry_document",
    "show_document",
    "show_documents",
    "sweep_answers",
    "watch_changes",
]
