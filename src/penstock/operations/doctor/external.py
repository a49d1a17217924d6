"""Findings about what documents need from other systems: the sources that they come from, and language models.

Sources: one does not answer, no worker reads it, too many of its messages wait. The sentences are those of `penstock why`
(documents/inbox.py). Language models: jobs wait for one that no worker has configured, or documents have incomplete facts.
"""

import shlex

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents import COUNTED_TO, message_kind, tell_source
from penstock.engine import WorkerState
from penstock.engine.inspect import WaitingLane
from penstock.operations.doctor.finding import WORKER, Finding
from penstock.pipelines import KIND
from penstock.settings import Settings
from penstock.text import counted

sql = statements(__file__)

MESSAGES = message_kind("")  # how the kinds of jobs of all sources begin
NAMES = {"trouble": "source-trouble", "late": "source-late", "full": "source-full"}


async def examine_sources(session: Session, settings: Settings) -> list[Finding]:
    """The sources of all tenants: doctor is for operators."""
    rows = {row["name"]: row for row in await sql.sources(session, most=COUNTED_TO + 1)}
    return [
        *(finding for row in rows.values() if (finding := _examine(row, settings)) is not None),
        *_examine_unread(settings, rows),
    ]


def _examine(row: Record, settings: Settings) -> Finding | None:
    state = tell_source(f"The source {row['name']}", dict(row), settings.sources.get(row["name"]))
    if state.because not in NAMES:
        return None
    command = f"penstock sources check {row['name']}" if state.because == "trouble" else WORKER
    return Finding(NAMES[state.because], state.sentence, command, dict(row), subject=row["name"])


def _examine_unread(settings: Settings, known: dict[str, Record]) -> list[Finding]:
    unread = sorted(name for name, chosen in settings.sources.items() if chosen.type != "webhook" and name not in known)
    return [
        Finding(
            "source-late", f"The source {name} was never read: no worker runs it.", WORKER, {"name": name}, subject=name
        )
        for name in unread
    ]


def is_source_lane(lane: WaitingLane) -> bool:
    """Whether its jobs are messages of a source of the settings."""
    return lane.kind.startswith(MESSAGES)


def examine_unserved_sources(lanes: list[WaitingLane], workers: list[WorkerState]) -> list[Finding]:
    """Messages that wait because no running worker has their source in its settings; they are not charged for it."""
    waiting: dict[str, int] = {}
    for lane in lanes:
        if workers and is_source_lane(lane) and not (lane.open or lane.paused or lane.shut):
            name = lane.kind.removeprefix(MESSAGES)
            waiting[name] = waiting.get(name, 0) + lane.ready
    return [
        Finding(
            "source-unserved",
            f"No running worker has the source {name} in its settings: {counted(count, 'message')} "
            f"{'waits' if count == 1 else 'wait'}. Add [sources.{name}] to the settings of a worker and restart it:",
            WORKER,
            {"source": name, "messages": count},
            subject=name,
        )
        for name, count in sorted(waiting.items())
    ]


async def examine_llms(session: Session, lanes: list[WaitingLane], workers: list[WorkerState]) -> list[Finding]:
    """Jobs that found no model, and requests for a model that no running worker has."""
    row = await sql.waiting_for_llm.first(session)
    count, oldest = (row["count"], row["oldest"]) if row is not None else (0, None)
    asked: dict[str, int] = {}
    for lane in lanes:
        if workers and lane.kind.startswith(f"{KIND}.") and not (lane.open or lane.paused or lane.shut):
            name = lane.kind.removeprefix(f"{KIND}.")
            asked[name] = asked.get(name, 0) + lane.ready
    if not count and not asked:
        return []
    parts = [f"{counted(number, 'request')} for {name}" for name, number in sorted(asked.items())]
    if count:
        parts.insert(0, f"{counted(count, 'job')}, of which job {oldest} is the oldest")
    said = (
        f"Jobs are waiting for a language model that no running worker has configured: {'; '.join(parts)}. "
        "Add a table [llms.NAME] with its url and model to the settings of the workers, or start a worker that has it:"
    )
    command = _start(min(asked, default="main"))
    return [Finding("no-llm", said, command, {"jobs": count, "oldest": oldest, "requests": asked})]


def _start(name: str) -> str:
    """A worker with this model; the operator fills in `…`. `env` accepts names that a shell does not."""
    prefix = f"PENSTOCK_LLMS__{name.upper()}__"
    return f"env '{prefix}URL=https://…' '{prefix}MODEL=…' penstock worker"


async def examine_facts(session: Session) -> list[Finding]:
    """By collection: the number of documents with windows that the model has not answered, and one reason."""
    return [
        Finding(
            "facts-partial",
            f"{counted(row['documents'], 'document')} of the collection {row['collection']} "
            f"{'has' if row['documents'] == 1 else 'have'} incomplete facts, document {row['document']} because: "
            f"{str(row['reason']).rstrip('.')}. Only the missing windows are asked for again.",
            f"penstock extract {shlex.quote(row['collection'])}",
            {"collection": row["collection"], "documents": row["documents"], "document": row["document"]},
            subject=row["collection"],
            count=row["documents"],
        )
        for row in await sql.partly_read(session)
    ]
