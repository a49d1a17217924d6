"""Explanations of the state of a document: one sentence for a person, one word for a program, and the evidence.

While a document waits or is processed, the explanation has the predicate of its job, and the engine's explanation is part of
the evidence. `explain_anything` finds what an id or a name stands for.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents.deletion.receipts import Receipt, show_receipt
from penstock.documents.document import Document
from penstock.documents.inbox import WORKER, explain_message, explain_source, find_message
from penstock.documents.queries import LARGEST, find_document, load_document
from penstock.engine import Penstock
from penstock.engine.inspect import LATELY, Explanation, advise, estimate_of, explain_job, joined
from penstock.errors import NotFound
from penstock.text import counted, storable, utc

sql = statements(__file__)

FEW, ALIKE = 200, 50  # documents whose sizes are compared, and those of them that are nearest in size
ADVICE = {
    "Encrypted": "Remove the password, and add it again with `--replace`.",
    "Corrupt": "Add an intact copy with `--replace`.",
    "Unsupported": "Convert it, for example to PDF, and add that instead.",
    "Suspicious": "It is not tried again. If you trust it, add what is inside of it instead.",
    "TooMuch": "Split it, or raise the limit, then `penstock documents retry {id}`.",
    "NothingInside": "Add it again with `--replace` when it has content.",
    "Cancelled": "To prepare it after all: `penstock documents retry {id}`.",
}
OTHERWISE = "When the cause is fixed: `penstock documents retry {id}`."


async def explain_anything(app: Penstock, reference: str, *, tenant: str = "default") -> Explanation:
    """Explain anything by its id; documents and sources also by their names, messages by source/id."""
    reference = storable(reference)
    if reference.isascii() and reference.isdecimal():
        return await _explain_id(app, int(reference), tenant)
    try:
        found = await find_document(app, reference, tenant=tenant)
    except NotFound:
        return await _explain_message_or_source(app, reference, tenant)
    return await explain_document(app, found.id, tenant=tenant)


async def _explain_message_or_source(app: Penstock, reference: str, tenant: str) -> Explanation:
    message = await find_message(app, reference, tenant=tenant)
    if message is None:
        told = await explain_source(app, reference, tenant=tenant)
    else:
        told = await explain_message(app, message, tenant=tenant)
    if told is None:
        raise NotFound(
            f"Document {reference} does not exist: use an id, a name or collection/name of a document, the name of a "
            "source, or source/id of a message."
        )
    return told


async def _explain_id(app: Penstock, number: int, tenant: str) -> Explanation:
    """Documents, jobs and messages share one sequence; only a message and its document have the same id."""
    if number <= LARGEST:
        [found] = await app.database.pool.repeat(sql.numbered, number=number, tenant=tenant)
        message = await explain_message(app, number, tenant=tenant) if found["message"] else None
        if found["document"]:
            told = await explain_document(app, number, tenant=tenant)
            if message is None or message.state == "taken":
                return told
            return replace(
                told,
                advice=joined(told.advice, f"Newer content of it waits: {message.sentence}"),
                because=message.because,
                evidence=told.evidence | message.evidence,
                evidence_lines=told.evidence_lines + message.evidence_lines,
            )
        if message is not None:
            return message
        job = await app.why(number)
        if job.state != "not found":
            return job
    said = f"{number} does not exist: no job, document or message has this id."
    return Explanation("", said, "", "not found", "not found")


async def explain_document(app: Penstock, document: int, *, tenant: str = "default") -> Explanation:
    found, packet, job = await app.database.pool.repeat(_look, document=document, tenant=tenant)
    evidence: dict[str, Any] = {"document": found.answer()}
    subject = f"{'Document' if packet is None else 'Packet'} {found.id} ({found.name})"
    lines = [*_lines(found)]
    if packet is not None:
        evidence["packet"] = dict(packet)
    if job is not None:
        evidence["job"] = job.answer()
        lines += job.evidence_lines
        because, predicate, advice = _tell_waiting(found, job)
    elif found.status == "deleted":
        receipt = await _find_receipt(app, found.id, tenant)
        if receipt is not None:
            evidence["receipt"] = receipt.answer()
            lines += [f"receipt: removed {utc(receipt.removed_at)}"]
        because, predicate, advice = _tell_deleted(found, receipt)
    elif found.status == "ready":
        because, predicate, advice = "ready", _tell_ready(found, packet), ""
    else:
        because, predicate, advice = _tell_failed(found)
        subject += ":" if _is_replaced(found) else ""
    return Explanation(subject, predicate, advice, found.status, because, evidence, tuple(lines))


async def _look(session: Session, document: int, tenant: str) -> tuple[Document, Record | None, Explanation | None]:
    """On one connection: the document, whether it is a packet, and its job while it waits or runs."""
    found = await load_document(session, document, tenant=tenant)
    packet = await sql.packet_of.first(session, version=found.version_id)
    if found.status not in {"queued", "processing"} or found.job is None:
        return found, packet, None
    return found, packet, await _explain_job(session, found.job, found)


async def _explain_job(session: Session, number: int, document: Document) -> Explanation:
    """Its job, estimated by documents of about its size instead of all jobs of the kind."""
    row = None
    if document.status == "processing":
        row = await sql.pace.first(session, most=LATELY, job=number, size=document.size, few=FEW, alike=ALIKE)
    return await explain_job(session, number, pace=estimate_of(row, "documents of its size"))


async def _find_receipt(app: Penstock, document: int, tenant: str) -> Receipt | None:
    try:
        return await show_receipt(app, document, tenant=tenant)
    except NotFound:
        return None


def _lines(document: Document) -> Iterator[str]:
    kind = f", {document.media_type}" if document.media_type else ""
    yield (
        f"document {document.id}: {document.collection}/{document.name}, version {document.version}, {document.size:,} bytes"
        f"{kind}, {document.status}"
    )
    yield f"accepted {utc(document.accepted_at)}, changed {utc(document.changed_at)}"
    if error := document.error:
        step = f", in the step {error['step']}" if error.get("step") else ""
        yield f"error: {error.get('type') or error.get('class')}{step}"


def _tell_deleted(document: Document, receipt: Receipt | None) -> tuple[str, str, str]:
    said = f"was deleted at {document.deleted_at:%Y-%m-%d %H:%M:%S} UTC"
    if document.restorable_until is not None:
        until = f"{said} and can be restored until {utc(document.restorable_until)}."
        return "deleted", until, f"To bring it back: `penstock restore {document.id}`."
    if receipt is None:
        return "deleted", f"{said} and is being removed.", "This cannot be undone: add it again to have it back."
    verified = " and verified" if receipt.verified_at is not None else ""
    return (
        "deleted",
        f"{said} and removed{verified} (`penstock documents receipt {document.id}`).",
        "Add it again to have it back.",
    )


def _tell_ready(document: Document, packet: Record | None) -> str:
    """Search finds a packet by the documents in it."""
    made = counted(document.chunks or 0, "chunk")
    if packet is not None:
        made = f"{packet['ready']:,} of {counted(packet['documents'], 'document')}"
    said = f"is ready: {counted(document.pages or 0, 'page')}, {made}"
    if not document.gaps:
        return f"{said}, and search finds it."
    shown = "; ".join(_tell_gap(gap) for gap in document.gaps[:3])
    more = f"; and {len(document.gaps) - 3} more" if len(document.gaps) > 3 else ""
    return f"{said}, and search finds it, but it is only partly readable: {shown}{more}."


def _tell_gap(gap: Any) -> str:
    where = f"page {gap['page']}: " if gap.get("page") else ""
    return f"{where}{str(gap.get('reason', '')).rstrip('.')}"


def _is_replaced(document: Document) -> bool:
    """Whether it has a newer version than the one that search finds."""
    return document.live_version not in {None, document.version}


def _tell_failed(document: Document) -> tuple[str, str, str]:
    error = document.error or {}
    because = "cancelled" if error.get("class") == "Cancelled" else "failed"
    kind = str(error.get("type") or error.get("class") or "unknown")
    step = f" in the step {error['step']}" if error.get("step") else ""
    message = str(error.get("message", "no reason was kept")).rstrip(". ")
    advice = ADVICE.get(kind, OTHERWISE).format(id=document.id)
    if not _is_replaced(document):
        return because, f"has failed{step} ({kind}): {message}.", advice
    old = f"version {document.live_version} is still found"
    return because, f"version {document.version} failed{step} ({kind}): {message}; {old}.", advice


def _tell_waiting(document: Document, job: Explanation) -> tuple[str, str, str]:
    """The engine's predicate, about the document. The integrity check finds documents whose jobs are over."""
    old = ""
    if _is_replaced(document):
        old = f"This is about version {document.version}; version {document.live_version} is found until it is ready."
    if job.because not in {"not found", "done", "cancelled", "discarded"}:
        return job.because, job.predicate, joined(advise(job.because, job.evidence, WORKER), old)
    return (
        "abandoned",
        f"has no job any more: job {document.job} is over ({job.because}).",
        joined(f"It will be marked as failed within minutes; then `penstock documents retry {document.id}`.", old),
    )
