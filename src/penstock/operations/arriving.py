"""What `doctor` finds at sources: one that does not answer, one that nobody reads, one whose messages pile up.

The words are those of `penstock why SOURCE` (documents/explain_inbox.py). The SQL is in arriving.sql.
"""

from asyncpg import Record

from penstock.database import Session, statements
from penstock.documents.explain_inbox import COUNTED_TO, tell_source
from penstock.operations.finding import Finding
from penstock.settings import Settings

sql = statements(__file__)

WORKER = "penstock worker"
NAMES = {"trouble": "source-trouble", "late": "source-late", "full": "source-full"}


async def examine_sources(session: Session, settings: Settings) -> list[Finding]:
    """Of all tenants: who runs it looks."""
    rows = {row["name"]: row for row in await sql.sources(session, most=COUNTED_TO + 1)}
    return [
        *(finding for row in rows.values() if (finding := _examine(row, settings)) is not None),
        *_examine_unread(settings, rows),
    ]


def _examine(row: Record, settings: Settings) -> Finding | None:
    because, said = tell_source(dict(row), settings.sources.get(row["name"]))
    if because not in NAMES:
        return None
    command = f"penstock sources check {row['name']}" if because == "trouble" else WORKER
    return Finding(NAMES[because], f"The source {row['name']} {said}", command, dict(row))


def _examine_unread(settings: Settings, known: dict[str, Record]) -> list[Finding]:
    unread = sorted(name for name, chosen in settings.sources.items() if chosen.type != "webhook" and name not in known)
    return [
        Finding("source-late", f"The source {name} was never read: no worker runs it.", WORKER, {"name": name})
        for name in unread
    ]
