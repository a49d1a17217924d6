"""Integrity checks: invariants of documents, checked page by page by a job, and repaired or reported."""

from penstock.documents.integrity.finding import (
    IntegrityFinding,
    Repair,
    begin_check,
    end_gone,
    end_page,
    list_open,
    note_found,
    note_repaired,
)
from penstock.documents.integrity.run import Check, CheckedPages, check_documents, run_check
