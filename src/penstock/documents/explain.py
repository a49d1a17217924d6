"""Why a document is where it is: one sentence for a person, one word for a program, and the evidence.

While it waits or is processed, the engine knows why; its sentence is told about the document instead of the job, and kept
in the evidence as it is. `explain_anything` is for who has only a number or a name. The SQL is in explain.sql.
"""

from functools import partial
from typing import Any

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents.catalog import Document, load_document
from penstock.documents.explain_inbox import explain_message, explain_source, find_message
from penstock.documents.receipts import show_receipt
from penstock.engine import Penstock
from penstock.engine.explain import Explanation, explain
from penstock.engine.pace import LATELY, pace_of
from penstock.engine.wording import counted
from penstock.errors import BadRequest, NotFound

sql = statements(__file__)

LARGEST = 2**63 - 1
FEW, ALIKE = 200, 50  # documents whose sizes are looked up, and those of them that are the most alike
ADVICE = {
    "Encrypted": "Remove the password, and add it again with `--replace`",
    "Corrupt": "Add an intact copy with `--replace`",
    "Unsupported": "Convert it, for example to PDF, and add that instead",
    "Suspicious": "It is not tried again. If you trust it, add what is inside of it instead",
    "TooMuch": "Split it, or raise the limit, then `penstock documents retry {id}`",
    "NothingInside": "Add it again with `--replace` when it has content",
    "Cancelled": "To prepare it after all: `penstock documents retry {id}`",
}
OTHERWISE = "When the cause is mended: `penstock documents retry {id}`"


async def explain_anything(app: Penstock, reference: str, *, tenant: str = "default") -> Explanation:
    """By its number, whatever it is; documents and sources also by their names, messages by source/number."""
    reference = reference.replace("\0", "\ufffd").encode("utf-8", "replace").decode()  # what PostgreSQL takes
    if reference.isascii() and reference.isdecimal():
        return await _explain_number(app, int(reference), tenant)
    found = await _find(app, reference, tenant)
    if found is not None:
        return await explain_document(app, found, tenant=tenant)
    message = await find_message(app, reference, tenant=tenant)
    told = (
        await explain_source(app, reference, tenant=tenant)
        if message is None
        else await explain_message(app, message, tenant=tenant)
    )
    if told is None:
        raise NotFound(
            f"There is no document {reference}: use its number, its name, or collection/name; a source has a name, too, and a "
            "message is source/number."
        )
    return told


async def _explain_number(app: Penstock, number: int, tenant: str) -> Explanation:
    """Documents, jobs and messages share one sequence; only a message and what it became have the same number."""
    if number <= LARGEST:
        [found] = await app.database.pool.repeat(partial(sql.numbered, number=number, tenant=tenant))
        message = await explain_message(app, number, tenant=tenant) if found["message"] else None
        if found["document"]:
            told = await explain_document(app, number, tenant=tenant)
            if message is None or message.state == "taken":
                return told
            newer = f"{told.sentence} Newer content of it waits: {message.sentence}"
            return Explanation(newer, told.state, told.evidence | message.evidence, message.because)
        if message is not None:
            return message
        job = await app.why(number)
        if job.state != "not found":
            return job
    sentence = f"There is no job {number}, neither alive nor in the history, and no document or message of this number."
    return Explanation(sentence, "not found", {}, "not found")


async def _find(app: Penstock, reference: str, tenant: str) -> int | None:
    collection, _, rest = reference.partition("/")
    rows = await app.database.pool.repeat(
        partial(sql.find_reference, tenant=tenant, whole=reference, collection=collection, rest=rest)
    )
    if len(rows) > 1:
        where = ", ".join(f"{row['collection']}/{row['name']}" for row in rows)
        raise BadRequest(f"{reference} could be several documents: say which of {where}.")
    return rows[0]["id"] if rows else None


async def explain_document(app: Penstock, document: int, *, tenant: str = "default") -> Explanation:
    found, packet, job = await app.database.pool.repeat(partial(_look, document=document, tenant=tenant))
    evidence: dict[str, Any] = {"document": found.answer()}
    if packet is not None:
        evidence["packet"] = dict(packet)
    if job is not None:
        evidence["job"] = vars(job)
        because, sentence = _tell_waiting(found, job)
    elif found.status == "deleted":
        because, sentence = "deleted", await _tell_deleted(app, found, tenant, evidence)
    else:
        because, sentence = _tell_over(found, packet)
    noun = "Document" if packet is None else "Packet"
    return Explanation(f"{noun} {found.id} ({found.name}){sentence}", found.status, evidence, because)


async def _look(session: Session, document: int, tenant: str) -> tuple[Document, Record | None, Explanation | None]:
    """On one connection: the document, whether it is a packet, and its job while it waits or runs."""
    found = await load_document(session, document, tenant=tenant)
    packet = await sql.packet_of.first(session, version=found.version_id)
    if found.status not in {"queued", "processing"} or found.job is None:
        return found, packet, None
    return found, packet, await _explain_job(session, found.job, found)


async def _explain_job(session: Session, number: int, document: Document) -> Explanation:
    """Its job, with the pace of documents of about its size in place of that of all jobs of the kind."""
    row = None
    if document.status == "processing":
        row = await sql.pace.first(session, most=LATELY, job=number, size=document.size, few=FEW, alike=ALIKE)
    return await explain(session, number, pace=pace_of(row, "documents of its size"))


def _tell_over(document: Document, packet: Record | None) -> tuple[str, str]:
    if document.status == "ready":
        return "ready", _tell_ready(document, packet)
    cancelled = (document.error or {}).get("class") == "Cancelled"
    return "cancelled" if cancelled else "failed", _tell_failed(document)


async def _tell_deleted(app: Penstock, document: Document, tenant: str, evidence: dict[str, Any]) -> str:
    said = f" was deleted at {document.deleted_at:%Y-%m-%d %H:%M:%S} UTC"
    try:
        receipt = await show_receipt(app, document.id, tenant=tenant)
    except NotFound:
        back = f"`penstock restore {document.id}` says whether it can come back"
        return f"{said}; its text and bytes are not removed yet. {back}."
    evidence["receipt"] = receipt.answer()
    looked = "; nothing was left of it when looking again" if receipt.verified_at is not None else ""
    return f"{said} and removed{looked} (`penstock receipt {document.id}`). Add it again to have it back."


def _tell_ready(document: Document, packet: Record | None) -> str:
    """What search finds of a packet are the documents in it."""
    made = counted(document.chunks or 0, "chunk")
    if packet is not None:
        made = f"{packet['ready']:,} of {counted(packet['documents'], 'document')}"
    said = f" is ready: {counted(document.pages or 0, 'page')}, {made}"
    if not document.gaps:
        return f"{said}, and search finds it."
    shown = "; ".join(_tell_gap(gap) for gap in document.gaps[:3])
    more = f"; and {len(document.gaps) - 3} more" if len(document.gaps) > 3 else ""
    return f"{said}, and search finds it, with {counted(len(document.gaps), 'gap')}: {shown}{more}."


def _tell_gap(gap: Any) -> str:
    where = f"page {gap['page']}: " if gap.get("page") else ""
    return f"{where}{str(gap.get('reason', '')).rstrip('.')}"


def _tell_failed(document: Document) -> str:
    error = document.error or {}
    kind = str(error.get("type") or error.get("class") or "unknown")
    step = f" in the step {error['step']}" if error.get("step") else ""
    message = str(error.get("message", "no reason was kept")).rstrip(". ")
    advice = ADVICE.get(kind, OTHERWISE).format(id=document.id)
    if document.live_version in {None, document.version}:
        return f" has failed{step} ({kind}): {message}. {advice}."
    old = f"version {document.live_version} is still found"
    return f": version {document.version} failed{step} ({kind}): {message}; {old}. {advice}."


def _tell_old(document: Document) -> str:
    if document.live_version in {None, document.version}:
        return ""
    return f" This is about version {document.version}; version {document.live_version} is found until it is ready."


def _tell_waiting(document: Document, job: Explanation) -> tuple[str, str]:
    """The engine's sentence, about the document. A job that is over but has not told us is found by reconcile."""
    if job.because in {"not found", "done", "cancelled", "discarded"}:
        return "abandoned", (
            f" waits for nobody: its job {document.job} is over ({job.because}). It will be marked as failed within minutes; "
            f"then `penstock documents retry {document.id}`.{_tell_old(document)}"
        )
    said = job.sentence.removeprefix(f"Job {document.job} ")
    said = said.replace("`penstock worker module:app`", "`penstock worker` or `penstock up`")
    return job.because, f" {said}{_tell_old(document)}"
