"""The inbox: every message of every source comes in here, once, with a job that takes it.

    position = await inbox.position("orders")
    …                                        # ask the source what is new; nothing is held meanwhile
    await inbox.receive("orders", messages, position=position, onward=last)

A batch, its jobs and the new position are one transaction. Two who read the same part of a source meet at the position: the
second one is `Overtaken`, and nothing of it is kept. A message that came before is counted; with other content it is the next
version of what it became, or refused, as its source says. The SQL is in inbox.sql.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from asyncpg import Record

from penstock import telemetry
from penstock.blobs import Store, Stored
from penstock.database import Session, statements
from penstock.documents.keeping import keep_blobs
from penstock.documents.naming import share_of
from penstock.engine import Penstock
from penstock.engine.failpoint import STEP, reach
from penstock.engine.lanes import wake_queues
from penstock.engine.queue import sql as queue_sql
from penstock.engine.trail import stamp_args
from penstock.errors import BadSetting, BadValue, PenstockError
from penstock.settings.arriving import SourceSettings

sql = statements(__file__)

KIND = "take_message"
POISON = "penstock:poison"  # in place of a payload: why nobody can use the message
ID_MAX = 1000  # bytes

arrivals = telemetry.counter(
    "penstock_inbox_messages_total",
    "Messages of sources that this process received: new, repeats, versions, conflicts",
    ("source", "outcome"),
)


@dataclass(frozen=True, slots=True)
class Message:
    """What a source has brought."""

    id: str  # the source's own; the same one again is the same message
    payload: Mapping[str, Any]  # JSON
    stored: Sequence[Stored] = ()  # bytes that came with it, which the payload names by their digest
    poison: str = ""  # why nobody can use it: it becomes a dead letter with this reason


@dataclass(frozen=True, slots=True)
class Position:
    """How far a source has been read, and the turn at which that was so."""

    value: Any
    turn: int
    swept_at: datetime | None = None
    sweep: Any = None  # where a comparison of everything goes on
    swept_ago: timedelta | None = None  # by the clock of the database


@dataclass(slots=True)
class Received:
    """What became of a batch."""

    new: int = 0
    repeats: int = 0
    versions: int = 0  # came before with other content, and are taken again
    conflicts: list[str] = field(default_factory=list)  # the same, and refused: their numbers at the source
    unneeded: list[str] = field(default_factory=list)  # keys in the blob store whose bytes were there already


class Overtaken(PenstockError):
    """Somebody else has moved the position of the source meanwhile: read it again."""


class Inbox:
    """Takes messages in. One for each process."""

    def __init__(self, app: Penstock, store: Store) -> None:
        self.app = app
        self.store = store

    def source(self, name: str) -> SourceSettings:
        """What is set for a source."""
        found = self.app.settings.sources.get(name)
        if found is None:
            raise BadSetting(f"There is no source {name} in the settings: add [sources.{name}] to penstock.toml.")
        return found

    # -- reading a source ---------------------------------------------------------------------------------------------

    async def position(self, source: str) -> Position:
        """Where to go on; its value is None for a source that was never read."""
        tenant = self.source(source).tenant
        row = await self._repeat(sql.read_position.first, source=source)
        if row is None:
            await self._repeat(sql.position.first, source=source, tenant=tenant)
            row = await self._repeat(sql.read_position.first, source=source)
        value, sweep = (None if text is None else json.loads(text) for text in (row["position"], row["sweep"]))
        return Position(value, row["turn"], row["swept_at"], sweep, row["swept_ago"])

    async def unknown(self, source: str, ids: Sequence[str]) -> list[str]:
        """Those of these messages that never came."""
        numbers = {checked_id(number): number for number in ids}  # a long one is kept in a shorter form
        found = await self._repeat(sql.unknown, source=source, message_ids=list(numbers))
        return [numbers[row["message_id"]] for row in found]

    async def news(self, source: str, messages: Sequence[Message]) -> list[Message]:
        """Those of these messages that never came, or came with other content, where that is a new version; writes nothing."""
        if not messages:
            return []
        numbers = [checked_id(message.id) for message in messages]
        rows = await self._repeat(
            sql.news,
            source=source,
            message_ids=numbers,
            digests=[hashlib.sha256(encode_payload(message).encode()).digest() for message in messages],
            by_number=self.source(source).on_change == "error",
        )
        wanted = {row["message_id"] for row in rows}
        return [message for number, message in zip(numbers, messages, strict=True) if number in wanted]

    async def find(self, source: str, message_id: str) -> tuple[int, str]:
        """The number of a message here, and its state."""
        row = await self._repeat(sql.find_message.first, source=source, message_id=checked_id(message_id))
        return row["id"], row["state"]

    async def room(self, source: str) -> int:
        """How many more messages may come until so many wait that they would only pile up."""
        most = self.source(source).waiting
        return max(0, most - int(await self._repeat(sql.waiting.value, source=source, most=most)))

    async def is_full(self, source: str) -> bool:
        """Whether there is no room."""
        return await self.room(source) == 0

    async def note_poll(self, source: str, finding: str = "") -> None:
        """The source has answered, and perhaps something is wrong with a part of it."""
        await self._repeat(sql.note_poll.run, source=source, finding=finding[:2000].replace("\0", ""))

    async def note_trouble(self, source: str, error: str) -> None:
        """The source does not answer; shown by `penstock sources` and `doctor` until it does."""
        tenant = self.source(source).tenant
        await self._repeat(sql.note_trouble.run, source=source, tenant=tenant, error=error[:2000].replace("\0", ""))

    async def note_sweep(self, source: str, sweep: Any, *, complete: bool) -> None:
        """How far the comparison of a whole source with the inbox has come."""
        await self._repeat(sql.note_sweep.run, source=source, sweep=json.dumps(sweep), complete=complete)

    # -- taking in ----------------------------------------------------------------------------------------------------

    async def receive(
        self,
        source: str,
        messages: Sequence[Message],
        *,
        position: Position | None = None,
        onward: Any = None,
        settings: SourceSettings | None = None,
    ) -> Received:
        """Keep a batch with its jobs and, if a position is given, move that to `onward`; all of it or, by raising, nothing.

        `settings` are for what is no source of the settings.
        """
        settings = settings or self.source(source)
        unique = {checked_id(message.id): message for message in messages}  # of two with one number the last one counts
        lane = (self.app.kinds[KIND].queue, KIND, share_of(settings.tenant, settings.collection))
        lanes = await self.app.lanes([lane])
        async with self.app.database.pool.transaction() as tx:
            if position is not None:
                moved = await sql.advance.value(
                    tx, source=source, turn=position.turn, position=json.dumps(onward, default=str)
                )
                if moved is None:
                    raise Overtaken(f"The source {source} was read by another worker at the same time.")
            done = await self._receive(tx, source, settings, unique, lanes[lane]) if unique else Received()
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
        self, tx: Session, source: str, settings: SourceSettings, messages: dict[str, Message], lane: int
    ) -> Received:
        numbers = [row[0] for row in await queue_sql.reserve_ids(tx, count=2 * len(messages))]
        rows = dict(zip(messages, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
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
        done = Received(new=len(new))
        if len(new) < len(messages):
            old = {key: digests[key] for key in messages if key not in new}
            again = await self._meet_again(tx, source, settings, old, done)
            await self._renew(
                tx, {row["id"]: (rows[key][1], digests[key], payloads[key]) for key, row in again.items()}
            )
            new |= {key: (row["id"], rows[key][1]) for key, row in again.items()}
        await self._keep_bytes(tx, settings, {number: messages[key] for key, (number, _) in new.items()}, done)
        unused = [each.key for key, message in messages.items() if key not in new for each in message.stored]
        done.unneeded += unused
        await self._add_jobs(tx, list(new.values()), lane)
        return done

    async def _meet_again(
        self,
        tx: Session,
        source: str,
        settings: SourceSettings,
        old: Mapping[str, bytes],
        done: Received,
    ) -> dict[str, Record]:
        """Messages that were here before: counted, refused, or to be taken again; the last are returned."""
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
        self, tx: Session, settings: SourceSettings, messages: Mapping[int, Message], done: Received
    ) -> None:
        stored = [each for message in messages.values() for each in message.stored]
        if not stored:
            return
        kept = await keep_blobs(tx, stored, tenant=settings.tenant)
        pairs = [(number, kept[each.digest].id) for number, message in messages.items() for each in message.stored]
        await sql.keep_bytes.run(
            tx, tenant=settings.tenant, messages=[number for number, _ in pairs], blobs=[blob for _, blob in pairs]
        )
        done.unneeded += [each.key for each in stored if kept[each.digest].key != each.key]

    async def _add_jobs(self, tx: Session, pairs: Sequence[tuple[int, int]], lane: int) -> None:
        """Not by `enqueue`: the rows of the messages name the jobs, so that their numbers come first."""
        if not pairs:
            return
        nothing: list[None] = [None] * len(pairs)
        await queue_sql.insert_keyed_jobs.run(
            tx,
            ids=[job for _, job in pairs],
            lanes=[lane] * len(pairs),
            priorities=[0] * len(pairs),
            args=stamp_args(self.app.kinds[KIND](message=number).args for number, _ in pairs),
            delays=nothing,
            keys=nothing,
            keeps=nothing,
        )
        await wake_queues(tx, {self.app.kinds[KIND].queue})

    async def _repeat(self, statement: Any, **values: Any) -> Any:
        return await self.app.database.pool.repeat(partial(statement, **values))


def encode_payload(message: Message) -> str:
    """Always the same text for the same content: its digest says whether a message has changed."""
    payload = {POISON: message.poison, **message.payload} if message.poison else message.payload
    try:
        return json.dumps(payload, sort_keys=True, ensure_ascii=True, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(f"The message {message.id[:100]!r} cannot be kept as JSON: {error}.") from None


def checked_id(number: str) -> str:
    """A message's number as it is kept; one that is too long is shortened to what still tells it from others."""
    clean = number.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if not clean:
        raise BadValue("A message has no number: set message_id_from to where its number is.")
    if len(clean.encode()) <= ID_MAX:
        return clean
    mark = hashlib.sha256(clean.encode()).hexdigest()
    return f"{clean.encode()[: ID_MAX - len(mark) - 1].decode(errors='ignore')}~{mark}"
