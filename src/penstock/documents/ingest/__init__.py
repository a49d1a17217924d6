"""Ingest: uploads one by one and in bulk, idempotency keys, attachments and archive members."""

from penstock.documents.ingest.bulk import BulkIntake
from penstock.documents.ingest.intake import IntakeResult
from penstock.documents.ingest.upload import CheckedUpload, ConcurrentChange, check_upload, count_accepted
