"""Memos: written together with how far their stream has been read, listed, and searched by words and by meaning.

async with ctx.finish() as tx:
    await save(tx, answer, …)                 # memos, messages, vectors, what they merge and supersede, and `done`
found = await find_memos(database, models, MemoQuestion("what is the gate made of", "default"), chosen)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from penstock.database import Database, Session, statements
from penstock.memos.batch import MessageBatch, advance, forget_questions
from penstock.memos.candidates import NEAR, Candidate, MemoNode, MergeOutcome, Pair, decide
from penstock.models import Models
from penstock.search import RowSearch, RowVectors, embed_question, written
from penstock.settings import MemoSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

sql = statements(__file__)

STREAMS = 1_000  # that are searched by meaning when none is named: those that were last written to
SEARCH = RowSearch("memos", depth=200, candidates=200, weight=1.0, least=0.0)
SHOWN = 500  # characters of a message that are shown with a memo


class BatchOvertaken(Exception):
    """The stream was deleted, or another job has made memos of this batch; nothing was written."""


@dataclass(frozen=True)
class BatchAnswer:
    batch: MessageBatch
    candidates: Sequence[Candidate]
    pairs: Sequence[Pair] = ()
    verdicts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MemoMessage:
    """A message that a memo was made of; of its text, the beginning."""

    number: int
    message_id: str
    author: str
    at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class Memo:
    """A memo, with the messages that it was made of."""

    id: int
    stream: str
    text: str
    kind: str
    confidence: float
    state: Literal["live", "merged", "superseded"]
    merged_into: Annotated[int | None, Field(description="The memo that says the same.")]
    superseded_by: Annotated[int | None, Field(description="The newer memo that contradicts it.")]
    llm: Annotated[str, Field(description="The language model that wrote it.")]
    created_at: datetime
    changed_at: datetime
    messages: list[MemoMessage]


@dataclass(frozen=True, slots=True)
class MemoQuestion:
    """A question, and the streams to search."""

    text: str
    tenant: str
    stream: int | None = None
    k: int = 10
    every: bool = False  # also those that were merged or superseded


# -- making ---------------------------------------------------------------------------------------------------------------


async def nearest_live(
    session: Session, row_vectors: RowVectors, stream: int, vectors: "NDArray[np.float32]", alike: float
) -> dict[int, list[tuple[int, str, float]]]:
    """For each vector, by its place, the nearest live memos of the stream: id, text, cosine."""
    statement = (await row_vectors.in_schema(session)).named(sql.nearest_live)
    asked = [written(vector) for vector in vectors]
    found: dict[int, list[tuple[int, str, float]]] = {}
    for row in await statement(session, asked=asked, stream=stream, most=NEAR, alike=alike):
        found.setdefault(row["place"], []).append((row["id"], row["text"], row["cosine"]))
    return found


async def save(
    tx: Session,
    answer: BatchAnswer,
    vectors: "NDArray[np.float32]",
    *,
    job: int,
    row_vectors: RowVectors,
) -> int:
    """Write the memos of a batch, and how far the stream has been read; the number of its newest message."""
    batch = answer.batch
    last = await advance(tx, batch)
    if last is None:
        raise BatchOvertaken
    if answer.candidates:
        await _write(tx, answer, vectors, job, row_vectors)
    await forget_questions(tx, job)
    return last


async def _write(
    tx: Session, answer: BatchAnswer, vectors: "NDArray[np.float32]", job: int, row_vectors: RowVectors
) -> None:
    found = await sql.what_is_left.first(
        tx,
        stream=answer.batch.stream,
        messages=sorted({seq for candidate in answer.candidates for seq in candidate.messages}),
        memos=[pair.older.number for pair in answer.pairs if not pair.older.is_new],
        count=len(answer.candidates),
    )
    assert found is not None  # noqa: S101  it is a list of lists
    left = set(found["messages"])
    present = [place for place, candidate in enumerate(answer.candidates) if not left.isdisjoint(candidate.messages)]
    if present:
        outcome = decide(answer.pairs, answer.verdicts, set(found["memos"]), present)
        ids = sorted(found["ids"])[: len(present)]
        await _Rows(answer, outcome, dict(zip(present, ids, strict=True))).write(tx, left, job)
        await row_vectors.put(tx, answer.batch.stream, ids, vectors[present])


@dataclass(frozen=True, slots=True)
class _Rows:
    """An answer as rows, with an id for each candidate."""

    answer: BatchAnswer
    outcome: MergeOutcome
    ids: Mapping[int, int]

    async def write(self, tx: Session, left: set[int], job: int) -> None:
        batch, candidates = self.answer.batch, [self.answer.candidates[place] for place in self.ids]
        merged = [self._id(self.outcome.merged.get(place)) for place in self.ids]
        superseded = [self._id(self.outcome.superseded.get(MemoNode(True, place))) for place in self.ids]
        await sql.add_memos.run(
            tx,
            tenant=batch.tenant,
            stream=batch.stream,
            language=batch.language,
            llm=batch.llm,
            job=job,
            ids=list(self.ids.values()),
            texts=[candidate.text for candidate in candidates],
            kinds=[candidate.kind for candidate in candidates],
            confidences=[candidate.confidence for candidate in candidates],
            merged=merged,
            superseded=superseded,
        )
        old = {node.number: self._id(by) for node, by in self.outcome.superseded.items() if not node.is_new}
        if old:
            await sql.supersede.run(tx, ids=list(old), bys=list(old.values()))
        links = sorted(self._links(left))
        memos, numbers = [memo for memo, _ in links], [seq for _, seq in links]
        await sql.link.run(tx, stream=batch.stream, tenant=batch.tenant, memos=memos, numbers=numbers)

    def _links(self, left: set[int]) -> set[tuple[int, int]]:
        """Each memo with its own messages, and with those of memos that were merged into it."""
        links = set()
        for place, memo_id in self.ids.items():
            holder = self._id(self.outcome.merged.get(place))
            for seq in left.intersection(self.answer.candidates[place].messages):
                links |= {(memo_id, seq)} if holder is None else {(memo_id, seq), (holder, seq)}
        return links

    def _id(self, node: MemoNode | None) -> int | None:
        if node is None:
            return None
        return self.ids[node.number] if node.is_new else node.number


# -- asking ---------------------------------------------------------------------------------------------------------------


async def list_memos(
    session: Session, *, tenant: str, stream: int | None = None, after: int = 0, most: int = 100, every: bool = False
) -> list[Memo]:
    """By id."""
    rows = await sql.list_memos(session, tenant=tenant, stream=stream, after=after, most=most, every=every)
    return await show_memos(session, [row["id"] for row in rows], tenant=tenant, every=every)


async def find_memos(database: Database, models: Models, question: MemoQuestion, chosen: MemoSettings) -> list[Memo]:
    """The memos that answer best, by words and by meaning."""
    asked = await embed_question(models, question.text, [chosen.model])
    ids = await database.pool.repeat(_rank, question=question, asked=asked, language=chosen.language)
    return await database.pool.repeat(show_memos, ids=ids[: question.k], tenant=question.tenant, every=question.every)


async def _rank(
    session: Session, question: MemoQuestion, asked: "Mapping[str, NDArray[np.float32]]", language: str
) -> list[int]:
    rows = await sql.find_words(
        session,
        language=language,
        question=question.text,
        tenant=question.tenant,
        stream=question.stream,
        every=question.every,
        most=SEARCH.depth,
    )
    streams = [question.stream] if question.stream is not None else []
    if not streams:
        recent = await sql.recent_streams(session, tenant=question.tenant, most=STREAMS)
        streams = [row["id"] for row in recent]

    async def visible(ids: list[int]) -> set[int]:
        return set(ids) if question.every else {row["id"] for row in await sql.live_memos(session, ids=ids)}

    words = [(row["id"], 0.0) for row in rows]
    ranking = await SEARCH.rank(session, streams, words, asked, visible)
    return [int(memo_id) for memo_id in ranking.keys]


async def show_memos(session: Session, ids: Sequence[int], *, tenant: str, every: bool = True) -> list[Memo]:
    """The memos in the order of the ids, each with its messages; missing ones are left out."""
    rows = {row["id"]: row for row in await sql.show_memos(session, ids=list(ids), tenant=tenant, every=every)}
    messages: dict[int, list[MemoMessage]] = {}
    for row in await sql.messages_of(session, ids=list(rows), length=SHOWN):
        told = MemoMessage(row["seq"], row["message_id"], row["author"], row["at"], row["text"])
        messages.setdefault(row["memo_id"], []).append(told)
    return [Memo(**rows[each], messages=messages.get(each, [])) for each in ids if each in rows]
