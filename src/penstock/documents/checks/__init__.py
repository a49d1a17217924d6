"""Checks: what must be true of documents, looked at in pages by a job, and repaired or reported."""

from penstock.documents.checks.finding import Found, Repair, note_repaired
from penstock.documents.checks.run import Check, Looked, check_documents, run_check

__all__ = ["Check", "Found", "Looked", "Repair", "check_documents", "note_repaired", "run_check"]
