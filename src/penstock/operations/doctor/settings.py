"""Findings about settings that do not fit the machine, the server or the other workers, and about clocks that differ.

Settings that contradict each other are refused at the start already (settings/settings.py).
"""

import os
import time
from collections.abc import Iterator
from datetime import timedelta

from asyncpg import Record

from penstock.database import Session, statements
from penstock.operations.doctor.finding import Finding
from penstock.settings import Settings
from penstock.text import listed, span

sql = statements(__file__)

SKEW = timedelta(seconds=2)
CLOCKS = "date --utc +%FT%T && penstock db psql -At -c 'select penstock.now()'"


async def examine_settings(session: Session, settings: Settings) -> list[Finding]:
    return [
        *await _examine_clock(session),
        *_examine_memory(settings),
        *_examine_timeout(settings, await sql.statement_timeout.value(session)),
        *_examine_codes(await sql.codes(session)),
    ]


async def _examine_clock(session: Session) -> list[Finding]:
    """Stored times come from the database, so nothing breaks; but logs and files of this machine have other times."""
    before = time.time()
    there = float(await sql.clock.value(session))
    after = time.time()
    skew = timedelta(seconds=there - (before + after) / 2)
    if abs(skew) <= SKEW + timedelta(seconds=after - before):
        return []
    ahead = "ahead of" if skew > timedelta(0) else "behind"
    said = (
        f"The clock of the database is {span(skew)} {ahead} that of this machine: their logs cannot be compared, and buckets "
        "may refuse signed links. Penstock does not set clocks: correct the wrong one on its machine (with systemd: "
        "timedatectl set-ntp true). This shows both:"
    )
    return [Finding("clock-skew", said, CLOCKS, {"seconds": skew.total_seconds()})]


def _examine_memory(settings: Settings) -> Iterator[Finding]:
    chosen = settings.extraction
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    wanted = chosen.children * int(chosen.memory)
    if wanted <= there:
        return
    said = (
        f"extraction.children is {chosen.children} and extraction.memory {int(chosen.memory) // 2**20:,} MB: together "
        f"{wanted // 2**20:,} MB, and this machine has {there // 2**20:,} MB. Several large documents at once would end "
        "workers."
    )
    fitting = max(1, there // int(chosen.memory))
    evidence = {"children": chosen.children, "memory": int(chosen.memory), "machine": there}
    command = f"export PENSTOCK_EXTRACTION__CHILDREN={fitting}  # then restart"
    yield Finding("settings-clash", said, command, evidence, subject="extraction.memory")


def _examine_timeout(settings: Settings, milliseconds: int) -> Iterator[Finding]:
    theirs, ours = timedelta(milliseconds=milliseconds), settings.pool.call_timeout
    if not milliseconds or theirs >= ours:
        return
    said = (
        f"The server ends statements after {span(theirs)} (statement_timeout), and pool.call_timeout is "
        f"{span(ours)}: long statements fail as if the database were in trouble."
    )
    command = (
        f"export PENSTOCK_POOL__CALL_TIMEOUT={milliseconds}ms  # then restart; or raise statement_timeout of the role"
    )
    evidence = {"statement_timeout": milliseconds, "call_timeout": ours.total_seconds()}
    yield Finding("settings-clash", said, command, evidence, subject="pool.call_timeout")


def _examine_codes(rows: list[Record]) -> Iterator[Finding]:
    """A deploy that is stuck: a rolling deploy takes some minutes."""
    for row in rows:
        said = (
            f"Workers that serve {row['kind']} have had different code or settings for {span(row['since'])} "
            f"({listed(row['codes'])}): the outcome of a job depends on the worker that takes it. The oldest is "
            f"{row['name']} on {row['host']}; restart it with the code and settings of the others."
        )
        yield Finding("fleet-mixed", said, f"kill -TERM {row['pid']}", dict(row), subject=row["name"])
