"""Documents: intake, collections, versions, publication, packets, the inbox of sources, deletion and integrity."""

from penstock.documents.collections import (
    Collection,
    change_collection,
    create_collection,
    delete_collection,
    ensure_collection,
    find_collection,
    find_collection_by_id,
    list_collections,
)
from penstock.documents.deletion.delete import BulkDeletion, Matching, delete_matching, find_matching, restore_document
from penstock.documents.deletion.purge import (
    clear_old_versions,
    collect_blobs,
    compact_tallies,
    is_anything_due,
    remove_deleted,
    sweep_answers,
)
from penstock.documents.deletion.receipts import Receipt, list_receipts, show_receipt
from penstock.documents.document import (
    STATES,
    ChunkText,
    Document,
    DocumentFilter,
    DocumentStatus,
    Event,
    PageText,
    TimelineEntry,
    UnreadDocument,
    Version,
)
from penstock.documents.explain import explain_anything, explain_document
from penstock.documents.inbox import (
    COUNTED_TO,
    POISON,
    WORKER,
    Inbox,
    Overtaken,
    Position,
    ReceivedBatch,
    SourceMessage,
    bytes_of,
    checked_id,
    count_messages,
    encode_payload,
    find_message,
    is_outrun,
    list_messages,
    list_sources,
    list_unreported,
    load_message,
    mark_taken,
    note_reported,
    tell_source,
)
from penstock.documents.ingest.attachments import Attachments, add_members, count_attachments
from penstock.documents.ingest.intake import Intake
from penstock.documents.ingest.upload import Accepted, AlreadyThere, Upload
from penstock.documents.integrity.run import reconcile
from penstock.documents.lifecycle import (
    UNREADABLE,
    cancel_document,
    delete_document,
    dismiss_document,
    list_unread,
    retry_document,
)
from penstock.documents.manifest import DIGEST, Manifest, Reference, read_manifest
from penstock.documents.migration import (
    REEMBED,
    REINDEX,
    ChunkSpan,
    IndexChangeSuperseded,
    LiveVersion,
    ModelChanged,
    ModelChangeSuperseded,
    NotComplete,
    count_live_chunks,
    end_abandoned,
    forget_has_points,
    forget_later,
    hold_turn,
    is_searched_here,
    is_turn,
    is_wanted,
    list_late,
    list_live,
    live_among,
    read_spans,
    switch_index,
    switch_model,
)
from penstock.documents.names import (
    MEMBER,
    NAME_MAX,
    PREPARE,
    PREPARE_PACKET,
    check_document_name,
    encode_metadata,
    fairness_key_of,
    no_such_collection,
    numbered,
)
from penstock.documents.notify import Notifier, watch_changes
from penstock.documents.packets import (
    FROM_API,
    MergedDocument,
    Packet,
    PacketDocument,
    PacketFile,
    Packets,
    ShownPacket,
    ShownPart,
    WaitingPacket,
    api_settings,
    end_packet,
    find_waiting,
    keep_merged,
    list_packets,
    load_packet,
    show_packets,
)
from penstock.documents.publication import (
    PUBLISH_POINTS,
    PendingVersion,
    Publication,
    Work,
    forget_findings,
    hand_over,
    keep_pages,
    load_pending,
    load_work,
    prepare_again,
    publish,
    wants_points,
)
from penstock.documents.queries import (
    LARGEST,
    blob_of,
    browse,
    count_documents,
    find_deleted_document,
    find_document,
    list_chunks,
    list_documents,
    list_events,
    list_pages,
    list_partly_readable,
    list_versions,
    read_text,
    show_document,
    show_documents,
    show_timeline,
    tenant_of,
)
from penstock.documents.stats import (
    SHOWN_TO,
    MinuteBucket,
    Waiting,
    count_everywhere,
    count_lately,
    count_minutes,
    read_minutes,
    waiting_now,
)
