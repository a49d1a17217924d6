"""The inbox: every message of every source is kept here once, with a job that makes a document of it.

    position = await inbox.position("orders")
    …                                        # ask the source what is new, without a connection or lock
    await inbox.receive("orders", messages, position=position, onward=last)

A batch, its jobs and the new position are one transaction. Of two workers that read the same part of a source, the second one
is `Overtaken`, and nothing of its batch is kept. A message that came before is counted; with other content it is the next
version of its document, or refused, as `on_change` of its source says.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from asyncpg import Record

from penstock import telemetry
from penstock.blobs import BlobStore, StoredBlob
from penstock.database import Session, statements
from penstock.documents.ingest.intake import keep_blobs
from penstock.documents.names import fairness_key_of
from penstock.engine import STEP, Kind, Penstock, insert_reserved, reach, reserve_ids, stamp_args, wake_queues
from penstock.engine.inspect import Explanation, advise, explain_job, joined
from penstock.errors import BadSetting, BadValue, PenstockError
from penstock.settings import SourceSettings
from penstock.text import counted, span, storable, up_to, utc, utc_relative

sql = statements(__file__)

KIND = "take_message"  # with the source's name after a dot, or alone for what came by the API
FROM_API = "_api"  # the source of packets that came by HTTP with references
POISON = "penstock:poison"  # in place of a payload: why the message cannot be used
ID_MAX = 1000  # bytes
COUNTED_TO = 10_000  # messages that wait, for an explanation
WORKER = "`penstock worker` or `penstock up`"  # starts a worker of documents
LATE_AFTER = 10  # times `poll_every`, and at least a minute, without an answer

arrivals = telemetry.counter(
    "penstock_inbox_messages_total",
    "Messages of sources that this process received: new, repeats, versions, conflicts",
    ("source", "outcome"),
)


@dataclass(frozen=True, slots=True)
class SourceMessage:
    id: str  # the source's own; the same one again is the same message
    payload: Mapping[str, Any]  # JSON
    stored: Sequence[StoredBlob] = ()  # bytes that came with it, which the payload names by their digest
    poison: str = ""  # why it cannot be used: it becomes a dead letter with this reason


@dataclass(frozen=True, slots=True)
class Position:
    """How far a source has been read, and the turn at which that was so."""

    value: Any
    turn: int
    swept_at: datetime | None = None
    sweep: Any = None  # where a comparison of everything goes on
    swept_ago: timedelta | None = None  # by the clock of the database


@dataclass(slots=True)
class ReceivedBatch:
    new: int = 0
    repeats: int = 0
    versions: int = 0  # came before with other content, and are taken again
    conflicts: list[str] = field(default_factory=list)  # the same, and refused: their ids at the source
    unneeded: list[str] = field(default_factory=list)  # keys in the blob store whose bytes were there already
    jobs: list[tuple[int, int]] = field(
        default_factory=list
    )  # ids of the messages that are new here, and of their jobs


def message_kind(source: str) -> str:
    """The kind of the jobs of a source's messages. Only workers with the source in their settings declare it and claim them."""
    return KIND if source == FROM_API else f"{KIND}.{source}"


class Overtaken(PenstockError):
    """Another worker has moved the position of the source meanwhile: read it again."""


class Inbox:
    """The intake of messages, and the position of each source. One for each process."""

    def __init__(self, app: Penstock, store: BlobStore) -> None:
        self.app = app
        self.store = store

    def source(self, name: str) -> SourceSettings:
        found = self.app.settings.sources.get(name)
        if found is None:
            raise BadSetting(f"Source {name} is not in the settings: add [sources.{name}] to penstock.toml.")
        return found

    # -- reading a source ---------------------------------------------------------------------------------------------

    async def position(self, source: str) -> Position:
        """Where to go on; its value is None for a source that was never read."""
        tenant = self.source(source).tenant
        row = await self._repeat(sql.read_position.first, source=source)
        if row is None:
            await self._repeat(sql.position.first, source=source, tenant=tenant)
            row = await self._repeat(sql.read_position.first, source=source)
        return _read_position(row)

    async def peek_position(self, source: str) -> Position:
        """The position without a row being made for it."""
        row = await self._repeat(sql.read_position.first, source=source)
        return Position(None, 0) if row is None else _read_position(row)

    async def unknown(self, source: str, ids: Sequence[str]) -> list[str]:
        """Those of these messages that never came, in their order."""
        kept = {checked_id(each): each for each in ids}  # a long one is kept in a shorter form
        found = {row["message_id"] for row in await self._repeat(sql.unknown, source=source, message_ids=list(kept))}
        return [given for message_id, given in kept.items() if message_id in found]

    async def news(self, source: str, messages: Sequence[SourceMessage]) -> list[SourceMessage]:
        """Those of these messages that never came, or came with other content, where that is a new version; writes nothing."""
        if not messages:
            return []
        ids = [checked_id(message.id) for message in messages]
        rows = await self._repeat(
            sql.news,
            source=source,
            message_ids=ids,
            digests=[hashlib.sha256(encode_payload(message).encode()).digest() for message in messages],
            by_id=self.source(source).on_change == "error",
        )
        wanted = {row["message_id"] for row in rows}
        return [message for each, message in zip(ids, messages, strict=True) if each in wanted]

    async def find(self, source: str, message_id: str) -> tuple[int, str]:
        """The id of a message here, and its state."""
        row = await self._repeat(sql.find_message.first, source=source, message_id=checked_id(message_id))
        return row["id"], row["state"]

    async def room(self, source: str) -> int:
        """How many more messages may come before `waiting` of the source is reached."""
        most = self.source(source).waiting
        return max(0, most - int(await self._repeat(sql.waiting.value, source=source, most=most)))

    async def note_poll(self, source: str, finding: str = "") -> None:
        """Note that the source has answered, with a finding if something is wrong with a part of it."""
        await self._repeat(sql.note_poll.run, source=source, finding=storable(finding[:2000], ""))

    async def note_trouble(self, source: str, error: str) -> None:
        """The source does not answer; shown by `penstock sources list` and `doctor` until it does."""
        tenant = self.source(source).tenant
        await self._repeat(sql.note_trouble.run, source=source, tenant=tenant, error=storable(error[:2000], ""))

    async def note_sweep(self, source: str, sweep: Any, *, complete: bool) -> None:
        """Note how far the comparison of a whole source with the inbox has come."""
        await self._repeat(sql.note_sweep.run, source=source, sweep=json.dumps(sweep), complete=complete)

    # -- taking in ----------------------------------------------------------------------------------------------------

    async def receive(
        self,
        source: str,
        messages: Sequence[SourceMessage],
        *,
        position: Position | None = None,
        onward: Any = None,
        settings: SourceSettings | None = None,
    ) -> ReceivedBatch:
        """Keep a batch with its jobs and, if a position is given, move that to `onward`; all of it or, by raising, nothing.

        `settings` are for messages that came by the API, which has no source.
        """
        settings = settings or self.source(source)
        unique = {checked_id(message.id): message for message in messages}  # of two with one id the last one counts
        kind = self.app.kinds[message_kind(source)]
        lane = (kind.queue, kind.name, fairness_key_of(settings.tenant, settings.collection))
        lanes = await self.app.lanes([lane])
        async with self.app.database.pool.transaction() as tx:
            if position is not None:
                moved = await sql.advance.value(
                    tx, source=source, turn=position.turn, position=json.dumps(onward, default=str)
                )
                if moved is None:
                    raise Overtaken(f"The source {source} was read by another worker at the same time.")
            done = ReceivedBatch()
            if unique:
                done = await self._receive(tx, source, settings, unique)
                await self._add_jobs(tx, kind, done.jobs, lanes[lane])
            if position is not None and unique:
                await sql.count.run(
                    tx,
                    source=source,
                    received=done.new + done.versions,
                    repeats=done.repeats,
                    conflicts=len(done.conflicts),
                )
            reach(f"{STEP}receive", tx)
        for key in done.unneeded:
            await self.store.remove(key)
        for outcome in ("new", "repeats", "versions"):
            arrivals.labels(source, outcome).inc(getattr(done, outcome))
        arrivals.labels(source, "conflicts").inc(len(done.conflicts))
        return done

    async def _receive(
        self, tx: Session, source: str, settings: SourceSettings, messages: dict[str, SourceMessage]
    ) -> ReceivedBatch:
        ids = await reserve_ids(tx, 2 * len(messages))
        rows = dict(zip(messages, zip(ids[::2], ids[1::2], strict=True), strict=True))
        payloads = {key: encode_payload(message) for key, message in messages.items()}
        digests = {key: hashlib.sha256(payload.encode()).digest() for key, payload in payloads.items()}
        made = {
            row["id"]
            for row in await sql.receive(
                tx,
                tenant=settings.tenant,
                source=source,
                told="" if settings.tells else "never",
                ids=[rows[key][0] for key in messages],
                jobs=[rows[key][1] for key in messages],
                message_ids=list(messages),
                digests=[digests[key] for key in messages],
                payloads=[payloads[key] for key in messages],
            )
        }
        new = {key: rows[key] for key in messages if rows[key][0] in made}
        done = ReceivedBatch(new=len(new))
        if len(new) < len(messages):
            old = {key: digests[key] for key in messages if key not in new}
            again = await self._meet_again(tx, source, settings, old, done)
            await self._renew(
                tx, {row["id"]: (rows[key][1], digests[key], payloads[key]) for key, row in again.items()}
            )
            new |= {key: (row["id"], rows[key][1]) for key, row in again.items()}
        await self._keep_bytes(tx, settings, {message: messages[key] for key, (message, _) in new.items()}, done)
        unused = [each.key for key, message in messages.items() if key not in new for each in message.stored]
        done.unneeded += unused
        done.jobs = list(new.values())
        return done

    async def _meet_again(
        self,
        tx: Session,
        source: str,
        settings: SourceSettings,
        old: Mapping[str, bytes],
        done: ReceivedBatch,
    ) -> dict[str, Record]:
        """Count messages that came before, or refuse those that have changed; the ones to take again, by id."""
        rows = {row["message_id"]: row for row in await sql.seen_before(tx, source=source, message_ids=list(old))}
        same = [row["id"] for key, row in rows.items() if row["digest"] == old[key]]
        changed = {key: row for key, row in rows.items() if row["digest"] != old[key]}
        if same:
            await sql.note_repeats.run(tx, ids=same)
        done.repeats = len(same)
        if settings.on_change == "error":
            await sql.note_conflicts.run(tx, ids=[row["id"] for row in changed.values()])
            done.conflicts = sorted(changed)
            return {}
        done.versions = len(changed)
        return changed

    async def _renew(self, tx: Session, again: Mapping[int, tuple[int, bytes, str]]) -> None:
        if again:
            await sql.renew.run(
                tx,
                ids=list(again),
                jobs=[job for job, _, _ in again.values()],
                digests=[digest for _, digest, _ in again.values()],
                payloads=[payload for _, _, payload in again.values()],
            )

    async def _keep_bytes(
        self, tx: Session, settings: SourceSettings, messages: Mapping[int, SourceMessage], done: ReceivedBatch
    ) -> None:
        stored = [each for message in messages.values() for each in message.stored]
        if not stored:
            return
        kept = await keep_blobs(tx, stored, tenant=settings.tenant)
        pairs = [(id_, kept[each.digest].id) for id_, message in messages.items() for each in message.stored]
        await sql.keep_bytes.run(
            tx, tenant=settings.tenant, messages=[id_ for id_, _ in pairs], blobs=[blob for _, blob in pairs]
        )
        done.unneeded += [each.key for each in stored if kept[each.digest].key != each.key]

    async def _add_jobs(self, tx: Session, kind: Kind, pairs: Sequence[tuple[int, int]], lane: int) -> None:
        """Not by `enqueue`: the rows of the messages name the jobs, so that the ids of those come first."""
        if not pairs:
            return
        args = stamp_args(kind(message=message).args for message, _ in pairs)
        await insert_reserved(tx, lane, dict(zip((job for _, job in pairs), args, strict=True)))
        await wake_queues(tx, {kind.queue})

    async def _repeat(self, statement: Any, **values: Any) -> Any:
        return await self.app.database.pool.repeat(statement, **values)


def _read_position(row: Record) -> Position:
    value, sweep = (None if text is None else json.loads(text) for text in (row["position"], row["sweep"]))
    return Position(value, row["turn"], row["swept_at"], sweep, row["swept_ago"])


async def list_sources(session: Session, tenant: str) -> list[Record]:
    """The sources from which a tenant has received something, by name, with what waits and what has failed."""
    return await sql.list_sources(session, tenant=tenant)


async def count_messages(session: Session, sources: Sequence[str], tenant: str) -> dict[str, Record]:
    """How many messages each of these sources has brought, and how many of them wait or have failed; to 100,000."""
    return {row["name"]: row for row in await sql.count_messages(session, sources=list(sources), tenant=tenant)}


async def list_messages(
    session: Session, *, tenant: str, source: str | None, state: str | None, after: int, most: int
) -> list[dict[str, Any]]:
    rows = await sql.list_messages(session, tenant=tenant, source=source, state=state, after=after, most=most)
    return [{**row, "error": json.loads(row["error"]) if row["error"] else None} for row in rows]


async def load_message(session: Session, message: int) -> Record | None:
    return await sql.load_message.first(session, message=message)


async def bytes_of(session: Session, message: int, digest: bytes) -> StoredBlob | None:
    """The blob with this digest that came with a message."""
    row = await sql.bytes_of.first(session, message=message, digest=digest)
    return None if row is None else StoredBlob(**row)


async def is_outrun(tx: Session, document: int, source: str, job: int) -> bool:
    """Whether a later message of the same source has become this document already."""
    return await sql.outrun_by.value(tx, document=document, source=source, job=job) is not None


async def mark_taken(tx: Session, message: int, number: int, document: int | None) -> bool:
    """waiting -> taken, and its bytes belong to the document; False if it came with other content meanwhile."""
    if await sql.taken.value(tx, message=message, number=number, document=document) is None:
        return False
    await sql.let_go.run(tx, message=message)
    return True


async def list_unreported(session: Session, source: str, *, after: int, most: int) -> list[Record]:
    """Messages whose outcome was not reported to their source yet, by id."""
    return await sql.list_unreported(session, source=source, after=after, most=most)


async def note_reported(tx: Session, rows: Sequence[Record]) -> None:
    """Note which outcome of these messages was reported to their source."""
    await sql.note_reported.run(
        tx,
        ids=[row["id"] for row in rows],
        statuses=[row["status"] for row in rows],
        reasons=[row["reason"] for row in rows],
    )


def encode_payload(message: SourceMessage) -> str:
    """Always the same text for the same content: its digest says whether a message has changed."""
    payload = {POISON: message.poison, **message.payload} if message.poison else message.payload
    try:
        return json.dumps(payload, sort_keys=True, ensure_ascii=True, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(f"Message {message.id[:100]!r} cannot be kept as JSON: {error}.") from None


def checked_id(given: str) -> str:
    """A message's id as it is kept; one that is too long is shortened to what still tells it from others."""
    clean = storable(given)
    if not clean:
        raise BadValue("A message has no id: set message_id_from to the field that has it.")
    if len(clean.encode()) <= ID_MAX:
        return clean
    mark = hashlib.sha256(clean.encode()).hexdigest()
    return f"{clean.encode()[: ID_MAX - len(mark) - 1].decode(errors='ignore')}~{mark}"


# -- explanations ------------------------------------------------------------------------------------------------------


async def explain_message(app: Penstock, message: int, *, tenant: str = "default") -> Explanation | None:
    """Explain the state of a message; None if it does not exist."""
    row = await app.database.pool.repeat(sql.show_message.first, message=message, tenant=tenant)
    if row is None:
        return None
    facts = dict(row) | {"error": None if row["error"] is None else json.loads(row["error"])}
    subject = f"Message {message} ({row['message_id']} of the source {row['source']})"
    evidence: dict[str, Any] = {"message": {key: value for key, value in facts.items() if value is not None}}
    line = (
        f"message {message}: {row['message_id']} of the source {row['source']}, {row['state']}, received "
        f"{utc(row['received_at'])}"
    )
    if row["state"] == "taken":
        return Explanation(subject, _tell_taken(row), "", "taken", "taken", evidence, (line,))
    if row["state"] == "failed":
        error = facts["error"] or {}
        reason = str(error.get("message", "no reason was kept")).rstrip(". ")
        said = f"has failed ({error.get('type') or error.get('class', 'unknown')}): {reason}."
        advice = f"When the cause is fixed: `penstock inbox retry {message}`."
        return Explanation(subject, said, advice, "failed", "failed", evidence, (line,))
    job = await app.database.pool.repeat(explain_job, row["job_id"])
    evidence["job"] = job.answer()
    advice = joined(_advise(job, row["source"]), "Then it becomes a document.")
    return Explanation(subject, job.predicate, advice, "waiting", job.because, evidence, (line, *job.evidence_lines))


def _advise(job: Explanation, source: str) -> str:
    """A worker that serves everything else may lack the source."""
    if job.because == "unserved" and source != FROM_API:
        return f"Start a worker that has [sources.{source}] in its settings: {WORKER}."
    return advise(job.because, job.evidence, WORKER)


def _tell_taken(row: Record) -> str:
    if row["document_id"] is None:
        return "was taken; its document was deleted and removed."
    return f"was taken: it is document {row['document_id']} (`penstock why {row['document_id']}`)."


async def find_message(app: Penstock, reference: str, *, tenant: str = "default") -> int | None:
    """Find a message by `source/id at the source`."""
    source, _, message = reference.partition("/")
    if not message:
        return None
    found: int | None = await app.database.pool.repeat(
        sql.match_message.value, source=source, message_id=message, tenant=tenant
    )
    return found


async def explain_source(app: Penstock, name: str, *, tenant: str = "default") -> Explanation | None:
    """Explain the state of a source; None if neither the settings nor the database have it."""
    chosen = app.settings.sources.get(name)
    row = await app.database.pool.repeat(sql.show_source.first, name=name, tenant=tenant, most=COUNTED_TO + 1)
    if row is None:
        if chosen is None or chosen.tenant != tenant:
            return None
        advice = f"start a worker that runs it, with {WORKER}."
        return Explanation(f"Source {name}", "was never read:", advice, "unread", "unread")
    return tell_source(f"Source {name}", dict(row), chosen)


def tell_source(subject: str, row: dict[str, Any], chosen: SourceSettings | None) -> Explanation:
    because, predicate, advice = _tell_source(row, chosen)
    evidence = {"source": {key: value for key, value in row.items() if value is not None}}
    counts = f"{row['received']:,} received, {row['waiting']:,} waiting, {row['failed']:,} failed"
    answered = () if row["polled_at"] is None else (f"answered last {utc(row['polled_at'])}",)
    lines = (f"source {row['name']}: {counts}", *answered)
    return Explanation(subject, predicate, advice, because, because, evidence, lines)


def _tell_source(row: dict[str, Any], chosen: SourceSettings | None) -> tuple[str, str, str]:
    """One word, the state, and what to do."""
    name, now = row["name"], row["now"]
    waiting = f"{up_to(row['waiting'], COUNTED_TO, 'message')} {'waits' if row['waiting'] == 1 else 'wait'}"
    if row["error"] is not None:
        said = f"does not answer since {utc_relative(row['error_since'], now)}: {row['error'].rstrip('.')}."
        check = f"check its address and credentials in [sources.{name}], then `penstock sources check {name}`."
        return "trouble", said, f"Workers keep trying; {check}"
    if chosen is None:
        said = "is not in the settings of this machine: its messages wait for a worker that has"
        return "unknown", f"{said} [sources.{name}].", ""
    if row["waiting"] + row["failed"] >= chosen.waiting:
        said = f"is not read further: {waiting} and {row['failed']:,} failed, of {chosen.waiting:,} that may."
        return "full", said, f"Start another worker, or see `penstock inbox list --source {name} --state failed`."
    late = max(LATE_AFTER * chosen.poll_every.total_seconds(), 60.0)
    if chosen.type != "webhook" and (row["polled_at"] is None or (now - row["polled_at"]).total_seconds() > late):
        since = "was never read" if row["polled_at"] is None else f"was not read for {span(now - row['polled_at'])}"
        return "late", f"{since}: no worker runs it.", f"Start one with {WORKER}."
    failed = f", and {counted(row['failed'], 'message')} failed" if row["failed"] else ""
    answered = "" if row["polled_at"] is None else f" answered {span(now - row['polled_at'])} ago;"
    return "well", f"is read:{answered} {waiting}{failed}.", ""
