"""`doctor --fix`: applies the fixes that are safe without a person, and reports each.

A fix is safe if it changes no job, no document and no decision of an operator: vacuuming and analyzing tables, the policies
that separate tenants, schedules that no code declares any more, and running the checks now. Closing a breaker, redriving
dead jobs, ending a pause, a process or a transaction are left to a person.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

import asyncpg

from penstock.database import Session, Statement, reach_database, statements
from penstock.engine import remove_schedule, run_schedule
from penstock.errors import BadJob
from penstock.operations.doctor.doctor import OLD_AFTER, examine
from penstock.operations.doctor.finding import Finding
from penstock.operations.doctor.server import DEAD_ROWS
from penstock.settings import Settings

sql = statements(__file__)

LONG = 3600.0  # seconds that a vacuum of a large table may take
QUEUED = frozenset({"checks-stale", "invariants-stale"})  # fixed by a job, which runs later


@dataclass(frozen=True)
class FixAttempt:
    """A finding, and what was done about it or why nothing could be done."""

    finding: Finding
    fixed: bool
    said: str

    @property
    def sentence(self) -> str:
        return f"{'Fixed' if self.fixed else 'Could not fix'} {self.finding.name}: {self.said}"


class NothingFixed(Exception):
    """The fix could not be applied; its text is the reason."""


async def examine_and_fix(
    settings: Settings, *, old_after: timedelta = OLD_AFTER, dead_rows: int = DEAD_ROWS
) -> tuple[list[Finding], list[FixAttempt]]:
    """Fix what is safe to fix; what is found after that, and the attempts. A finding that is still there was not fixed."""
    findings = await examine(settings, old_after=old_after, dead_rows=dead_rows)
    attempts = await fix(settings, findings)
    if not attempts:
        return findings, []
    findings = await examine(settings, old_after=old_after, dead_rows=dead_rows)
    left = {(finding.name, finding.subject) for finding in findings}
    return findings, [
        replace(each, fixed=False, said=f"{each.said} It is found again all the same.")
        if each.fixed and each.finding.name not in QUEUED and (each.finding.name, each.finding.subject) in left
        else each
        for each in attempts
    ]


async def fix(settings: Settings, findings: Iterable[Finding]) -> list[FixAttempt]:
    """Try those that can be fixed, on a direct connection: a pooler would not wait for a vacuum."""
    fixable = [finding for finding in findings if finding.fixable]
    if not fixable:
        return []
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor", direct=True)
        try:
            await session.execute("set statement_timeout = 0")
            return [await _try(session, finding) for finding in fixable]
        finally:
            session.terminate()


async def _try(session: Session, finding: Finding) -> FixAttempt:
    try:
        return FixAttempt(finding, True, await FIXES[finding.name](session, finding))
    except (NothingFixed, BadJob) as reason:  # the latter: a schedule that a worker declares again
        return FixAttempt(finding, False, str(reason))
    except asyncpg.PostgresError as error:  # such as a table of another owner
        return FixAttempt(finding, False, f"PostgreSQL refused it ({error}).")


async def _vacuum(session: Session, finding: Finding) -> str:
    await _execute(session, sql.vacuum, finding)
    return f"Vacuumed the table {finding.evidence['name']}."


async def _analyze(session: Session, finding: Finding) -> str:
    await _execute(session, sql.analyze, finding)
    return f"Refreshed the statistics of the table {finding.evidence['name']}."


async def _let_vacuum(session: Session, finding: Finding) -> str:
    await _execute(session, sql.let_vacuum, finding)
    return f"Turned autovacuum on again for the table {finding.evidence['name']}."


async def _execute(session: Session, statement: Statement, finding: Finding) -> None:
    """Run the statement that is made for the table of the finding."""
    row = await statement.first(session, name=finding.evidence["name"])
    if row is None:
        raise NothingFixed(f"The table {finding.evidence['name']} does not exist any more.")
    await session.execute(row["statement"], timeout=LONG)


async def _remove(session: Session, finding: Finding) -> str:
    name, fairness_key = finding.evidence["name"], finding.evidence["fairness_key"]
    if not await remove_schedule(session, name, fairness_key):
        raise NothingFixed(f"The schedule {name} of the fairness key {fairness_key} was removed meanwhile.")
    return f"Removed the retired schedule {name} of the fairness key {fairness_key}."


async def _guard(session: Session, finding: Finding) -> str:
    await sql.guard_all.run(session)
    if not await sql.is_guarded.value(session):
        raise NothingFixed(
            "The roles penstock_fleet and penstock_request do not exist: a superuser has to create them."
        )
    return "Turned row-level security on for all tables."


async def _run(session: Session, finding: Finding) -> str:
    name = finding.command.split()[-1]
    job = await run_schedule(session, name, "_system")
    if job is None:
        raise NothingFixed(f"The schedule {name} does not exist: start a worker that declares it.")
    return f"Enqueued job {job} of the schedule {name}."


FIXES: dict[str, Callable[[Session, Finding], Awaitable[str]]] = {
    "autovacuum-off": _let_vacuum,
    "bloat": _vacuum,
    "checks-stale": _run,
    "invariants-stale": _run,
    "schedule-retired": _remove,
    "statistics-stale": _analyze,
    "unguarded": _guard,
}
