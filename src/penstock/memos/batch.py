"""A batch: the messages of a stream that are read together, in the words in which the model is shown them.

Which messages these are, and the mark around them, is decided once and kept as a step: a handler that runs again makes the same
questions of them, whatever has been posted or deleted meanwhile. The SQL is in batch.sql.
"""

import secrets
from dataclasses import dataclass
from typing import Any, Self

from penstock.database import Session, statements
from penstock.settings.memos import MemoSettings

sql = statements(__file__)

EARLIER = 6  # messages before the batch that are shown, so that "it" can be understood
EARLIER_LENGTH = 500  # characters of each of them


@dataclass(frozen=True, slots=True)
class Line:
    """A message as the model sees it; its number is its place in the batch, from 1 on."""

    seq: int
    author: str
    text: str
    at: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages behind `after` up to `upto`; without any, all of them were deleted."""

    stream: int
    tenant: str
    after: int
    upto: int
    mark: str  # nobody who writes a message can know it
    lines: list[Line]
    earlier: list[tuple[str, str]]  # author and text, the oldest first
    kinds: list[str]  # this and the next: settings as they were when it was read
    language: str
    confidence: float
    llm: str

    @classmethod
    def kept(cls, step: dict[str, Any]) -> Self:
        """From what `read_batch` has returned."""
        lines = [Line(*each) for each in step["lines"]]
        earlier = [(author, text) for author, text in step["earlier"]]
        return cls(**(step | {"lines": lines, "earlier": earlier}))

    def seq_of(self, number: int) -> int | None:
        """The message that the model calls by this number."""
        return self.lines[number - 1].seq if 1 <= number <= len(self.lines) else None


async def read_batch(
    session: Session, stream: int, after: int, chosen: MemoSettings, llm: str
) -> dict[str, Any] | None:
    """The next batch as JSON; None when the stream is gone, or somebody has been there before."""
    found = await sql.stream_of.first(session, stream=stream)
    if found is None or found["done"] != after or found["last"] == after:
        return None
    read = await sql.next_messages(
        session,
        stream=stream,
        after=after,
        most=chosen.batch,
        characters=chosen.characters,
        before=EARLIER,
        length=EARLIER_LENGTH,
    )
    # In the order in which they were said, as far as that is known: a source may bring them in another one.
    messages = sorted(read, key=lambda row: (row["at"] or row["received_at"], row["seq"]))
    rows = [row for row in messages if not row["earlier"]]
    return {
        "stream": stream,
        "tenant": found["tenant"],
        "after": after,
        # The row of the stream was read first: with no message left, all up to its `last` have been deleted.
        "upto": max((row["seq"] for row in rows), default=found["last"]),
        "mark": secrets.token_hex(12),
        "lines": [
            [row["seq"], row["author"], row["text"], f"{row['at'] or row['received_at']:%Y-%m-%d %H:%M}"]
            for row in rows
        ],
        "earlier": [[row["author"], row["text"]] for row in messages if row["earlier"]],
        "kinds": chosen.kind_names(),
        "language": chosen.language,
        "confidence": chosen.confidence,
        "llm": llm,
    }


async def forget_questions(tx: Session, job: int) -> list[int]:
    """Of a batch that is over: keep what the model was asked and has answered no longer; the fan-outs that it had."""
    fanouts: list[int] = await sql.questions_of.value(tx, job=job)
    if fanouts:
        await sql.forget_questions.run(tx, fanouts=fanouts)
    return fanouts
