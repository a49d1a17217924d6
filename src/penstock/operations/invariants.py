"""Invariants: numbered queries that must return no row, the same in production and in the tests.

    await check_invariants(database)          # some pages of each, as a schedule does it; it goes on there the next time
    await verify(database)                    # all pages of all, as `penstock invariants` does it

A violation is kept as a finding of the check `invariant-07` (documents/integrity), open until the check does not find it any
more: `doctor` and the metrics report these. Nothing is repaired here; documents/integrity repairs documents.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncpg import Record

from penstock.database import Database, Session, Statement, statements
from penstock.documents import integrity
from penstock.engine import Context, Penstock
from penstock.search import VectorTable, models_of

sql = statements(__file__)

QUEUE = "upkeep"
PREFIX = "invariant-"
PAGE = 1000
PAGES = 50  # of each in one run of the schedule
SECONDS = 5.0  # after which an invariant leaves the rest to the next run
CHUNKS = 20_000  # of a page of versions that search sees, but for a single one that has more
NOTED = 100  # violations of a page that are kept: a million wrong rows shall not become a million findings
SHOWN = 20  # violations in an answer


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule: its number, its statement, and the pages that it goes through; none for small tables."""

    number: int
    name: str
    rule: str
    over: str = ""

    @property
    def check(self) -> str:
        return f"{PREFIX}{self.number:02}"


RULES = (
    ("job_is_alive_or_over", "A job is alive or in the history, never both.", "jobs"),
    ("job_ends_once", "A job ends once.", "history"),
    ("running_has_an_owner", "A running job has a worker, or is rescued.", "jobs"),
    ("later_has_a_due_time", "A job for later becomes ready when it is due.", "jobs"),
    ("waiting_has_a_blocker", "A waiting job waits for jobs that exist.", "jobs"),
    ("ready_has_a_lane", "Every live job is in a lane, where a claim finds it.", "jobs"),
    ("live_attempts_are_counted", "The number of a live job's attempt is that of its tries.", "jobs"),
    (
        "past_attempts_are_counted",
        "The number of the last attempt of a job that is over is that of its tries.",
        "history",
    ),
    ("only_the_last_attempt_counts", "A job that is done was done once, by its newest attempt.", "history"),
    ("unique_job_has_its_key", "A unique job that is alive holds its key.", "jobs"),
    ("key_has_its_job", "A key that is held is held by a live job.", "keys"),
    ("children_are_counted", "A fan-out counts the children that it has.", "fanouts"),
    ("permits_are_within_the_limit", "No more permits are given than a limit has.", ""),
    ("schedules_are_unique", "No two schedules do the same.", ""),
    ("connections_are_within_the_budget", "The fleet may open no more connections than there are.", ""),
    ("queued_document_has_a_job", "A queued document has a job that will end it.", "queued"),
    ("live_version_is_indexed", "What search sees has all of its chunks and postings, and is not hidden.", "live"),
    ("live_version_is_embedded", "What search sees has all of its vectors.", "live"),
    ("version_has_its_bytes", "A version that counts has its bytes.", "versions"),
    ("accepted_document_is_somewhere", "Accepted = ready + failed + deleted + in flight.", "events"),
    ("deleted_document_is_in_line", "A deleted document waits for its removal, or has a receipt.", "documents"),
    ("members_follow_their_packet", "The documents of a packet follow it.", "packets"),
    ("taken_message_has_its_document", "A message that was taken has its document.", "inbox"),
    ("waiting_message_has_a_job", "A message that waits has a job that takes it.", "inbox"),
    ("live_memo_has_messages", "A memo that is live was made of messages that are there.", "memos"),
    ("replaced_memo_has_its_successor", "What a memo was merged into or superseded by is there.", "memos"),
    ("stream_counts_its_messages", "A stream is done up to a message that it has had.", "streams"),
    ("fact_stands_in_its_page", "A fact that can be found stands in its page, to the letter.", "facts"),
    ("fact_is_embedded", "A fact that can be found has its vector.", "facts"),
    ("entity_is_mentioned", "An entity is mentioned by a fact.", "entities"),
    ("facts_are_of_the_live_version", "Facts are current only of the version that search sees.", "extractions"),
    (
        "unpublished_is_not_live",
        "A version that waits for its vectors in Qdrant is the newest of its document, and not live.",
        "",
    ),
    ("leaving_points_are_unseen", "The vectors of a version that search sees are not removed.", ""),
)
INVARIANTS = tuple(Invariant(number, *rule) for number, rule in enumerate(RULES, 1))


@dataclass(slots=True)
class Verdict:
    invariant: Invariant
    subjects: int = 0
    violations: int = 0
    shown: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.invariant.number,
            "rule": self.invariant.rule,
            "subjects": self.subjects,
            "violations": self.violations,
            "shown": self.shown,
            "seconds": round(self.seconds, 3),
        }


class InvariantCheck:
    """An invariant as a check of documents/integrity, without a repair."""

    def __init__(self, database: Database, invariant: Invariant) -> None:
        self._database = database
        self._invariant = invariant
        self.name = invariant.check

    async def page(self, after: list[Any] | None) -> tuple[list[int], list[Any] | None]:
        over = self._invariant.over
        if not over:  # all of it is one page, of which only what is wrong is a subject
            return [row["subject"] for row in await self._database.pool.repeat(self._violations, ids=[])], None
        last = after[0] if after else "" if over == "keys" else 0
        values = {"after": last, "most": PAGE} | ({"chunks": CHUNKS} if over == "live" else {})
        rows: list[Record] = await self._database.pool.repeat(getattr(sql, f"page_{over}"), **values)
        whole = len(rows) < (1 if over == "live" else PAGE)
        onward = None if whole else [rows[-1]["last" if over == "keys" else "id"]]
        return [row["id"] for row in rows if over != "keys" or row["wrong"]], onward

    async def find(self, subjects: Sequence[int]) -> list[integrity.IntegrityFinding]:
        rows = await self._database.pool.repeat(self._violations, ids=list(subjects))
        asked = set(subjects)
        wrong = {row["subject"]: row for row in rows if row["subject"] in asked}
        return [
            integrity.IntegrityFinding(subject, row["said"], _advise(self._invariant, row), row["document"])
            for subject, row in sorted(wrong.items())[:NOTED]
        ]

    async def repair(self, found: integrity.IntegrityFinding) -> integrity.Repair | None:
        """None: a person has to find out the cause."""
        return None

    async def _violations(self, session: Session, ids: list[int]) -> list[Record]:
        statement: Statement = getattr(sql, self._invariant.name)
        if not self._invariant.over:
            return await statement(session)
        if self._invariant.name == "fact_is_embedded":
            return await _unembedded_facts(session, statement, ids)
        if self._invariant.name != "live_version_is_embedded":
            return await statement(session, ids=ids)
        rows: list[Record] = []
        for found in await sql.models(session):
            table = VectorTable(found["model"])
            if await table.exists(session):
                rows += await table.named(statement)(session, ids=ids, model=table.model)
        return rows


async def _unembedded_facts(session: Session, statement: Statement, ids: list[int]) -> list[Record]:
    rows: list[Record] = []
    for model in await models_of(session, "facts"):
        rows += await statement.named(facts_near_model=f"facts_near_{model}")(session, ids=ids, model=model)
    return rows


def _advise(invariant: Invariant, row: Record) -> str:
    if row["document"] is not None:
        return f"penstock why {row['document']}"
    return f"penstock why {row['subject']}" if invariant.over in {"jobs", "history", "inbox"} else "penstock invariants"


async def check_invariants(
    database: Database, *, pages: int = PAGES, seconds: float = SECONDS
) -> dict[int, dict[str, int]]:
    """Check some pages of each; how many rows were checked and how many violate it, by number."""
    done = {}
    for invariant in INVARIANTS:
        checked = await integrity.run_check(database, InvariantCheck(database, invariant), pages=pages, seconds=seconds)
        done[invariant.number] = {"subjects": checked.subjects, "violations": checked.found}
    return done


async def verify(database: Database, invariants: Sequence[Invariant] = INVARIANTS) -> list[Verdict]:
    """Check all pages of each, however long it takes; findings are noted and ended as by the schedule."""
    return [await _verify(database, invariant) for invariant in invariants]


async def _verify(database: Database, invariant: Invariant) -> Verdict:
    began, verdict, check = time.monotonic(), Verdict(invariant), InvariantCheck(database, invariant)
    await integrity.begin_check(database, check.name)
    subjects = await integrity.list_open(database, check.name)
    seen: set[int] = set()
    cursor: list[Any] | None = None
    first = True
    while True:
        if not first:
            subjects, cursor = await check.page(cursor)
            verdict.subjects += len(subjects) if invariant.over else 0
        found = await check.find(subjects) if subjects else []
        await integrity.end_gone(database, check.name, subjects, found)
        await integrity.note_found(database, check.name, found)
        new = [each for each in found if each.subject not in seen]
        seen.update(each.subject for each in new)
        verdict.violations += len(new)
        verdict.shown += [each.sentence for each in new][: SHOWN - len(verdict.shown)]
        if not first and cursor is None:
            break
        first = False
    verdict.seconds = time.monotonic() - began
    return verdict


async def count_violations(session: Session) -> dict[int, int]:
    """By number, as the last checks have found them; of invariants that were ever checked."""
    rows = await sql.count_violations(session)
    return {int(row["name"].removeprefix(PREFIX)): row["violations"] for row in rows}


class Inspection:
    """The job that checks some pages of the invariants every ten minutes, declared by the worker (cli/server.py)."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        kind = app.job(queue=QUEUE, timeout="10m", retries=1)(self.check_invariants)
        app.schedule("check-invariants", "every 10m", kind(), overlap="skip")

    async def check_invariants(self, ctx: Context) -> dict[str, dict[str, int]]:
        """How many rows were checked and how many violate an invariant, for the history."""
        return {str(number): counts for number, counts in (await check_invariants(self._app.database)).items()}
