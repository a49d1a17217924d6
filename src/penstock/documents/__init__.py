"""Documents: what was accepted, where its bytes are, what became of it."""

from penstock.documents.awaiting import Unpublished, hand_over
from penstock.documents.browsing import Browse, Browsed, browse
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
    tenant_of,
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
from penstock.documents.deletion import Deleted, Matching, delete_matching, find_matching
from penstock.documents.explain import explain_document
from penstock.documents.inbox import Inbox, Message, Overtaken, Position, Received
from penstock.documents.intake import Intake
from penstock.documents.members import Family, Members, add_members, count_family
from penstock.documents.minutes import Bucket, count_minutes, read_minutes, waiting_now
from penstock.documents.publish import Published, Work, keep_pages, load_work, publish
from penstock.documents.receipts import Receipt, list_receipts, show_receipt
from penstock.documents.reconcile import Reconciled, reconcile
from penstock.documents.reembedding import complete_versions, forget_later
from penstock.documents.removal import is_anything_due, remove_deleted
from penstock.documents.restoring import restore_document
from penstock.documents.upload import Accepted, AlreadyThere, Upload
from penstock.documents.versions import Version, VersionBlob, blob_of, list_versions

__all__ = [
    "STATES",
    "Accepted",
    "AlreadyThere",
    "Announcer",
    "Browse",
    "Browsed",
    "Bucket",
    "ChunkText",
    "Collection",
    "DeadVersion",
    "Deleted",
    "Document",
    "Event",
    "Family",
    "Inbox",
    "Intake",
    "Matching",
    "Members",
    "Message",
    "Overtaken",
    "PageText",
    "Position",
    "Published",
    "Receipt",
    "Received",
    "Reconciled",
    "Unpublished",
    "Upload",
    "Version",
    "VersionBlob",
    "Watch",
    "Work",
    "add_members",
    "blob_of",
    "browse",
    "cancel_document",
    "change_collection",
    "clear_old_versions",
    "collect_blobs",
    "compact_tallies",
    "complete_versions",
    "count_family",
    "count_minutes",
    "counts",
    "create_collection",
    "delete_collection",
    "delete_document",
    "delete_matching",
    "ensure_collection",
    "explain_document",
    "find_collection",
    "find_document",
    "find_matching",
    "forget_later",
    "hand_over",
    "history",
    "is_anything_due",
    "keep_pages",
    "list_chunks",
    "list_collections",
    "list_dead_versions",
    "list_documents",
    "list_pages",
    "list_receipts",
    "list_versions",
    "load_work",
    "publish",
    "read_minutes",
    "read_text",
    "reconcile",
    "remove_deleted",
    "restore_document",
    "retry_document",
    "show_document",
    "show_documents",
    "show_receipt",
    "sweep_answers",
    "tenant_of",
    "waiting_now",
    "watch_changes",
]
