"""Memos: what was worth remembering, written with the mark of how far its stream has been read, and found again.

    async with ctx.finish() as tx:
        await save(tx, harvest, …)                # memos, messages, vectors, what they merge and supersede, and `done`
    found = await find_memos(database, models, Question("what is the gate made of", "default"), chosen)

The SQL is in memo.sql and, of the stream, in batch.sql.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.database import Database, Session, Statement, statements
from penstock.memos.batch import Batch, forget_questions
from penstock.memos.batch import sql as batch_sql
from penstock.memos.finding import Finding
from penstock.memos.verdict import NEAR, Node, Outcome, Pair, decide
from penstock.models import Models
from penstock.search.likeness import Likeness, templates, written
from penstock.search.rank import Ranking, fuse
from penstock.settings.memos import MemoSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)

STREAMS = 1_000  # that are searched by meaning when none is named: those that were last written to
DEPTH = 200  # of each ranking
SHOWN = 500  # characters of a message beside a memo


class Overtaken(Exception):
    """The stream is gone, or somebody else has made memos of this batch; nothing was written."""


@dataclass(frozen=True)
class Harvest:
    """All that the model has said of a batch."""

    batch: Batch
    findings: Sequence[Finding]
    pairs: Sequence[Pair] = ()
    verdicts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A memo for a person."""

    id: int
    stream: str
    text: str
    kind: str
    confidence: float
    state: str
    merged_into: int | None
    superseded_by: int | None
    llm: str
    created_at: datetime
    changed_at: datetime
    messages: list[dict[str, Any]] = field(default_factory=list)  # number, message_id, author, at, text


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, and where."""

    text: str
    tenant: str
    stream: int | None = None
    k: int = 10
    every: bool = False  # also those that were merged or superseded


# -- making ---------------------------------------------------------------------------------------------------------------


async def nearest_live(
    session: Session, likeness: Likeness, stream: int, vectors: "NDArray[np.float32]", alike: float
) -> dict[int, list[tuple[int, str, float]]]:
    """For each vector, by its place, the nearest live memos of the stream: number, text, cosine."""
    statement = await _about(session, likeness, sql.nearest_live)
    asked = [written(vector) for vector in vectors]
    found: dict[int, list[tuple[int, str, float]]] = {}
    for row in await statement(session, asked=asked, stream=stream, most=NEAR, alike=alike):
        found.setdefault(row["place"], []).append((row["id"], row["text"], row["cosine"]))
    return found


async def _about(session: Session, likeness: Likeness, statement: Statement) -> Statement:
    """The statement with the names of this model's table, which `Likeness` has checked."""
    schema = await templates.vector_schema.value(session)
    named = copy.copy(statement)
    named.text = named.text.replace("near_table", f'"{likeness.of}_near_{likeness.model}"')
    named.text = named.text.replace("vector_schema", str(schema))
    return named


async def save(
    tx: Session,
    harvest: Harvest,
    vectors: "NDArray[np.float32]",
    *,
    job: int,
    likeness: Likeness,
) -> int:
    """Write a harvest, and how far the stream has been read; the number of its newest message. `Overtaken` writes nothing."""
    batch = harvest.batch
    last = await batch_sql.advance.value(tx, stream=batch.stream, after=batch.after, upto=batch.upto)
    if last is None:
        raise Overtaken
    if harvest.findings:
        await _write(tx, harvest, vectors, job, likeness)
    await forget_questions(tx, job)
    return int(last)


async def _write(tx: Session, harvest: Harvest, vectors: "NDArray[np.float32]", job: int, likeness: Likeness) -> None:
    found = await sql.what_is_left.first(
        tx,
        stream=harvest.batch.stream,
        messages=sorted({seq for finding in harvest.findings for seq in finding.messages}),
        memos=[pair.older.number for pair in harvest.pairs if not pair.older.is_new],
        count=len(harvest.findings),
    )
    assert found is not None  # noqa: S101  it is a list of lists
    left = set(found["messages"])
    present = [place for place, finding in enumerate(harvest.findings) if not left.isdisjoint(finding.messages)]
    if present:
        outcome = decide(harvest.pairs, harvest.verdicts, set(found["memos"]), present)
        ids = sorted(found["ids"])[: len(present)]
        await _Rows(harvest, outcome, dict(zip(present, ids, strict=True))).write(tx, left, job)
        await likeness.put(tx, harvest.batch.stream, ids, vectors[present])


@dataclass(frozen=True, slots=True)
class _Rows:
    """A harvest as rows: findings by their place have numbers now."""

    harvest: Harvest
    outcome: Outcome
    ids: Mapping[int, int]

    async def write(self, tx: Session, left: set[int], job: int) -> None:
        batch, findings = self.harvest.batch, [self.harvest.findings[place] for place in self.ids]
        merged = [self._number(self.outcome.merged.get(place)) for place in self.ids]
        superseded = [self._number(self.outcome.superseded.get(Node(True, place))) for place in self.ids]
        await sql.add_memos.run(
            tx,
            tenant=batch.tenant,
            stream=batch.stream,
            language=batch.language,
            llm=batch.llm,
            job=job,
            ids=list(self.ids.values()),
            texts=[finding.text for finding in findings],
            kinds=[finding.kind for finding in findings],
            confidences=[finding.confidence for finding in findings],
            merged=merged,
            superseded=superseded,
        )
        old = {node.number: self._number(by) for node, by in self.outcome.superseded.items() if not node.is_new}
        if old:
            await sql.supersede.run(tx, ids=list(old), bys=list(old.values()))
        links = sorted(self._links(left))
        memos, numbers = [memo for memo, _ in links], [seq for _, seq in links]
        await sql.link.run(tx, stream=batch.stream, tenant=batch.tenant, memos=memos, numbers=numbers)

    def _links(self, left: set[int]) -> set[tuple[int, int]]:
        """Each memo with its own messages, and with those of what was merged into it."""
        links = set()
        for place, number in self.ids.items():
            holder = self._number(self.outcome.merged.get(place))
            for seq in left.intersection(self.harvest.findings[place].messages):
                links |= {(number, seq)} if holder is None else {(number, seq), (holder, seq)}
        return links

    def _number(self, node: Node | None) -> int | None:
        if node is None:
            return None
        return self.ids[node.number] if node.is_new else node.number


# -- asking ---------------------------------------------------------------------------------------------------------------


async def list_memos(
    session: Session, *, tenant: str, stream: int | None = None, after: int = 0, most: int = 100, every: bool = False
) -> list[Shown]:
    """By number."""
    rows = await sql.list_memos(session, tenant=tenant, stream=stream, after=after, most=most, every=every)
    return await show_memos(session, [row["id"] for row in rows], tenant=tenant, every=every)


async def find_memos(database: Database, models: Models, question: Question, chosen: MemoSettings) -> list[Shown]:
    """The memos that answer best, by words and by meaning."""
    [vector] = await models.open(chosen.model).embed([question.text])
    ids = await database.pool.repeat(
        partial(
            _rank, question=question, vector=vector, language=chosen.language, likeness=Likeness("memos", chosen.model)
        )
    )
    return await database.pool.repeat(
        partial(show_memos, ids=ids[: question.k], tenant=question.tenant, every=question.every)
    )


async def _rank(
    session: Session, question: Question, vector: "NDArray[np.float32]", language: str, likeness: Likeness
) -> list[int]:
    rows = await sql.find_words(
        session,
        language=language,
        question=question.text,
        tenant=question.tenant,
        stream=question.stream,
        every=question.every,
        most=DEPTH,
    )
    streams = [question.stream] if question.stream is not None else []
    if not streams:
        recent = await sql.recent_streams(session, tenant=question.tenant, most=STREAMS)
        streams = [row["id"] for row in recent]
    near = await likeness.nearest(session, streams, vector, DEPTH)
    known = [number for number, cosine in near if cosine > 0]
    if not question.every:
        live = {row["id"] for row in await sql.live_memos(session, ids=known)}
        known = [number for number in known if number in live]
    if not rows and not known:
        return []
    fused = fuse([(_ranking([row["id"] for row in rows]), 1.0), (_ranking(known), 1.0)])
    return [int(number) for number in fused.keys]


def _ranking(ids: Sequence[int]) -> Ranking:
    import numpy as np

    return Ranking(np.array(ids, dtype=np.int64), np.linspace(1.0, 0.0, len(ids)))


async def show_memos(session: Session, ids: Sequence[int], *, tenant: str, every: bool = True) -> list[Shown]:
    """In the order of their numbers given, each with its messages; those that are not there are left out."""
    rows = {row["id"]: row for row in await sql.show_memos(session, ids=list(ids), tenant=tenant, every=every)}
    messages: dict[int, list[dict[str, Any]]] = {}
    for row in await sql.messages_of(session, ids=list(rows), length=SHOWN):
        told = {"number": row["seq"], **{key: row[key] for key in ("message_id", "author", "at", "text")}}
        messages.setdefault(row["memo_id"], []).append(told)
    return [Shown(**rows[number], messages=messages.get(number, [])) for number in ids if number in rows]
